"""Campaigns and their runs: the tables of files with `PRAGMA user_version` 1."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_JSON = sa.JSON().with_variant(sa.Text(), "sqlite")
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REAL: sa.types.TypeEngine[Any] = sa.Double().with_variant(sa.REAL(), "sqlite")


def _needed(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def upgrade() -> None:
    op.create_table(
        "campaigns",
        sa.Column("id", sa.Integer(), primary_key=True),
        *(_needed(name, sa.Text()) for name in ("key", "kind", "name", "git_commit")),
        _needed("dirty", sa.Integer()),
        _needed("source_digest", sa.Text()),
        _needed("options", _JSON),
        _needed("pid", sa.Integer()),
        _needed("created_at", sa.Text()),
        sa.Column("finished_at", sa.Text()),
    )
    op.create_index("campaigns_by_key", "campaigns", ["key"])
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("campaign", sa.Integer(), sa.ForeignKey("campaigns.id"), nullable=False),
        _needed("position", sa.Integer()),
        _needed("task", _JSON),
        *(_needed(n, sa.Text()) for n in ("kind", "workload", "config", "config_digest", "device")),
        _needed("seed", _BIG),
        _needed("latency", _BIG),
        _needed("stall", _REAL),
        _needed("git_commit", sa.Text()),
        _needed("dirty", sa.Integer()),
        _needed("status", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        *(sa.Column(name, sa.Text()) for name in ("started_at", "finished_at")),
        *(sa.Column(name, _BIG) for name in ("cycles", "macs", "compared")),
        sa.Column("counters", _JSON),
        *(sa.Column(name, _BIG) for name in ("read_bytes", "write_bytes")),
        sa.Column("wall_s", _REAL),
        sa.Column("message", sa.Text()),
        sa.Column("mismatch", _JSON),
        sa.Column("image_digest", sa.Text()),
        sa.Column("figures", _JSON),
        sa.UniqueConstraint("campaign", "position"),
    )

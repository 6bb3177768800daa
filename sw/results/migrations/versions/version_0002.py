"""Machines, workers, kinds of memory, predicted cycles and accuracy; who holds a campaign."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_JSON = sa.JSON().with_variant(sa.Text(), "sqlite")
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REAL: sa.types.TypeEngine[Any] = sa.Double().with_variant(sa.REAL(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "machines",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("digest", sa.Text(), nullable=False, unique=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("host", "cpu")),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("cores", "memory_mib")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("system", "python")),
        sa.Column("versions", _JSON, nullable=False),
    )
    _add("campaigns", sa.Column("host", sa.Text(), nullable=False, server_default=""))
    _add("campaigns", sa.Column("holder", sa.Text(), nullable=False, server_default=""))
    _add("campaigns", sa.Column("token", sa.Text()))
    _refer("campaigns")
    op.create_index("campaigns_by_token", "campaigns", ["token"], unique=True)
    op.create_index("campaigns_by_commit", "campaigns", ["git_commit"])
    _add("runs", sa.Column("memory", sa.Text(), nullable=False, server_default="ideal"))
    _add("runs", sa.Column("worker", sa.Text(), nullable=False, server_default=""))
    _refer("runs")
    _add("runs", sa.Column("predicted_cycles", _BIG))
    _add("runs", sa.Column("pcc", _REAL))
    _add("runs", sa.Column("duration_s", _REAL))
    op.create_index("runs_by_commit", "runs", ["git_commit"])
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "UPDATE runs SET duration_s = "
            "round((julianday(finished_at) - julianday(started_at)) * 86400, 3) "
            "WHERE started_at IS NOT NULL AND finished_at IS NOT NULL"
        )


def _add(table: str, column: sa.Column[Any]) -> None:
    op.add_column(table, column)


def _refer(table: str) -> None:
    # Alembic would add the foreign key in a second statement, which SQLite does not have.
    op.execute(f"ALTER TABLE {table} ADD COLUMN machine INTEGER REFERENCES machines(id)")

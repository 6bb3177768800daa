"""The database's tables as SQLAlchemy has them; `docs/results.md` describes them for queries.

The tables are made and changed by `migrations/versions/`; `VERSION` is the number of the last file
there. SQLite has it in `PRAGMA user_version` too, where releases without migrations look for it.
Times are text, UTC in ISO 8601. JSON is text in SQLite and of type json in PostgreSQL.
"""

import math
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

VERSION = 2
VERSION_TABLE = "results_schema"


def clean(text: str) -> str:
    """`text` as every database takes it: NUL and half surrogate pairs become escapes."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


class Text(TypeDecorator[str]):
    """Text that was cleaned on its way in."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


class Json(TypeDecorator[Any]):
    """A value as JSON; None is NULL. Numbers that JSON has not (NaN, infinities) become texts."""

    impl = sa.JSON
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(none_as_null=True)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _column(name: str, kind: Any, *more: Any, empty: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, *more, nullable=empty)


META = sa.MetaData()

MACHINES = sa.Table(
    "machines",
    META,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("digest", Text, nullable=False, unique=True),  # of all that follows
    _column("host", Text),
    _column("cpu", Text),  # its name
    _column("cores", sa.Integer),  # that the process may use
    _column("memory_mib", sa.Integer),
    _column("system", Text),
    _column("python", Text),
    _column("versions", Json),  # package -> version
)

CAMPAIGNS = sa.Table(
    "campaigns",
    META,
    sa.Column("id", sa.Integer, primary_key=True),
    _column("key", Text),  # kind, name, commit, sources, plan: what resumes what
    _column("kind", Text),  # regress, sweep, mutants, conformance, bench
    _column("name", Text),  # of the suite or space
    _column("git_commit", Text),  # 12 hex digits, or unknown
    _column("dirty", sa.Integer),  # 1: sources differed from the commit
    _column("source_digest", Text),
    _column("options", Json),
    _column("pid", sa.Integer),  # of the last process that ran it
    _column("created_at", Text),
    _column("finished_at", Text, empty=True),  # when nothing was left to run
    _column("host", Text),  # of that process
    _column("holder", Text),  # a random name of its hold on the campaign
    _column("token", Text, empty=True),  # a random name: what was written is found again by it
    _column("machine", sa.Integer, sa.ForeignKey("machines.id"), empty=True),
    sa.Index("campaigns_by_key", "key"),
    sa.Index("campaigns_by_token", "token", unique=True),
    sa.Index("campaigns_by_commit", "git_commit"),
)

RUNS = sa.Table(
    "runs",
    META,
    sa.Column("id", sa.Integer, primary_key=True),
    _column("campaign", sa.Integer, sa.ForeignKey("campaigns.id")),
    _column("position", sa.Integer),  # in the plan
    _column("task", Json),  # all that a worker needs
    _column("kind", Text),  # run, build, lint, …: `sw.results.task.Kind`
    _column("workload", Text),
    _column("config", Text),  # name
    _column("config_digest", Text),
    _column("device", Text),  # golden, rtl, none (predicted), or empty
    _column("seed", sa.BigInteger),
    _column("latency", sa.BigInteger),  # cycles
    _column("stall", sa.Double),  # probability
    _column("git_commit", Text),
    _column("dirty", sa.Integer),
    _column("status", Text),  # waiting, running, passed, failed, timeout, …
    _column("attempts", sa.Integer),
    _column("started_at", Text, empty=True),  # of the last attempt
    _column("finished_at", Text, empty=True),
    _column("cycles", sa.BigInteger, empty=True),
    _column("macs", sa.BigInteger, empty=True),
    _column("compared", sa.BigInteger, empty=True),  # elements
    _column("counters", Json, empty=True),  # engine -> state -> cycles
    _column("read_bytes", sa.BigInteger, empty=True),  # from the NPU's memory
    _column("write_bytes", sa.BigInteger, empty=True),
    _column("wall_s", sa.Double, empty=True),  # of the device alone
    _column("message", Text, empty=True),
    _column("mismatch", Json, empty=True),  # layer, instruction, text, element, expected, got
    _column("image_digest", Text, empty=True),
    _column("figures", Json, empty=True),  # what else was measured
    _column("memory", Text),  # ideal, ddr4, lpddr4
    _column("worker", Text),  # who carried out the last attempt; empty: the campaign's machine
    _column("machine", sa.Integer, sa.ForeignKey("machines.id"), empty=True),
    _column("predicted_cycles", sa.BigInteger, empty=True),
    _column("pcc", sa.Double, empty=True),  # accuracy
    _column("duration_s", sa.Double, empty=True),  # of the last attempt
    sa.UniqueConstraint("campaign", "position"),
    sa.Index("runs_by_commit", "git_commit"),
)

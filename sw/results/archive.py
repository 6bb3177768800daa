"""Campaigns and runs as they were stored, for those who look back.

Rows are plain values here, not tasks: a row of an older release, whose configurations had other
fields, can be read as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from sw.results.location import locate
from sw.results.schema import CAMPAIGNS, MACHINES, RUNS
from sw.results.store import Store
from sw.results.task import CampaignError

_LATEST = "latest"
_SHORTEST_COMMIT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFacts:
    """A row of `campaigns`. commit: `+` behind it if sources differed. counts: runs by status.
    machine: a row of `machines`, or None.
    """

    number: int
    kind: str
    name: str
    commit: str
    source_digest: str
    options: Mapping[str, Any]
    created_at: str
    finished_at: str | None
    process: str
    machine: Mapping[str, Any] | None
    counts: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "counts": dict(self.counts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Runs that a name stands for (`Archive.select`)."""

    label: str
    runs: tuple[Mapping[str, Any], ...]


def open_archive(where: str | Path) -> "Archive":
    """The database at `where`, which must be there; `CampaignError` if it is not."""
    path = locate(where).path
    if path is not None and not path.exists():
        raise CampaignError(f"database {path}: no such file; say which one with --db")
    return Archive(Store(where))


class Archive:
    """What a database has; to be closed as a `Store` is."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def campaigns(
        self, *, kind: str = "", name: str = "", limit: int | None = None, number: int | None = None
    ) -> list[CampaignFacts]:
        """The newest first; of one kind, of one name, with one number."""
        query = sa.select(CAMPAIGNS).order_by(CAMPAIGNS.c.id.desc())
        query = query.where(CAMPAIGNS.c.kind == kind) if kind else query
        query = query.where(CAMPAIGNS.c.name == name) if name else query
        query = query.where(CAMPAIGNS.c.id == number) if number is not None else query
        query = query.limit(limit) if limit is not None else query

        def read(connection: sa.Connection) -> list[CampaignFacts]:
            rows = connection.execute(query).mappings().all()
            machines = {
                row["id"]: dict(row) for row in connection.execute(sa.select(MACHINES)).mappings()
            }
            counts = _counts(connection, [row["id"] for row in rows])
            return [_facts(dict(row), machines, counts.get(row["id"], {})) for row in rows]

        return self.store.database.read(read)

    def campaign(self, number: int) -> CampaignFacts:
        """One campaign; `CampaignError` if there is none of that number."""
        found = self.campaigns(number=number)
        if not found:
            raise CampaignError(
                f"campaign {number}: {self.store.location} has none; systola "
                "results list shows those that there are"
            )
        return found[0]

    def runs(self, campaigns: Sequence[int] | None = None) -> list[Mapping[str, Any]]:
        """Every column of every run, with those of its campaign as `campaign_kind`, …; in order."""
        columns = (
            *(CAMPAIGNS.c.kind.label("campaign_kind"), CAMPAIGNS.c.name.label("campaign_name")),
            CAMPAIGNS.c.source_digest,
        )
        query = sa.select(RUNS, *columns).join_from(RUNS, CAMPAIGNS)
        query = query.order_by(RUNS.c.campaign, RUNS.c.position)
        if campaigns is not None:
            query = query.where(RUNS.c.campaign.in_(campaigns))
        rows = self.store.database.read(lambda c: c.execute(query).mappings().all())
        return [MappingProxyType(dict(row)) for row in rows]

    def select(self, text: str, *, kind: str = "", name: str = "") -> Selection:
        """The runs that `text` names: a campaign's number, `latest`, `latest~2`, or a commit.

        `latest` is the newest campaign of `kind` and `name`; where they are not given, it is the
        newest of all, and `latest~1` the one before it of the same kind and name. A commit is the
        beginning of its digits, with `+` for runs on changed sources; of equal runs the newest
        counts. `CampaignError` if there is nothing of it.
        """
        if text == _LATEST or text.startswith(f"{_LATEST}~"):
            facts = self._latest(text, kind, name)
        elif text.isdecimal() and self.campaigns(number=int(text)):
            facts = self.campaign(int(text))
        else:
            return self._of_commit(text, kind, name)
        label = f"campaign {facts.number} ({facts.kind} {facts.name}, {facts.commit})"
        return Selection(label=label, runs=tuple(self.runs([facts.number])))

    def _latest(self, text: str, kind: str, name: str) -> CampaignFacts:
        back = text.removeprefix(_LATEST).removeprefix("~") or "0"
        if not back.isdecimal():
            raise CampaignError(f"{text!r}: must be latest, or latest~1 for the one before it")
        newest = self.campaigns(kind=kind, name=name, limit=1)
        found = newest and self.campaigns(
            kind=newest[0].kind, name=newest[0].name, limit=int(back) + 1
        )
        if len(found) <= int(back):
            of = " ".join(filter(None, ("campaigns", kind and f"of kind {kind}", name)))
            raise CampaignError(f"{text}: {self.store.location} has {len(found)} {of}")
        return found[-1]

    def _of_commit(self, text: str, kind: str, name: str) -> Selection:
        digits = text.removesuffix("+")
        is_commit = len(digits) >= _SHORTEST_COMMIT and not set(digits) - set("0123456789abcdef")
        if not is_commit:
            raise CampaignError(
                f"{text!r}: must be the number of a campaign, latest, latest~1, or a commit of "
                f"{_SHORTEST_COMMIT} digits or more"
            )
        near = [c for c in self.campaigns(kind=kind, name=name) if c.commit.startswith(digits)]
        wanted = [c for c in near if c.commit.endswith("+") is text.endswith("+")]
        commits = sorted({c.commit for c in wanted})
        if len(commits) != 1:
            others = commits or sorted({c.commit for c in near})
            hint = f"; there are {', '.join(others)}" if others else ""
            count = "several commits begin so" if commits else "no campaign of that commit"
            raise CampaignError(f"{text}: {count} in {self.store.location}{hint}")
        newest = {run_key(row): row for row in self.runs(sorted(c.number for c in wanted))}
        return Selection(label=f"commit {commits[0]}", runs=tuple(newest.values()))


def run_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes two rows the same run, in two campaigns: what ran, on what, with which memory."""
    names = ("kind", "workload", "config_digest", "config", "device", "seed")
    return (*(row[name] for name in names), row["memory"], row["latency"], row["stall"])


def run_title(row: Mapping[str, Any]) -> str:
    """For people: what, on what, with which memory."""
    parts = [row["workload"] or row["kind"], row["config"], row["device"], f"seed {row['seed']}"]
    if row["memory"] != "ideal":
        parts.append(row["memory"])
    elif (row["latency"], row["stall"]) != (100, 0.0):
        parts.append(f"latency {row['latency']} stall {row['stall']:g}")
    return " ".join(filter(None, parts))


def _counts(connection: sa.Connection, campaigns: Sequence[int]) -> dict[int, dict[str, int]]:
    query = (
        sa.select(RUNS.c.campaign, RUNS.c.status, sa.func.count())
        .where(RUNS.c.campaign.in_(campaigns))
        .group_by(RUNS.c.campaign, RUNS.c.status)
    )
    counts: dict[int, dict[str, int]] = {}
    for campaign, status, number in connection.execute(query):
        counts.setdefault(campaign, {})[status] = number
    return counts


def _facts(
    row: Mapping[str, Any], machines: Mapping[int, Mapping[str, Any]], counts: Mapping[str, int]
) -> CampaignFacts:
    return CampaignFacts(
        number=row["id"],
        kind=row["kind"],
        name=row["name"],
        commit=row["git_commit"] + ("+" if row["dirty"] else ""),
        source_digest=row["source_digest"],
        options=row["options"] or {},
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        process=" of ".join(filter(None, (str(row["pid"]), row["host"]))),
        machine=machines.get(row["machine"]) if row["machine"] is not None else None,
        counts=counts,
    )

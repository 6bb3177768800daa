"""The page's data from a database of campaigns, which is only read."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sw.report.adapter import failure_of, points_of
from sw.report.data import CampaignFacts, Failure, Point, ReportData
from sw.report.errors import ReportError
from sw.report.files import campaign_files, point_files
from sw.report.history import histories
from sw.report.live import active, seconds_left
from sw.results.location import locate
from sw.results.schema import CAMPAIGNS
from sw.results.store import Run, Store
from sw.results.task import Status

_PATIENCE_S = 10.0
"""Seconds for which a database that is lost is asked again."""
_WITH_HISTORY = ("regress", "bench", "conformance")
_MOST_HISTORY = 200
"""Campaigns that are read for the history, the latest ones."""


def load(
    where: str | Path,
    wanted: Sequence[str] = (),
    *,
    beside: Path | None = None,
    kind: str = "",
    name: str = "",
) -> ReportData:
    """The data of the campaigns that `wanted` names, by number or by name (its latest one).

    Without a name: the latest sweep and the latest regression. kind, name: the latest campaign of
    exactly these instead. beside: the folder that the page will be in; files of the campaigns in
    it are linked. `ReportError` for a campaign that is not there, `CampaignError` for a database
    that cannot be read.
    """
    with _open(where) as store:
        facts = _campaigns(store)
        chosen = _of_kind(facts, kind, name) if kind else _wanted(facts, wanted, where)
        rows = {c.number: store.runs(c.number) for c in facts if c in chosen}
        past = [c for c in facts if c.kind in _WITH_HISTORY][-_MOST_HISTORY:]
        rows |= {c.number: store.runs(c.number) for c in past if c.number not in rows}
    campaigns = [
        _with_progress(c, rows[c.number], shown=c in chosen) for c in facts if c.number in rows
    ]
    return _assemble(campaigns, rows, beside)


def _assemble(
    campaigns: Sequence[CampaignFacts], rows: dict[int, list[Run]], beside: Path | None
) -> ReportData:
    points: list[Point] = []
    failures: list[Failure] = []
    bases: dict[str, dict[str, Any]] = {}
    shown = [c for c in campaigns if c.shown]
    for campaign in shown:
        runs = rows[campaign.number]
        failures += filter(None, (failure_of(campaign.number, run) for run in runs))
        if campaign.kind == "sweep":
            found, changed = points_of(campaign.number, runs)
            bases |= changed
            points += found
    if beside is not None:
        points = point_files(points, beside)
        campaigns = [
            replace(c, files=campaign_files(c, beside)) if c.shown else c for c in campaigns
        ]
    return ReportData(
        title=", ".join(dict.fromkeys(f"{c.kind} {c.name}" for c in shown)),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        release=f"systola {version('systola')}",
        bases=bases,
        campaigns=tuple(campaigns),
        points=tuple(points),
        history=tuple(histories((c, rows[c.number]) for c in campaigns)),
        failures=tuple(failures),
    )


def _with_progress(campaign: CampaignFacts, runs: Sequence[Run], *, shown: bool) -> CampaignFacts:
    counts = Counter(run.status.value for run in runs)
    going = any(counts[status] for status in (Status.WAITING, Status.RUNNING))
    return replace(
        campaign,
        shown=shown,
        counts=dict(counts),
        active=active(runs),
        left_s=seconds_left(runs) if going and shown else None,
    )


def _of_kind(facts: Sequence[CampaignFacts], kind: str, name: str) -> list[CampaignFacts]:
    return [c for c in facts if (c.kind, c.name) == (kind, name)][-1:]


def _wanted(
    facts: Sequence[CampaignFacts], wanted: Sequence[str], where: str | Path
) -> list[CampaignFacts]:
    if not facts:
        raise ReportError(
            f"database {where}: no campaign is in it; run systola sweep or systola regress first"
        )
    if not wanted:
        latest = {c.kind: c for c in facts}
        both = [latest[kind] for kind in ("sweep", "regress") if kind in latest]
        return both or [facts[-1]]
    found: list[CampaignFacts] = []
    for text in wanted:
        matches = [c for c in facts if text in (str(c.number), c.name, f"{c.kind} {c.name}")]
        if not matches:
            known = [f"{c.number} ({c.kind} {c.name})" for c in facts[-10:]]
            raise ReportError(
                f"campaign {text!r}: not in database {where}; the latest are {', '.join(known)}"
            )
        if matches[-1] not in found:
            found.append(matches[-1])
    return found


def _open(where: str | Path) -> Store:
    """The database, which must be there: a page of nothing would only hide a wrong name."""
    location = locate(where)
    if location.path is not None and not location.path.is_file():
        raise ReportError(
            f"database {where}: not there; --db names the one that systola sweep or systola "
            "regress wrote"
        )
    return Store(where, patience_s=_PATIENCE_S)


def _campaigns(store: Store) -> list[CampaignFacts]:
    """Every campaign, the oldest first."""
    query = sa.select(CAMPAIGNS).order_by(CAMPAIGNS.c.id)
    return [
        CampaignFacts(
            number=row.id,
            kind=row.kind,
            name=row.name,
            commit=row.git_commit + ("+" if row.dirty else ""),
            created_at=row.created_at,
            finished_at=row.finished_at or "",
        )
        for row in store.database.read(lambda connection: connection.execute(query).all())
    ]

"""What a campaign under way is at, and how long it may still take."""

from collections.abc import Sequence
from datetime import datetime

from sw.report.data import Active
from sw.results.store import Run
from sw.results.task import Kind, Status

_LEFT = (Status.WAITING, Status.RUNNING)


def active(runs: Sequence[Run]) -> tuple[Active, ...]:
    """The runs under way, the oldest first."""
    found = [
        Active(title=run.task.title, worker=run.worker, since=run.started_at or "")
        for run in runs
        if run.status is Status.RUNNING
    ]
    return tuple(sorted(found, key=lambda a: a.since))


def seconds_left(runs: Sequence[Run]) -> float | None:
    """Seconds until the end at the pace so far; None before anything of a kind that is left ended.

    A run that is left takes the mean of those of its kind that ended. As many run at once as do
    now, or one.
    """
    spent: dict[Kind, list[float]] = {}
    for run in runs:
        if run.status not in _LEFT and run.started_at and run.finished_at:
            seconds = _seconds(run.started_at, run.finished_at)
            spent.setdefault(run.task.kind, []).append(seconds)
    left = [run.task.kind for run in runs if run.status in _LEFT]
    if not left:
        return 0.0
    if not all(spent.get(kind) for kind in left):
        return None
    workers = max(1, sum(run.status is Status.RUNNING for run in runs))
    return sum(sum(spent[kind]) / len(spent[kind]) for kind in left) / workers


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()

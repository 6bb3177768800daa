"""What the database knows of runs that were carried out before, in any campaign."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from spec.dram import IDEAL
from sw.results.schema import RUNS
from sw.results.store import Store
from sw.results.task import Status, Task

_ENDED = (Status.PASSED, Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.BLOCKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run gave at a commit. cycles: None where it was not counted."""

    commit: str
    status: Status
    cycles: int | None = None
    message: str = ""


def durations(store: Store) -> dict[tuple[str, str, str, str], float]:
    """Mean seconds of runs that passed, by kind, workload, digest of configuration and device."""
    what = (RUNS.c.kind, RUNS.c.workload, RUNS.c.config_digest, RUNS.c.device)
    query = (
        sa.select(*what, sa.func.avg(RUNS.c.duration_s))
        .where(RUNS.c.status == Status.PASSED.value, RUNS.c.duration_s.is_not(None))
        .group_by(*what)
    )
    rows = store.database.read(lambda connection: connection.execute(query).all())
    return {(row[0], row[1], row[2], row[3]): float(row[4]) for row in rows}


def results_of(store: Store, task: Task) -> list[Result]:
    """Results of the same task on commits without changes, the oldest first.

    The configuration counts by its name: its digest may change from commit to commit.
    """
    same: dict[sa.Column[Any], Any] = {
        RUNS.c.kind: task.kind.value,
        RUNS.c.workload: task.workload,
        RUNS.c.config: task.config_name,
        RUNS.c.device: task.device,
        RUNS.c.seed: task.seed,
    }
    if task.device == "rtl":
        same[RUNS.c.memory] = task.memory
        same[RUNS.c.stall] = task.stall
        if task.memory == IDEAL:
            same[RUNS.c.latency] = task.latency
    query = (
        sa.select(RUNS.c.git_commit, RUNS.c.status, RUNS.c.cycles, RUNS.c.message)
        .where(*(column == value for column, value in same.items()))
        .where(RUNS.c.dirty == 0, RUNS.c.git_commit != "unknown")
        .where(RUNS.c.status.in_([status.value for status in _ENDED]))
        .order_by(RUNS.c.id)
    )
    rows = store.database.read(lambda connection: connection.execute(query).all())
    return [
        Result(commit=row[0], status=Status(row[1]), cycles=row[2], message=row[3] or "")
        for row in rows
    ]

"""Rows of the table `runs`, from and to tasks and outcomes."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from sw.results.task import Kind, Outcome, Status, Task

UNFINISHED = (Status.WAITING, Status.RUNNING)

OUTCOME_COLUMNS = (
    *("cycles", "macs", "compared", "counters", "wall_s", "read_bytes", "write_bytes"),
    "predicted_cycles",
)


def now() -> str:
    """UTC, ISO 8601 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A row: its number, its task, where it stands, and what it gave so far.

    position: in the plan. attempts: how often it was started. worker: who carried it out last.
    """

    id: int
    task: Task
    status: Status
    started_at: str | None
    finished_at: str | None
    outcome: Outcome | None
    position: int = 0
    attempts: int = 0
    worker: str = ""
    duration_s: float | None = None


def task_values(task: Task) -> dict[str, Any]:
    """The columns that a task fills, in a row that waits, or is done if its point is illegal."""
    illegal = task.kind is Kind.POINT
    time = now() if illegal else None
    return {
        "task": task.to_json(),
        "kind": task.kind.value,
        "workload": task.workload,
        "config": task.config_name,
        "config_digest": task.digest,
        "device": task.device,
        "seed": task.seed,
        "latency": task.latency,
        "stall": task.stall,
        "memory": task.memory,
        "status": (Status.ILLEGAL if illegal else Status.WAITING).value,
        "attempts": 0,
        "worker": "",
        "started_at": time,
        "finished_at": time,
        "message": task.reason or None,
    }


def outcome_values(outcome: Outcome) -> dict[str, Any]:
    """The columns that an outcome fills."""
    return {
        **{name: getattr(outcome, name) for name in OUTCOME_COLUMNS},
        "pcc": None if outcome.pcc is None or math.isnan(outcome.pcc) else outcome.pcc,
        "status": outcome.status.value,
        "message": outcome.message or None,
        "image_digest": outcome.image_digest or None,
        "mismatch": outcome.mismatch or None,
        "figures": outcome.figures,
    }


def run_of(row: "sa.Row[Any]") -> Run:
    """The run of a row that has every column."""
    status = Status(row.status)
    return Run(
        id=row.id,
        task=Task.from_json(row.task),
        status=status,
        started_at=row.started_at,
        finished_at=row.finished_at,
        outcome=None if status in UNFINISHED else _outcome(row, status),
        position=row.position,
        attempts=row.attempts,
        worker=row.worker,
        duration_s=row.duration_s,
    )


def _outcome(row: "sa.Row[Any]", status: Status) -> Outcome:
    return Outcome(
        status=status,
        message=row.message or "",
        cycles=row.cycles,
        macs=row.macs,
        compared=row.compared or 0,
        counters=row.counters or {},
        wall_s=row.wall_s or 0.0,
        read_bytes=row.read_bytes,
        write_bytes=row.write_bytes,
        mismatch=row.mismatch,
        image_digest=row.image_digest or "",
        figures=row.figures or {},
        predicted_cycles=row.predicted_cycles,
        pcc=row.pcc,
    )

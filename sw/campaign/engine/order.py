"""What is asked of a worker, and what comes back: both as plain values on the wire."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sw.results.task import Outcome, Task

CARRY_OUT = "sw.campaign.measure:open_bench"
"""What a child process calls once to get the function that carries tasks out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A task for a worker.

    sources: digest that the worker's sources must have. build_limit_s: seconds for the task's
    simulator where the worker has to build it first. carry_out: `module:function`, as `CARRY_OUT`.
    """

    task: Task
    sources: str
    build_limit_s: float
    carry_out: str = CARRY_OUT

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task.to_json(),
            "sources": self.sources,
            "build_limit_s": self.build_limit_s,
            "carry_out": self.carry_out,
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        return cls(**{**facts, "task": Task.from_json(facts["task"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One of: the task's outcome; why the task was lost; why the worker cannot be used."""

    outcome: Outcome | None = None
    lost: str = ""
    refused: str = ""

    def to_json(self) -> dict[str, Any]:
        outcome = self.outcome.to_json() if self.outcome else None
        return {"outcome": outcome, "lost": self.lost, "refused": self.refused}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        outcome = Outcome.from_json(facts["outcome"]) if facts["outcome"] else None
        return cls(**{**facts, "outcome": outcome})

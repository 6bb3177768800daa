"""What a campaign consists of: tasks, and what comes out of each."""

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from spec.config import NpuConfig
from spec.errors import SystolaError


class CampaignError(SystolaError, ValueError):
    """A suite, a space, an option or a database that a campaign cannot be made of."""


class Kind(enum.StrEnum):
    """What a task does (`sw.measure.campaign.measure` has a function for each).

    RUN a workload on a device. BUILD a configuration's simulator. LINT its RTL. PROGRAMS: random
    programs on its RTL. MUTANT: whether the checks notice a broken RTL. POINT: a point of a space
    that is no legal configuration; nothing is done.
    """

    RUN = "run"
    BUILD = "build"
    LINT = "lint"
    PROGRAMS = "programs"
    MUTANT = "mutant"
    POINT = "point"


class Status(enum.StrEnum):
    """Where a task stands. WAITING and RUNNING are those of a campaign under way or interrupted.

    FAILED: something was compared or checked, and is wrong. ERROR: it could not be carried out.
    BLOCKED: what it needs did not pass, so it did not run.
    """

    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    ERROR = "error"
    BLOCKED = "blocked"
    ILLEGAL = "illegal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One row to be.

    workload: as `sw.measure.campaign.workloads` reads it; empty where the kind has none. config:
    None for an illegal point, whose `label` then stands for it and `reason` says why. seed: of data
    and memory stalls. latency: cycles. stall: probability. limit_s: seconds that it may take.
    needs: keys of tasks that have to pass first.
    """

    kind: Kind
    config: NpuConfig | None
    workload: str = ""
    device: str = ""
    seed: int = 0
    latency: int = 100
    stall: float = 0.0
    limit_s: float = 600.0
    needs: tuple[str, ...] = ()
    label: str = ""
    reason: str = ""

    @property
    def config_name(self) -> str:
        return self.label or (self.config.name if self.config else "")

    @property
    def digest(self) -> str:
        """Of the configuration."""
        return self.config.digest_hex if self.config else ""

    @property
    def key(self) -> str:
        """What tells the task from every other one of its campaign."""
        parts = [self.kind.value, self.workload, self.digest or self.label, self.device]
        memory = [self.latency, self.stall] if self.device == "rtl" else []
        return json.dumps([*parts, self.seed, *memory])

    @property
    def title(self) -> str:
        """For people: what, on what, with which memory."""
        if self.kind is Kind.POINT:
            return f"point {self.label}"
        parts = [self.workload or self.kind.value, self.config_name]
        if self.kind in (Kind.RUN, Kind.PROGRAMS):
            parts += [self.device, f"seed {self.seed}"]
        if self.device == "rtl" and (self.latency, self.stall) != (100, 0.0):
            parts.append(f"latency {self.latency} stall {self.stall:g}")
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "config": self.config.to_dict() if self.config else None}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        config = NpuConfig(**facts["config"]) if facts["config"] else None
        needs = tuple(facts["needs"])
        return cls(**{**facts, "kind": Kind(facts["kind"]), "config": config, "needs": needs})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a task gave.

    cycles, counters: of the hardware (None and empty on golden). compared: elements. wall_s:
    seconds of the device alone. mismatch: first difference: layer, instruction, element, expected,
    got. figures: anything else that the kind measures.
    """

    status: Status
    message: str = ""
    cycles: int | None = None
    macs: int | None = None
    compared: int = 0
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    wall_s: float = 0.0
    read_bytes: int | None = None
    write_bytes: int | None = None
    mismatch: Mapping[str, Any] | None = None
    image_digest: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        return cls(**{**facts, "status": Status(facts["status"])})


def plan_digest(tasks: "list[Task]") -> str:
    """Digest of what the tasks are, 16 hex digits; limits of time do not count."""
    return hashlib.sha256("\n".join(t.key for t in tasks).encode()).hexdigest()[:16]

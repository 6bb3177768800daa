"""What a campaign consists of: tasks, and what comes out of each."""

import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from spec.config import NpuConfig
from spec.dram import IDEAL
from spec.errors import SystolaError


class CampaignError(SystolaError, ValueError):
    """A suite, a space, an option or a database that a campaign cannot be made of."""


class Kind(enum.StrEnum):
    """What a task does (`sw.campaign.measure` has a function for each).

    RUN a workload on a device. BUILD a configuration's simulator. LINT its RTL. PREDICT a
    workload's cycles by the compiler's timing model. SYNTH: area and clock of a configuration.
    NETLIST: what ENERGY of a workload is sampled on. PROGRAMS: random programs on its RTL.
    CONFORMANCE: official TOSA tests of an operator. MUTANT: whether the checks notice a broken RTL.
    POINT: a point of a space that is no legal configuration; nothing is done. BENCH: an entry of
    `systola bench`. TEST: an official TOSA test of `systola conformance`. Those commands carry
    theirs out themselves.
    """

    RUN = "run"
    BUILD = "build"
    LINT = "lint"
    PREDICT = "predict"
    SYNTH = "synth"
    NETLIST = "netlist"
    ENERGY = "energy"
    PROGRAMS = "programs"
    CONFORMANCE = "conformance"
    MUTANT = "mutant"
    POINT = "point"
    BENCH = "bench"
    TEST = "test"


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

    workload: as `sw.campaign.workloads` reads it; empty where the kind has none. config:
    None for an illegal point, whose `label` then stands for it and `reason` says why. seed: of data
    and memory stalls. latency: cycles. stall: probability. memory: `ideal`, or a DRAM of
    `spec.dram`, whose own latency takes the place of `latency`. limit_s: seconds that it may take.
    memory_limit_mib: memory of its processes, 0 for any amount. needs: keys of tasks that have to
    pass first. quarantine: why a failure is known and does not count; empty for most. It does not
    tell tasks apart.
    """

    kind: Kind
    config: NpuConfig | None
    workload: str = ""
    device: str = ""
    seed: int = 0
    latency: int = 100
    stall: float = 0.0
    memory: str = IDEAL
    limit_s: float = 600.0
    memory_limit_mib: int = 0
    needs: tuple[str, ...] = ()
    label: str = ""
    reason: str = ""
    quarantine: str = ""

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
        memory: list[float | str] = []
        if self.device == "rtl":
            # A DRAM has its own latency. An ideal memory keeps the key that it always had.
            ideal = self.memory == IDEAL
            memory = [self.latency, self.stall] if ideal else [self.memory, self.stall]
        return json.dumps([*parts, self.seed, *memory])

    @property
    def title(self) -> str:
        """For people: what, on what, with which memory."""
        if self.kind is Kind.POINT:
            return f"point {self.label}"
        parts = [self.workload or self.kind.value, self.config_name]
        if self.kind in (Kind.RUN, Kind.PROGRAMS, Kind.CONFORMANCE):
            parts += [self.device, f"seed {self.seed}"]
        if self.device == "rtl":
            parts += self._memory_words
        return " ".join(parts)

    @property
    def _memory_words(self) -> list[str]:
        """The memory, where it is not the one that runs have by themselves."""
        if self.memory != IDEAL:
            return [self.memory, *([f"stall {self.stall:g}"] if self.stall else [])]
        if (self.latency, self.stall) != (100, 0.0):
            return [f"latency {self.latency} stall {self.stall:g}"]
        return []

    def to_json(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in _TASK_FIELDS}
        return {**facts, "config": self.config.to_dict() if self.config else None}

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
    got. predicted_cycles: by the compiler. pcc: of the results with those of the original network.
    figures: anything else that the kind measures.
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
    predicted_cycles: int | None = None
    pcc: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _OUTCOME_FIELDS}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        return cls(**{**facts, "status": Status(facts["status"])})


# `dataclasses.asdict` copies every value: a tenth of a millisecond for a configuration.
_TASK_FIELDS = tuple(f.name for f in fields(Task))
_OUTCOME_FIELDS = tuple(f.name for f in fields(Outcome))


def plan_digest(tasks: "list[Task]") -> str:
    """Digest of what the tasks are, 16 hex digits; limits of time and memory do not count."""
    return hashlib.sha256("\n".join(t.key for t in tasks).encode()).hexdigest()[:16]

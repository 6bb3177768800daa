"""What the page shows: records that know nothing of the database."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MEAN = "geometric mean"
"""What stands for all workloads of a point together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Where RTL and golden model first differ. instruction: its number, text: itself."""

    layer: str = ""
    instruction: int | None = None
    text: str = ""
    element: str = ""
    expected: str = ""
    got: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One workload on one point.

    cycles: of one inference; None unless every run of the workload passed. predicted: the cycles
    are the compiler's, whose error is `error_pct` percent. read_bytes, write_bytes: of the NPU's
    memory. energy_uj: microjoules of one inference. counters: engine, state, cycles. command: does
    the same once more.
    """

    workload: str
    status: str
    cycles: int | None = None
    predicted: bool = False
    error_pct: float | None = None
    predicted_cycles: int | None = None
    macs: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    energy_uj: float | None = None
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    message: str = ""
    mismatch: Mismatch | None = None
    quarantine: str = ""
    command: str = ""

    @property
    def dram_bytes(self) -> int | None:
        """Bytes that one inference reads and writes."""
        if self.read_bytes is None or self.write_bytes is None:
            return None
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A file that a campaign wrote. href: relative to the page, quoted."""

    label: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration of a space.

    id: tells it from every other point of the page. base: the configuration of `ReportData.bases`
    that `changes` (field to value) are counted from; empty where the point is illegal, and then
    `reason` says why. area_ge: NAND2 equivalents without memories. blocks: the same by path of the
    block, each with all below it. sram_bits: of memories. synth: other figures of the synthesis.
    """

    id: str
    campaign: int
    label: str
    base: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    reason: str = ""
    pes: int | None = None
    bus_bytes: int | None = None
    memory_kib: float | None = None
    area_ge: float | None = None
    fmax_mhz: float | None = None
    critical_ns: float | None = None
    sram_bits: int | None = None
    blocks: Mapping[str, float] = field(default_factory=dict)
    synth: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    files: tuple[Link, ...] = ()
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One run of a network at a commit. time: UTC, ISO 8601."""

    campaign: int
    commit: str
    time: str
    status: str
    cycles: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The same run at successive commits, oldest first. memory: latency and stalls, or a DRAM."""

    workload: str
    config: str
    device: str
    seed: int
    memory: str
    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that is not good. quarantine: why it does not count, or empty."""

    campaign: int
    title: str
    kind: str
    workload: str
    config: str
    device: str
    status: str
    message: str
    mismatch: Mismatch | None = None
    quarantine: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """A run under way. since: UTC, ISO 8601."""

    title: str
    worker: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFacts:
    """A campaign: how many runs stand where, and what is left. left_s: None if nobody can say."""

    number: int
    kind: str
    name: str
    commit: str
    created_at: str
    finished_at: str = ""
    shown: bool = True
    counts: Mapping[str, int] = field(default_factory=dict)
    active: tuple[Active, ...] = ()
    left_s: float | None = None
    files: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """Everything on a page. bases: every field of the configurations that points change."""

    title: str
    made_at: str
    release: str
    bases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    campaigns: tuple[CampaignFacts, ...] = ()
    points: tuple[Point, ...] = ()
    history: tuple[History, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def workloads(self) -> list[str]:
        """Every workload, in the order of the points."""
        return list(dict.fromkeys(m.workload for p in self.points for m in p.measurements))

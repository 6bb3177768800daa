"""How long a suite will take: from earlier runs in the database, else from measured benchmarks.

The benchmarks are the records of `docs/data` in the source tree. They are of preset `default`; the
cycles of another array follow from its number of PEs, and the speed of its simulation from the
nearest array that was measured.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from spec.config import NpuConfig
from sw.models.kernels import kernel_names
from sw.results.revision import ROOT
from sw.results.task import Kind, Task

_RECORDS = ("nets", "wide", "transformers")
_RATES = ((16, 600_000), (64, 285_000), (256, 225_000), (1024, 80_000), (4096, 20_000))
"""Simulated cycles a second by PEs, from `docs/data/benchmarks-nets*.json`."""
_GROWTH = 0.85
"""Cycles fall with PEs to this power: large arrays are used less well."""
_REFERENCE_MACS = 40e6
"""MACs a second of golden model and TOSA reference model together."""
_START_S, _KERNEL_S = 2.0, 0.7
_PROGRAMS_S = 25.0
_GENERATE_S = 0.45
"""Seconds that the official generator takes for a test; it makes all tests of an operator, once for
all devices and configurations."""
_TESTS = 40
"""Official tests of an operator, on average (2,114 of 53)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """seconds: with `jobs` processes. known: tasks that earlier runs told of, of `total`."""

    seconds: float
    jobs: int
    known: int
    total: int

    def __str__(self) -> str:
        processes = f"{self.jobs} process{'es' if self.jobs > 1 else ''}"
        return (
            f"estimate: {spoken(self.seconds)} with {processes} ({self.known:,} of {self.total:,} "
            "runs from earlier ones in this database, the others from benchmarks)"
        )


def spoken(seconds: float) -> str:
    """`50 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


Known = tuple[str, str, str, str]
"""What durations are known by: kind, workload, digest of the configuration, device."""


def known_by(task: Task) -> Known:
    return task.kind.value, task.workload, task.digest, task.device


def estimate(tasks: Sequence[Task], jobs: int, earlier: Mapping[Known, float]) -> Estimate:
    """Of `tasks`, all of which are still to be run. earlier: seconds of what ran before."""
    seconds = [earlier.get(known_by(task)) for task in tasks]
    each = [guess(t) if s is None else s for t, s in zip(tasks, seconds, strict=True)]
    return Estimate(
        seconds=max(sum(each) / jobs, max(each, default=0.0)),
        jobs=jobs,
        known=sum(s is not None for s in seconds),
        total=len(tasks),
    )


def guess(task: Task) -> float:
    """Seconds of a task that never ran here, at most its limit."""
    if task.config is None:
        return 0.0
    if task.kind is Kind.RUN:
        seconds = _run(task, task.config)
    elif task.kind is Kind.PROGRAMS:
        seconds = _PROGRAMS_S * int(task.workload.partition(":")[2] or 1)
    elif task.kind is Kind.CONFORMANCE:
        which = task.workload.rpartition(":")[2]
        count = int(which) if which.isdigit() else which.count(",") + 1
        seconds = count * 1.5 if task.device == "rtl" else _TESTS * _GENERATE_S + count
    else:
        seconds = 15 + 0.12 * task.config.rows * task.config.cols
    return min(seconds, task.limit_s)


def _run(task: Task, config: NpuConfig) -> float:
    name = task.workload.partition(":")[0]
    if name in kernel_names():
        return _KERNEL_S
    row = _benchmarks().get(name, {})
    macs, cycles = float(row.get("macs") or 5e8), float(row.get("cycles") or 3e6)
    start = _START_S + float(row.get("compile_s") or 10.0)
    if task.device == "golden":
        return start + macs / _REFERENCE_MACS
    pes = config.rows * config.cols
    # The golden model runs too: the RTL is compared with it.
    golden = macs / (5 * _REFERENCE_MACS)
    return start + golden + cycles * (256 / pes) ** _GROWTH / _rate(pes)


def _rate(pes: int) -> float:
    return float(min(_RATES, key=lambda row: abs(row[0] - pes))[1])


@lru_cache(maxsize=1)
def _benchmarks() -> dict[str, dict[str, float]]:
    """Measured rows by network; none outside the source tree."""
    found: dict[str, dict[str, float]] = {}
    for name in _RECORDS:
        path = ROOT / "docs" / "data" / f"benchmarks-{name}.json"
        if path.exists():
            found.update(
                {row.get("target") or row["name"]: row for row in json.loads(path.read_text())}
            )
    return found

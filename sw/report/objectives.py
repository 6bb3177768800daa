"""The figures that points of a page compete in, and their values of stored rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sw.report.data import Measurement, Point
from sw.results.figures import FIGURES, Figure, inferences_per_joule, inferences_per_second

Value = float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A figure of a point. of_point: its value; of_workload: its value for one workload.

    Exactly one of the two is there. key: its name in `FIGURES`.
    """

    key: str
    of_point: Callable[[Point], Value] | None = None
    of_workload: Callable[[Point, Measurement], Value] | None = None

    @property
    def figure(self) -> Figure:
        return FIGURES[self.key]

    @property
    def larger_is_better(self) -> bool:
        return self.figure.larger_is_better

    def better(self, one: float, other: float) -> bool:
        return one > other if self.larger_is_better else one < other

    def reaches(self, value: float, threshold: float) -> bool:
        return value >= threshold if self.larger_is_better else value <= threshold

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "label": self.figure.label,
            "unit": self.figure.unit,
            "up": self.larger_is_better,
            "each": self.of_workload is not None,
        }


def _rate(point: Point, measured: Measurement) -> Value:
    return inferences_per_second(point.fmax_mhz, measured.cycles)


def _utilization(point: Point, measured: Measurement) -> Value:
    if not measured.cycles or not measured.macs or not point.pes:
        return None
    return 100 * measured.macs / (measured.cycles * point.pes)


OBJECTIVES = (
    Objective(key="rate", of_workload=_rate),
    Objective(key="area", of_point=lambda p: None if p.area_ge is None else p.area_ge / 1000),
    Objective(key="luts", of_point=lambda p: p.synth.get("luts")),
    Objective(key="efficiency", of_workload=lambda _, m: inferences_per_joule(m.energy_uj)),
    Objective(key="cycles", of_workload=lambda _, m: m.cycles),
    Objective(key="dram", of_workload=lambda _, m: m.dram_bytes),
    Objective(key="memory", of_point=lambda p: p.memory_kib),
    Objective(key="clock", of_point=lambda p: p.fmax_mhz),
    Objective(key="utilization", of_workload=_utilization),
    Objective(key="pes", of_point=lambda p: p.pes),
)
BY_KEY = {objective.key: objective for objective in OBJECTIVES}


def values(point: Point, workloads: Sequence[str]) -> dict[str, Any]:
    """Each objective that the point has: one value, or one per workload and their mean.

    The mean is geometric, and None unless the point has a value above 0 for every workload.
    """
    found: dict[str, Any] = {}
    measured = {m.workload: m for m in point.measurements}
    for objective in OBJECTIVES:
        if objective.of_point is not None:
            value = objective.of_point(point)
            if value is not None:
                found[objective.key] = _short(value)
        elif objective.of_workload is not None:
            row = [
                objective.of_workload(point, measured[name]) if name in measured else None
                for name in workloads
            ]
            if any(value is not None for value in row):
                found[objective.key] = [_short(v) for v in (*row, _mean(row))]
    return found


def _mean(row: Sequence[Value]) -> Value:
    numbers = [value for value in row if value is not None and value > 0]
    if len(numbers) < len(row) or not numbers:
        return None
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))


def _short(value: Value) -> Value:
    """Nine significant digits: nobody reads more, and pages of many points stay small."""
    if value is None or value == int(value):
        return value if value is None else int(value)
    return float(f"{value:.9g}")

"""What a sweep can judge a design by: figures of `sw/results/figures.py`, with their values.

An objective of a workload is taken of one by `NAME:WORKLOAD` (`cycles:resnet8`), else it is the
geometric mean of all workloads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from spec.names import did_you_mean
from sw.campaign.measures.synthesis import Synthesis
from sw.campaign.sweep.result import Measured, PointResult
from sw.results.figures import FIGURES, Figure, inferences_per_joule, inferences_per_second
from sw.results.task import CampaignError

Of = Callable[[PointResult], float | None]
OfWorkload = Callable[[PointResult, Measured], float | None]

SYNTH, CELLS, ECP5, ENERGY = "synth", "cells", "ecp5", "energy"
_NEEDS = {
    SYNTH: "a clock: synth with effort quick or full (ecp5: full)",
    CELLS: "an area of cells: synth with target generic or liberty, effort quick or full",
    ECP5: "an FPGA: synth with target ecp5, effort quick or full",
    ENERGY: "energy: true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One row of `MEASURES`. needs: what a space has to ask for, a key of `_NEEDS`, or nothing.

    Either `of` a point or `of_workload` gives the value; None where it was not measured.
    """

    needs: str = ""
    of: Of | None = None
    of_workload: OfWorkload | None = None


def _rate(point: PointResult, found: Measured) -> float | None:
    return inferences_per_second(point.fmax_mhz, found.best_cycles)


def _latency(point: PointResult, found: Measured) -> float | None:
    rate = _rate(point, found)
    return None if rate is None else 1e6 / rate


MEASURES: Mapping[str, Measure] = {
    "area": Measure(needs=CELLS, of=lambda point: point.area_kge),
    "luts": Measure(needs=ECP5, of=lambda point: point.luts),
    "clock": Measure(needs=SYNTH, of=lambda point: point.fmax_mhz),
    "pes": Measure(of=lambda point: None if point.config is None else point.config.pes),
    "memory": Measure(of=lambda point: point.memory_kib),
    "cycles": Measure(of_workload=lambda _, found: found.best_cycles),
    "rate": Measure(needs=SYNTH, of_workload=_rate),
    "latency": Measure(needs=SYNTH, of_workload=_latency),
    "dram": Measure(of_workload=lambda _, found: found.dram_bytes),
    "energy": Measure(needs=ENERGY, of_workload=lambda _, found: found.energy_uj),
    "efficiency": Measure(
        needs=ENERGY, of_workload=lambda _, found: inferences_per_joule(found.energy_uj)
    ),
}
"""Every objective, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A measure, of one workload or of all of them. name: as it is asked for."""

    name: str
    figure: Figure
    measure: Measure
    workload: str = ""

    @property
    def sign(self) -> float:
        """1 where smaller is better, -1 where larger is."""
        return -1.0 if self.figure.larger_is_better else 1.0

    def value(self, point: PointResult) -> float | None:
        """Of a point; None unless all was measured that it needs."""
        if self.measure.of is not None:
            return self.measure.of(point)
        assert self.measure.of_workload is not None
        chosen = [m for m in point.results if self.workload in ("", m.workload)]
        values = [self.measure.of_workload(point, found) for found in chosen]
        known = [value for value in values if value]
        if not known or len(known) < len(values):
            return None
        return geometric_mean(known)

    def cost(self, point: PointResult) -> float | None:
        """The value with the sign that makes smaller better."""
        value = self.value(point)
        return None if value is None else self.sign * value

    def check(self, synth: Synthesis, *, energy: bool) -> None:
        """`CampaignError` unless the space measures what this needs."""
        done, ecp5 = synth.effort != "none", synth.target == "ecp5"
        has = {
            "": True,
            SYNTH: done and not (ecp5 and synth.effort == "quick"),
            CELLS: done and not ecp5,
            ECP5: done and ecp5,
            ENERGY: energy,
        }
        needs = self.measure.needs
        if not has[needs]:
            raise CampaignError(f"objective {self.name}: the space must ask for {_NEEDS[needs]}")


def check_objectives(names: Sequence[str], workloads: Sequence[str]) -> tuple[Objective, ...]:
    """The objectives of these names; `CampaignError` for one that there is not, or given twice."""
    found = tuple(_objective(name, workloads) for name in names)
    twice = next((x.name for i, x in enumerate(found) if x in found[:i]), None)
    if twice is not None:
        raise CampaignError(f"objective {twice}: is given twice")
    return found


def _objective(text: str, workloads: Sequence[str]) -> Objective:
    name, colon, workload = text.partition(":")
    measure = MEASURES.get(name)
    if measure is None:
        raise CampaignError(
            f"objective {name!r}: no such objective{did_you_mean(name, MEASURES)}; "
            f"there are {', '.join(MEASURES)}"
        )
    if colon and (measure.of_workload is None or workload not in workloads):
        why = "is of the hardware alone" if measure.of_workload is None else "no such workload"
        raise CampaignError(
            f"objective {text!r}: {why}; workloads of the space are {', '.join(workloads)}"
        )
    return Objective(name=text, figure=FIGURES[name], measure=measure, workload=workload)

"""The figures that designs are judged by: names, units, which way is better.

Sweeps look for designs by them and pages show them. Where their values come from is another matter:
of points that are being measured (`sw/campaign/sweep/objectives.py`), and of rows that are stored
(`sw/report/objectives.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of `FIGURES`. label: short, for the axis of a plot. unit: of its values."""

    label: str
    unit: str
    larger_is_better: bool


FIGURES: Mapping[str, Figure] = {
    "rate": Figure(
        label="inferences/s at Fmax",
        unit="inferences/s",
        larger_is_better=True,
    ),
    "area": Figure(
        label="area without memories",
        unit="kGE",
        larger_is_better=False,
    ),
    "luts": Figure(
        label="LUTs of an FPGA",
        unit="LUTs",
        larger_is_better=False,
    ),
    "efficiency": Figure(
        label="inferences/J",
        unit="inferences/J",
        larger_is_better=True,
    ),
    "cycles": Figure(
        label="cycles",
        unit="cycles",
        larger_is_better=False,
    ),
    "dram": Figure(
        label="DRAM bytes",
        unit="bytes",
        larger_is_better=False,
    ),
    "memory": Figure(
        label="on-chip memory",
        unit="KiB",
        larger_is_better=False,
    ),
    "clock": Figure(
        label="Fmax",
        unit="MHz",
        larger_is_better=True,
    ),
    "utilization": Figure(
        label="utilization of the array",
        unit="%",
        larger_is_better=True,
    ),
    "pes": Figure(
        label="PEs",
        unit="PEs",
        larger_is_better=False,
    ),
    "latency": Figure(
        label="latency at Fmax",
        unit="µs",
        larger_is_better=False,
    ),
    "energy": Figure(
        label="energy",
        unit="µJ",
        larger_is_better=False,
    ),
}
"""Every figure, by name."""


def inferences_per_second(fmax_mhz: float | None, cycles: float | None) -> float | None:
    """The clock over the cycles; None where one of them is not known."""
    return fmax_mhz * 1e6 / cycles if fmax_mhz and cycles else None


def inferences_per_joule(energy_uj: float | None) -> float | None:
    """energy_uj: microjoules of an inference; None where it is not known."""
    return 1e6 / energy_uj if energy_uj else None

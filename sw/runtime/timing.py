"""How long a program takes, without running it: one prediction that every report has.

The cycles are those of `sw/compiler/program/timeline.py`, which the image brings along: the whole
program, from memory to memory, at the memory latency that `machine/costs.py` states, and for each
DRAM of `spec/dram.py` at its clock.
"""

from dataclasses import dataclass
from typing import Any

from spec.dram import IDEAL, dram_named
from spec.program import Image


def predicted_cycles(image: Image, memory: str = IDEAL) -> int | None:
    """Cycles of one run with that memory, a DRAM at its own clock; None for an image that does not
    say.
    """
    found = image.info.get("predicted_cycles")
    if memory != IDEAL:
        found = image.info.get("predicted_cycles_with", {}).get(memory)
    return None if found is None else int(found)


def predicted_memory(image: Image, memory: str, clock_mhz: float | None) -> str:
    """The memory that a prediction is to be had for: `memory`, or the ideal one where the NPU has
    another clock than the DRAM, or the image does not say.
    """
    dram = dram_named(memory)
    if dram is None or (clock_mhz or dram.clock_mhz) != dram.clock_mhz:
        return IDEAL
    return IDEAL if predicted_cycles(image, memory) is None else memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Figures of a program image.

    predicted_cycles, layer_bound: None for images that do not say. cycles: counted by the RTL, None
    where it did not run. Both and the bound are sums over all runs; samples: how many samples the
    runs had. clock_mhz: None where no clock was named. peak_dram_bytes: of memory that constants,
    inputs, outputs and temporaries take at once, and the program. memory: the simulated one;
    predicted_with: the one that the prediction is for.
    """

    predicted_cycles: int | None
    layer_bound: float | None
    program_bytes: int
    constant_bytes: int
    peak_dram_bytes: int
    cycles: int | None = None
    samples: int = 1
    clock_mhz: float | None = None
    memory: str = IDEAL
    predicted_with: str = IDEAL

    @staticmethod
    def of(
        image: Image,
        *,
        clock_mhz: float | None = None,
        runs: int = 1,
        samples: int = 0,
        memory: str = IDEAL,
    ) -> "Timing":
        """Of `runs` runs of an image, of a sample each if `samples` does not say otherwise."""
        predicted_with = predicted_memory(image, memory, clock_mhz)
        predicted, bound = predicted_cycles(image, predicted_with), image.info.get("layer_bound")
        return Timing(
            predicted_cycles=None if predicted is None else predicted * runs,
            layer_bound=None if bound is None else float(bound) * runs,
            program_bytes=image.program.size,
            constant_bytes=image.constants.size,
            peak_dram_bytes=image.program.size + image.memory_bytes,
            samples=samples or runs,
            clock_mhz=clock_mhz,
            memory=memory,
            predicted_with=predicted_with,
        )

    @property
    def best_cycles(self) -> int | None:
        """Measured cycles where there are any, else the prediction."""
        return self.predicted_cycles if self.cycles is None else self.cycles

    @property
    def share(self) -> float | None:
        """The bound over the cycles; None without a product."""
        if not self.layer_bound or not self.best_cycles:
            return None
        return self.layer_bound / self.best_cycles

    @property
    def ms(self) -> float | None:
        """Milliseconds of a sample at the clock."""
        if self.clock_mhz is None or self.best_cycles is None:
            return None
        return self.best_cycles / self.samples / self.clock_mhz / 1e3

    @property
    def inferences_per_s(self) -> float | None:
        """Samples a second at the clock."""
        return 1e3 / self.ms if self.ms else None

    def to_json(self) -> dict[str, Any]:
        return {
            "predicted_cycles": self.predicted_cycles,
            "layer_bound": self.layer_bound,
            "share": self.share,
            "clock_mhz": self.clock_mhz,
            "ms": self.ms,
            "inferences_per_s": self.inferences_per_s,
            "program_bytes": self.program_bytes,
            "constant_bytes": self.constant_bytes,
            "peak_dram_bytes": self.peak_dram_bytes,
            "memory": self.memory,
            "predicted_with": self.predicted_with,
        }

    def facts(self) -> list[tuple[str, str]]:
        """Rows of a report: label and text."""
        rows = []
        if self.predicted_cycles is not None:
            text = f"{self.predicted_cycles:,}"
            if self.memory != self.predicted_with:
                text += f" with ideal memory, not {self.memory} at this clock"
            rows.append(("predicted cycles", text))
        if self.share is not None:
            rows.append(("layer bound", f"{self.layer_bound:,.0f} cycles, {self.share:.1%}"))
        if self.ms is not None:
            basis = "predicted" if self.cycles is None else "measured"
            text = f"{self.ms:,.3f} ms at {self.clock_mhz:g} MHz"
            text += f", {self.inferences_per_s:,.1f} inferences a second"
            rows.append((f"time ({basis})", text))
        return rows

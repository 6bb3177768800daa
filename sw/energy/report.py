"""The energy of a run, by block and by layer, as tables and as JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sw.energy.account import PARTS, Activity, by_top
from sw.runtime.tables import FittedTable, left, right

if TYPE_CHECKING:
    from spec.config import NpuConfig
    from sw.energy.parameters import MemoryEnergy
    from sw.measure.profile.layers import Profile
    from sw.synth.flow import Cells
    from sw.synth.gating import ClockGates

Floats = npt.NDArray[np.float64]
DRAM = "DRAM"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerEnergy:
    """A layer's cycles, samples that ended in them, and picojoules on the chip and in DRAM."""

    name: str
    cycles: int
    samples: int
    chip_pj: float
    dram_pj: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyReport:
    """Picojoules of one inference.

    blocks: by block directly below the top, by part. inner: every block of the hierarchy without
    those below it, in all parts together. error: standard error of what is sampled, as a share of
    the energy on the chip.
    """

    name: str
    config: "NpuConfig"
    library: str
    target: str
    mhz: float
    macs: int
    cycles: int
    samples: int
    error: float
    blocks: Mapping[str, Mapping[str, float]]
    inner: Mapping[str, float]
    layers: tuple[LayerEnergy, ...]
    dram_pj: float
    sram_pj_per_bit: float
    dram_pj_per_byte: float
    checked: int
    wrong: int
    unknown: float
    clock_gates: "ClockGates"

    @property
    def chip_pj(self) -> float:
        return sum(sum(parts.values()) for parts in self.blocks.values())

    @property
    def total_pj(self) -> float:
        return self.chip_pj + self.dram_pj

    def largest(self, count: int = 3) -> list[tuple[str, str, float]]:
        """(block, part, picojoules) of the largest consumers on the chip."""
        every = [(b, part, pj) for b, parts in self.blocks.items() for part, pj in parts.items()]
        return sorted(every, key=lambda row: -row[2])[:count]

    def tables(self) -> list[FittedTable]:
        """By block, and by layer."""
        return [self._block_table(), self._layer_table()]

    def _block_table(self) -> FittedTable:
        columns = [left("block", fold=12), right("nJ"), right("share")]
        columns += [right(part, rank) for rank, part in enumerate(PARTS, 1)]
        table = FittedTable(columns, f"energy of one inference: {self.name}")
        ordered = sorted(self.blocks.items(), key=lambda item: -sum(item[1].values()))
        for name, parts in ordered:
            total = sum(parts.values())
            cells = [_nj(parts[part]) for part in PARTS]
            table.add_row(name, _nj(total), f"{total / self.total_pj:.1%}", *cells)
        table.add_section()
        sums = [sum(parts[part] for parts in self.blocks.values()) for part in PARTS]
        share = self.chip_pj / self.total_pj
        table.add_row("on the chip", _nj(self.chip_pj), f"{share:.1%}", *map(_nj, sums))
        table.add_row(DRAM, _nj(self.dram_pj), f"{1 - share:.1%}")
        table.add_row("all", _nj(self.total_pj), "100.0%")
        return table

    def _layer_table(self) -> FittedTable:
        columns = [
            left("layer", fold=16),
            *(right("cycles"), right("nJ"), right("share"), right("on the chip", 1)),
            *(right("DRAM", 1), right("samples", 2)),
        ]
        table = FittedTable(columns, "by layer")
        for layer in self.layers:
            total = layer.chip_pj + layer.dram_pj
            table.add_row(
                layer.name,
                f"{layer.cycles:,}",
                _nj(total),
                f"{total / self.total_pj:.1%}",
                _nj(layer.chip_pj),
                _nj(layer.dram_pj),
                f"{layer.samples}",
            )
        return table

    def summary(self) -> list[str]:
        """Sentences for a person."""
        seconds = self.cycles / (self.mhz * 1e6)
        return [
            f"{self.total_pj / 1e6:,.2f} µJ for an inference: {self.chip_pj / 1e6:,.2f} on the "
            f"chip, {self.dram_pj / 1e6:,.2f} in DRAM; {1e12 / self.total_pj:,.0f} inferences/J",
            f"{self.chip_pj / max(1, self.macs):,.2f} pJ/MAC on the chip; at {self.mhz:,.0f} MHz "
            f"{self.chip_pj * 1e-9 / seconds:,.2f} mW",
            f"{self.clock_gates.gates:,} clock gates, for {self.clock_gates.gated:,} of "
            f"{self.clock_gates.flip_flops:,} flip-flops",
            "largest: " + ", ".join(f"{b} {p} {_nj(pj)} nJ" for b, p, pj in self.largest()),
            f"{self.samples} samples, standard error {self.error:.1%}; {self.wrong:,} of "
            f"{self.checked:,} bits of next states differ from the RTL's; {self.unknown:.1%} of "
            "the registers are known from others only",
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything, in picojoules."""
        return {
            "name": self.name,
            "config": self.config.name,
            "config_digest": self.config.digest_hex,
            "target": self.target,
            "library": self.library,
            "mhz": self.mhz,
            "macs": self.macs,
            "cycles": self.cycles,
            "samples": self.samples,
            "error": self.error,
            "total_pj": self.total_pj,
            "chip_pj": self.chip_pj,
            "dram_pj": self.dram_pj,
            "blocks": {name: dict(parts) for name, parts in self.blocks.items()},
            "inner": dict(self.inner),
            "layers": [
                {
                    "name": layer.name,
                    "cycles": layer.cycles,
                    "samples": layer.samples,
                    "chip_pj": layer.chip_pj,
                    "dram_pj": layer.dram_pj,
                }
                for layer in self.layers
            ],
            "sram_pj_per_bit": self.sram_pj_per_bit,
            "dram_pj_per_byte": self.dram_pj_per_byte,
            "next_states_checked": self.checked,
            "next_states_wrong": self.wrong,
            "registers_unknown": self.unknown,
            "clock_gates": self.clock_gates.to_json(),
        }


def _nj(pj: float) -> str:
    return f"{pj / 1000:,.1f}"


def make_report(
    name: str,
    config: "NpuConfig",
    cells: "Cells",
    profile: "Profile",
    ends: npt.NDArray[np.int64],
    activity: Activity,
    memory: "MemoryEnergy",
    mhz: float,
    clock_gates: "ClockGates",
) -> EnergyReport:
    """Means of the samples, times the cycles that they stand for.

    ends: the cycle of the run in which each sample ends.
    """
    cycles = profile.cycles
    leakage = np.repeat(activity.leakage_nw[:, None] * 1e-3 / mhz, len(ends), axis=1)
    pj = {**activity.pj, "leakage": leakage}
    tops = by_top(activity.blocks)
    each = sum(part.sum(0) for part in pj.values())
    result = profile.result
    return EnergyReport(
        name=name,
        config=config,
        library=cells.library.name,
        target=cells.target,
        mhz=mhz,
        macs=sum(layer.macs for layer in profile.layers),
        cycles=cycles,
        samples=len(ends),
        error=float(np.std(each) / np.sqrt(len(ends)) / np.mean(each)),
        blocks={
            top: {part: float(pj[part][rows].sum(0).mean()) * cycles for part in PARTS}
            for top, rows in tops.items()
        },
        inner={
            block or "top": float(sum(part[row].mean() for part in pj.values())) * cycles
            for row, block in enumerate(activity.blocks)
        },
        layers=tuple(_layers(profile, ends, np.asarray(each), memory)),
        dram_pj=(result.read_bytes + result.write_bytes) * memory.dram_pj_per_byte,
        sram_pj_per_bit=memory.sram_pj_per_bit,
        dram_pj_per_byte=memory.dram_pj_per_byte,
        checked=activity.checked,
        wrong=activity.wrong,
        unknown=activity.unknown,
        clock_gates=clock_gates,
    )


def _layers(
    profile: "Profile", ends: npt.NDArray[np.int64], each: Floats, memory: "MemoryEnergy"
) -> Iterable[LayerEnergy]:
    """Each layer's own samples, scaled so that the layers sum to the run; the mean of all for a
    layer that no sample met."""
    instruction = np.searchsorted(profile.closed, ends, side="right")
    owners = np.array(profile.owners)[np.minimum(instruction, len(profile.owners) - 1)]
    counts = np.bincount(owners, minlength=len(profile.layers))
    sums = np.bincount(owners, each, len(profile.layers))
    means = np.where(counts, sums / np.maximum(counts, 1), each.mean())
    cycles = np.array([layer.cycles for layer in profile.layers])
    scale = each.mean() * profile.cycles / max(float((means * cycles).sum()), 1e-30)
    for layer, mean, count in zip(profile.layers, means, counts, strict=True):
        yield LayerEnergy(
            name=layer.name,
            cycles=layer.cycles,
            samples=int(count),
            chip_pj=float(mean * layer.cycles * scale),
            dram_pj=(layer.read_bytes + layer.write_bytes) * memory.dram_pj_per_byte,
        )

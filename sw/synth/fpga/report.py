"""What a synthesis for an FPGA found, as tables and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType

from sw.runtime.tables import FittedTable, left, right
from sw.synth.report import largest_first, plain, warning_counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """luts: look-up tables, two for a carry cell, four for a small memory (`lutram` of them)."""

    luts: int
    ffs: int
    dsps: int
    brams: int
    lutram: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FpgaReport:
    """Resources by block and the clock. grade: the device's speed grade. used: of the device, by
    nextpnr's kinds of cells."""

    config: str
    config_digest: str
    effort: str
    grade: str
    tools: tuple[str, ...]
    blocks: dict[str, Resources]
    fmax_mhz: float | None
    used: dict[str, tuple[int, int]]
    problem: str
    critical_path: dict[str, Any] | None
    warnings: dict[str, list[str]]
    seconds: float

    @property
    def total(self) -> Resources:
        return self.blocks[""]

    def to_json(self) -> dict[str, Any]:
        total = self.total
        return {
            "config": self.config,
            "config_digest": self.config_digest,
            "target": "ecp5",
            "effort": self.effort,
            "grade": self.grade,
            "tool": ", ".join(self.tools),
            "area_ge": None,
            "sram_bits": None,
            "blocks": {plain(path): asdict(r) for path, r in self.blocks.items() if path},
            "fmax_mhz": self.fmax_mhz,
            "critical_ns": round(1000 / self.fmax_mhz, 3) if self.fmax_mhz else None,
            "critical_path": self.critical_path,
            "luts": total.luts,
            "ffs": total.ffs,
            "dsps": total.dsps,
            "brams": total.brams,
            "lutram": total.lutram,
            "device": {name: {"used": u, "available": n} for name, (u, n) in self.used.items()},
            "problem": self.problem,
            "warnings": self.warnings,
            "seconds": round(self.seconds, 1),
        }

    def tables(self) -> Iterator[RenderableType]:
        """Resources by block."""
        table = FittedTable(
            [
                left("block"),
                right("LUTs"),
                right("flip-flops"),
                right("multipliers"),
                right("block RAMs"),
                right("small memories", 1),
            ],
            title=f"{self.config}: resources of an ECP5",
        )
        for path in largest_first({path: r.luts for path, r in self.blocks.items()}):
            table.add_row(plain(path), *_cells(self.blocks[path]))
        table.add_section()
        table.add_row("all", *_cells(self.total))
        yield table

    def summary(self) -> Iterator[str]:
        """The figures in a few lines."""
        taken = [f"{name} {u:,} of {n:,}" for name, (u, n) in self.used.items() if u]
        if taken:
            yield f"device: {', '.join(taken)}"
        if self.fmax_mhz:
            yield f"clock {self.fmax_mhz:.1f} MHz after placing and routing, grade {self.grade}"
            if path := self.critical_path:
                yield (
                    f"longest path {path['ns']:.2f} ns, of which {path['routing_ns']:.2f} wires: "
                    f"{plain(path['start'])} → {plain(path['end'])}"
                )
        else:
            yield f"clock: {self.problem}"
        yield warning_counts(self.warnings)


def _cells(r: Resources) -> list[str]:
    return [f"{n:,}" if n else "" for n in (r.luts, r.ffs, r.dsps, r.brams, r.lutram)]

"""What a synthesis found: one record, shown as tables or written as JSON."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from sw.runtime.tables import FittedTable, left, right
from sw.synth import memories
from sw.synth.area import TOP, Block
from sw.synth.gating import ClockGates
from sw.synth.library import Library
from sw.synth.netlist import SRAM, Macro
from sw.synth.paths import Path as TimingPath

SHOWN_PATHS = 25
"""Pairs of blocks in the table; the JSON has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Area by block, memories, longest paths and warnings of a mapping to a library."""

    config: str
    config_digest: str
    macs: int
    target: str
    effort: str
    clock_gates: ClockGates | None
    library: Library
    tool: str
    blocks: dict[str, Block]
    memories: list[Macro]
    paths: list[TimingPath]
    port_paths: dict[str, float]
    warnings: dict[str, list[str]]
    seconds: float

    @property
    def total(self) -> Block:
        return self.blocks[TOP]

    @property
    def critical_ns(self) -> float | None:
        return self.paths[0].ns if self.paths else None

    def to_json(self) -> dict[str, Any]:
        critical = self.critical_ns
        fo4 = self.library.fo4_ns
        return {
            "config": self.config,
            "config_digest": self.config_digest,
            "target": self.target,
            "effort": self.effort,
            "clock_gates": self.clock_gates.to_json() if self.clock_gates else None,
            "library": self.library.name,
            "wire_load": self.library.wires.name if self.library.wires else None,
            "nand2": self.library.nand2.name,
            "nand2_area": self.library.nand2.area,
            "fo4_ns": round(fo4, 5),
            "tool": self.tool,
            "area_ge": round(self.total.area_ge),
            "ge_per_mac": round(self.total.area_ge / self.macs),
            "sram_bits": self.total.sram_bits,
            "other_bits": self.total.other_bits,
            "blocks": {
                plain(path): {
                    "area_ge": round(block.area_ge),
                    "ffs": block.ffs,
                    "sram_bits": block.sram_bits,
                    "other_bits": block.other_bits,
                }
                for path, block in self.blocks.items()
                if path
            },
            "memories": [
                {
                    "name": plain(macro.name),
                    "words": memories.words(macro),
                    "width": memories.parameter(macro, "WIDTH"),
                    "wrapper": macro.kind == SRAM,
                }
                for macro in self.memories
            ],
            "fmax_mhz": round(1000 / critical, 2) if critical else None,
            "critical_ns": round(critical, 4) if critical else None,
            "critical_fo4": round(critical / fo4, 1) if critical else None,
            "critical_path": _rounded(self.paths[0].to_json()) if self.paths else None,
            "paths": [_rounded(path.to_json()) for path in self.paths],
            "ports_ns": {n: round(ns, 4) if ns > 0 else None for n, ns in self.port_paths.items()},
            "luts": None,
            "ffs": self.total.ffs,
            "dsps": None,
            "brams": None,
            "warnings": self.warnings,
            "seconds": round(self.seconds, 1),
        }

    def tables(self) -> Iterator[RenderableType]:
        """Area by block, the longest path in stages, and the longest by pair of blocks."""
        yield self._area()
        if self.paths:
            yield self._longest()
            yield self._pairs()

    def _area(self) -> FittedTable:
        title = (
            f"{self.config}, {self.library.name}: area in kGE (1 GE = {self.library.nand2.name})"
        )
        table = FittedTable(
            [
                left("block"),
                right("kGE"),
                right("share"),
                right("flip-flops", 1),
                right("SRAM bits", 1),
                right("other memory bits", 1),
            ],
            title=title,
        )
        whole = self.total.area_ge or 1.0
        for path in largest_first({path: b.area_ge for path, b in self.blocks.items()}):
            table.add_row(plain(path), *_area_cells(self.blocks[path], whole))
        table.add_section()
        table.add_row("all", *_area_cells(self.total, whole))
        return table

    def _longest(self) -> FittedTable:
        path = self.paths[0]
        table = FittedTable(
            [
                left("block"),
                right("gates"),
                right("ns"),
                left("signal", 1, 20),
                left("line", 2, 24),
            ],
            title=f"longest path: {path.ns:.3f} ns, {path.gates} gates, "
            f"{plain(path.start)} → {plain(path.end)}",
        )
        for stage in path.stages:
            line = source_line(stage.source)
            table.add_row(
                plain(stage.block) or "top", str(stage.gates), f"{stage.ns:.3f}", stage.signal, line
            )
        table.add_section()
        table.add_row("setup", "", f"{path.setup_ns:.3f}")
        return table

    def _pairs(self) -> FittedTable:
        table = FittedTable(
            [
                right("ns"),
                right("FO4", 1),
                right("gates", 1),
                left("from", 0, 24),
                left("to", 0, 24),
                left("line", 2, 24),
            ],
            title=f"the {len(self.paths[:SHOWN_PATHS])} longest by pair of blocks",
        )
        for path in self.paths[:SHOWN_PATHS]:
            fo4 = path.ns / self.library.fo4_ns
            table.add_row(
                f"{path.ns:.3f}",
                f"{fo4:.0f}",
                str(path.gates),
                plain(path.start),
                plain(path.end),
                source_line(path.start_source),
            )
        return table

    def summary(self) -> Iterator[str]:
        """The figures in a few lines."""
        total = self.total
        yield (
            f"area {total.area_ge / 1000:,.1f} kGE without memories, "
            f"{total.area_ge / self.macs:,.0f} GE per MAC, {total.ffs:,} flip-flops"
        )
        yield (
            f"memories: {total.sram_bits:,} bits in wrappers, {total.other_bits:,} outside "
            "(neither is in the area)"
        )
        if self.critical_ns:
            model = self.library.wires
            wires = f"wires by model {model.name}" if model else "wires of no capacitance"
            yield (
                f"clock {1000 / self.critical_ns:,.1f} MHz: {self.critical_ns:.3f} ns, "
                f"{self.critical_ns / self.library.fo4_ns:.0f} FO4, {wires}"
            )
        ports = [f"{n} {ns:.2f} ns" for n, ns in self.port_paths.items() if ns > 0]
        if ports:
            yield "pins: " + ", ".join(ports)
        yield warning_counts(self.warnings)


def warning_counts(warnings: dict[str, list[str]]) -> str:
    """How many warnings there were of each class."""
    counts = [f"{len(texts)} {name}" for name, texts in warnings.items()]
    return f"warnings of Yosys: {', '.join(counts) or 'none'}"


SMALLEST_PART = 0.1
"""Share of its block that a part must have for a row of its own."""


def largest_first(sizes: Mapping[str, float]) -> list[str]:
    """The blocks directly below the top, largest first, and the large parts below each."""
    found = []
    for path in _below(sizes, ""):
        found.append(path)
        least = SMALLEST_PART * sizes[path]
        found += [part for part in _below(sizes, path) if sizes[part] >= least > 0]
    return found


def _below(sizes: Mapping[str, float], above: str) -> list[str]:
    """The blocks directly in one, largest first."""
    inside = [path for path in sizes if path and path.rpartition(".")[0] == above]
    return sorted(inside, key=lambda path: (-sizes[path], path))


def plain(path: str) -> str:
    """A path without the numbers that Amaranth and Yosys add to names."""
    return re.sub(r"\$\d+", "", path.replace("\\", ""))


def source_line(source: str) -> str:
    """The first `file:line` of a `src` attribute, the generator's if it has one.

    A file of this project has its path in it, of another one there is the name.
    """
    from sw.runtime.simulator.generated import ROOT

    texts = source.split("|")
    text = next((text for text in texts if ".py:" in text), texts[0])
    match = re.match(r"(.*?):(\d+)", text)
    if match is None:
        return text
    path = Path(match[1])
    if path.is_relative_to(ROOT) and ".venv" not in path.parts:
        path = path.relative_to(ROOT)
    else:
        path = Path(match[1].rpartition("site-packages/")[2] if ".py" in text else path.name)
    return f"{path}:{match[2]}"


def _area_cells(block: Block, whole: float) -> list[str]:
    return [
        f"{block.area_ge / 1000:,.1f}",
        f"{100 * block.area_ge / whole:.1f}%",
        f"{block.ffs:,}",
        f"{block.sram_bits:,}" if block.sram_bits else "",
        f"{block.other_bits:,}" if block.other_bits else "",
    ]


def _rounded(value: Any) -> Any:
    """The same with times to a tenth of a picosecond and plain names."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {
            key: source_line(item) if key.endswith("source") else _rounded(item)
            for key, item in value.items()
        }
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Iterable):
        return [_rounded(item) for item in value]
    return value

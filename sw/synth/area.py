"""Area, registers and memory bits of every block of the hierarchy."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sw.synth import memories
from sw.synth.library import Library
from sw.synth.netlist import SRAM, Netlist


@dataclass(slots=True, kw_only=True)
class Block:
    """A block with all that is below it. area_ge: NAND2 equivalents without memories.

    sram_bits: in `systola_sram`. other_bits: in memories that are no such wrapper, as small queues.
    """

    area_ge: float = 0.0
    ffs: int = 0
    sram_bits: int = 0
    other_bits: int = 0

    def add(self, other: "Block") -> None:
        self.area_ge += other.area_ge
        self.ffs += other.ffs
        self.sram_bits += other.sram_bits
        self.other_bits += other.other_bits


TOP = ""
"""The block that is everything."""


def blocks(netlist: Netlist, library: Library) -> dict[str, Block]:
    """Every block by its path with dots; `TOP` is the sum.

    Blocks that differ in a number only count as one: `element` is all of `element_0_0` and so on.
    """
    paths = [without_numbers(instance.path) for instance in netlist.instances]
    own: dict[str, Block] = {path: Block() for path in paths}
    for kind, gates in netlist.gates.items():
        cell = library.cells[kind]
        area = cell.area / library.nand2.area
        numbers, counts = _counted(gates.instances)
        for number, count in zip(numbers, counts, strict=True):
            ffs = count if cell.flip_flop else 0
            own[paths[number]].add(Block(area_ge=area * count, ffs=ffs))
    for macro in netlist.macros:
        size = memories.bits(macro)
        sram = macro.kind == SRAM
        own[paths[macro.instance]].add(
            Block(sram_bits=size if sram else 0, other_bits=0 if sram else size)
        )
    total: dict[str, Block] = {}
    for path, block in own.items():
        for above in _upwards(path):
            total.setdefault(above, Block()).add(block)
    return dict(sorted(total.items()))


def without_numbers(path: str) -> str:
    return re.sub(r"(_\d+)+(?=\.|$)", "", path)


def _counted(instances: object) -> tuple[list[int], list[int]]:
    import numpy as np

    numbers, counts = np.unique(np.asarray(instances), return_counts=True)
    return numbers.tolist(), counts.tolist()


def _upwards(path: str) -> Iterable[str]:
    """The path itself and every block that it is in, to the top."""
    parts = path.split(".") if path else []
    return (".".join(parts[:n]) for n in range(len(parts), -1, -1))

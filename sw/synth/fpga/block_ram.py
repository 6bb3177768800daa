"""Small memories that become block RAM, because the device has some to spare.

Yosys makes a memory of few words from look-up tables, however wide it is: a queue of vectors takes
hundreds of them and would fill a small part of a few block RAMs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from sw.synth.memories import number
from sw.synth.netlist import MEMORY

BLOCKS = 208
"""Block RAMs of the largest ECP5."""

_SPARE = 8
"""Not given away here: those of memories that take more than is foreseen."""

_WORDS = 63
"""Memories of more words are block RAM anyway, if they are no narrower than a byte."""

_WIDTHS = (36, 18, 9, 4, 2, 1)
_BITS = 512 * 36
"""Widths that a block RAM may have, and its size at those of full bytes."""

_LEAST = 24
"""Look-up tables that a block RAM must save, of 36 at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A memory of the design. bytes: parts of a word can be written. clocked: its reads are, and
    the design does not want it in tables."""

    name: str
    width: int
    words: int
    bytes: bool
    clocked: bool

    @property
    def tables(self) -> int:
        """Look-up tables of such a memory, four for 16 words of 4 bits."""
        return 4 * ceil(self.width / 4) * ceil(self.words / 16)

    @property
    def blocks(self) -> int:
        """Block RAMs of such a memory. A byte that is written alone takes nine bits."""
        width = ceil(self.width * 9 / 8) if self.bytes else self.width
        return min(ceil(width / w) * ceil(self.words * w / _BITS) for w in _WIDTHS)


def memories(module: Mapping[str, Any]) -> Iterator[Memory]:
    """The memories of a module, as Yosys writes it."""
    for name, cell in module["cells"].items():
        if cell["type"] != MEMORY:
            continue
        parameters = cell["parameters"]
        yield Memory(
            name=name,
            width=number(parameters["WIDTH"]),
            words=number(parameters["SIZE"]),
            bytes=len(set(cell["connections"]["WR_EN"])) > 1,
            clocked=cell.get("attributes", {}).get("ram_style") != "distributed"
            and number(parameters["RD_PORTS"]) == 1
            and number(parameters["RD_CLK_ENABLE"]) == 1
            and number(parameters["WR_PORTS"]) == 1,
        )


def into_blocks(every: Iterable[Memory], blocks: int = BLOCKS) -> list[str]:
    """Names of the memories to put into the block RAMs that others leave, the most worth first."""
    every = list(every)
    left = blocks - _SPARE - sum(m.blocks for m in every if m.words > _WORDS)
    small = [m for m in every if m.words <= _WORDS and m.clocked]
    chosen = []
    for memory in sorted(small, key=lambda m: (-m.tables / m.blocks, m.name)):
        if memory.tables >= _LEAST * memory.blocks and memory.blocks <= left:
            chosen.append(memory.name)
            left -= memory.blocks
    return chosen

"""Where a program and its regions lie in memory, as far as banks of a DRAM tell them apart."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from spec.isa import GRANULE_BYTES, Instruction, Opcode
from spec.places import sizes, spread
from spec.program import Image

REGION_SHIFT = 40
"""Of a place in a region: the region's number times 2 to that, and the offset in it."""

MOST_EXECUTED = 1 << 62
"""Bytes of a program of which nothing is known."""

_OFFSET = (1 << REGION_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Addresses:
    """program, regions: byte offsets in memory. executed: bytes of the program as it is executed.
    jumps: of these the ones from which on it is read so many bytes before them, in order.
    """

    program: int = 0
    regions: tuple[int, ...] = ()
    executed: int = MOST_EXECUTED
    jumps: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(image: Image, stored: Iterable[Instruction]) -> "Addresses":
        """Of an image with a program that is stored like that, with REPEAT."""
        (program, *regions), _ = spread(sizes(image))
        executed, jumps = _jumps(stored)
        return Addresses(program, tuple(regions), executed, jumps)

    def place(self, place: int) -> int:
        """The byte of memory at a place in a region."""
        region = place >> REGION_SHIFT
        if region >= len(self.regions):
            return place
        return self.regions[region] + (place & _OFFSET)

    def fetched(self, executed: int) -> int:
        """The byte of memory that fetch reads after so many bytes of the program."""
        at = bisect_right(self.jumps, executed, key=lambda jump: jump[0])
        return self.program + executed - (self.jumps[at - 1][1] if at else 0)


NOWHERE = Addresses()
"""Of a program that has no place yet."""


def _jumps(stored: Iterable[Instruction]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Bytes of the program as it is executed, and where that jumps."""
    at = executed = 0
    jumps: list[tuple[int, int]] = []
    for instruction in stored:
        size = instruction.format.granules * GRANULE_BYTES
        if instruction.opcode is Opcode.REPEAT:
            section = instruction["section"] * GRANULE_BYTES
            for _ in range(instruction["count"]):
                jumps.append((executed, executed - (at - section)))
                executed += section
            at += size
            jumps.append((executed, executed - at))
        else:
            at += size
            executed += size
    return executed, tuple(jumps)

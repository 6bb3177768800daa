"""What an instruction of a kernel is made of: record, buffers, and the bytes that it touches."""

from dataclasses import dataclass, replace

from spec.config import NpuConfig
from sw.compiler.kernels.context import EmitContext
from sw.compiler.program.records import Record
from sw.compiler.program.virtual import Access, Buffer, Place
from sw.language.memory import Memory, Piece
from sw.language.placement import Placement

MAX_SLICES = 32
"""Most blocks of columns that others wait for one by one: semaphores count no further than 255."""


@dataclass(frozen=True, slots=True)
class Issue:
    """An instruction to be: see `VirtualInstruction`."""

    record: Record
    bases: dict[str, Buffer]
    accesses: list[Access]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the memories of a kernel lie: buffers by site and slot, and what is placed by hand."""

    placement: Placement
    context: EmitContext
    rings: list[list[Buffer]]
    by_hand: Buffer | None

    @property
    def config(self) -> NpuConfig:
        return self.context.config

    def of(self, memory: Memory) -> tuple[Buffer, int]:
        """The buffer that a memory lies in, and where in it the memory begins."""
        if memory.place is Place.ACC:
            if memory.at is not None:
                return self.context.acc, memory.at
            site, slot = self.placement.slots[memory]
            return self.context.acc, self.placement.vectors[site][slot]
        if memory.at is not None:
            assert self.by_hand is not None
            return self.by_hand, memory.at
        site, slot = self.placement.slots[memory]
        return self.rings[site][slot], 0

    def access(self, piece: Piece, *, write: bool, weights: bool = False) -> Access:
        """All of a piece in the scratchpad, at once."""
        buffer, base = self.of(piece.memory)
        start, stop = piece.span(self.config.cols)
        return Access(
            buffer=buffer, start=base + start, stop=base + stop, write=write, weights=weights
        )

    def sums(self, piece: Piece, *, write: bool, by_block: bool = True) -> list[Access]:
        """A piece of the accumulator, block of columns after block.

        `by_block`: loop 0 goes through the blocks, and others wait for one after another.
        """
        count, pitch = piece.blocks(self.config.cols)
        by_block = by_block and 1 < count <= MAX_SLICES
        whole = self.access(piece, write=write)
        size = whole.stop - whole.start - (count - 1) * pitch
        return [
            replace(
                whole,
                start=whole.start + i * pitch,
                stop=whole.start + i * pitch + size,
                level=int(by_block),
                iteration=i if by_block else 0,
            )
            for i in range(count)
        ]

    def base(self, piece: Piece) -> int:
        """First unit of a piece in its buffer."""
        return self.of(piece.memory)[1] + piece.layout.offset

    def touched(self, piece: Piece, *, write: bool, by_block: bool) -> list[Access]:
        """All of a piece, of the accumulator block by block where that is loop 0."""
        if piece.in_acc:
            return self.sums(piece, write=write, by_block=by_block)
        return [self.access(piece, write=write)]

    def in_parts(self, whole: Access, parts: int, level: int) -> list[Access]:
        """Equal parts of an access, which the loop of a level goes through."""
        size = (whole.stop - whole.start) // parts
        return [
            replace(
                whole,
                start=whole.start + i * size,
                stop=whole.start + (i + 1) * size,
                level=level if parts > 1 else 0,
                iteration=i,
            )
            for i in range(parts)
        ]

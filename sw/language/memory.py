"""On-chip memories of a kernel, and pieces of them, before they have places."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sw.compiler.program.virtual import Place
from sw.language.layout import Layout
from sw.language.source import Line
from sw.language.types import item_bytes


@dataclass(slots=True, kw_only=True, eq=False)
class Memory:
    """What one statement makes: `size` bytes of the scratchpad, or vectors of the accumulator.

    `line` makes it, `label` says what it holds. `buffers`: how many memories of its line there may
    be at once (None: as many as help). `at`: where in the part of its memory that the kernel
    arranges itself (None: where the compiler wants). `banks`: over how many banks of the
    accumulator it spreads, with `size` vectors in each. `first`, `last`: numbers of the first and
    the last statement that touches it. `filled`: bytes that are written, of what is filled piece by
    piece.
    """

    place: Place
    size: int
    line: Line
    label: str
    buffers: int | None = None
    at: int | None = None
    banks: int = 1
    filled: NDArray[np.bool_] | None = None
    first: int = -1
    last: int = -1

    def touch(self, number: int) -> None:
        """Note that statement `number` reads or writes it."""
        self.first = number if self.first < 0 else self.first
        self.last = number


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements of a memory."""

    memory: Memory
    dtype: str
    layout: Layout

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def in_acc(self) -> bool:
        return self.memory.place is Place.ACC

    def under(self, layout: Layout) -> "Piece":
        """The same memory seen in another way."""
        return replace(self, layout=layout)

    def blocks(self, cols: int) -> tuple[int, int]:
        """Blocks of columns in the accumulator, and vectors from one to the next."""
        return -(-self.shape[-1] // cols), int(cols * Fraction(self.layout.strides[-1]))

    def span(self, cols: int) -> tuple[int, int]:
        """First unit of the memory that it touches, and the end."""
        layout = self.layout
        outer = zip(layout.shape[:-1], layout.strides[:-1], strict=True)
        last = layout.offset + sum((n - 1) * int(s) for n, s in outer)
        if self.in_acc:
            count, pitch = self.blocks(cols)
            return layout.offset, last + (count - 1) * pitch + 1
        row = (layout.shape[-1] - 1) * int(layout.strides[-1])
        return layout.offset, last + row + item_bytes(self.dtype)

    def elements(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The first byte of each of its elements in a mask of its memory's bytes."""
        view = mask[self.layout.offset :]
        return np.lib.stride_tricks.as_strided(view, self.shape, self.layout.whole_strides)

    def __str__(self) -> str:
        return f"{self.memory.label} {self.dtype}{list(self.shape)}"

"""Strided pieces: shape, stride of each dimension, offset; cut, reshaped, permuted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import EllipsisType
from typing import cast

from sw.compiler.kernels.nests import Stride
from sw.compiler.kernels.views import Placed, reshaped, row_major
from sw.language.errors import KernelError
from sw.language.source import caller

Index = int | slice | EllipsisType


@dataclass(frozen=True, slots=True)
class Layout:
    """A piece of a memory: units are bytes, or vectors of the accumulator.

    In the accumulator an element of the last dimension is a part of a vector.
    """

    shape: tuple[int, ...]
    strides: tuple[Stride, ...]
    offset: int = 0

    @staticmethod
    def dense(shape: Sequence[int], item: int) -> "Layout":
        """Row after row."""
        return Layout(tuple(shape), row_major(tuple(shape), item))

    @staticmethod
    def vectors(shape: Sequence[int], cols: int, pitch: int) -> "Layout":
        """In the accumulator: rows one after another, blocks of columns `pitch` vectors apart."""
        *outer, last = shape
        step = pitch if last > cols else 1
        return Layout(tuple(shape), (*row_major(tuple(outer), 1), Fraction(step, cols)))

    @property
    def whole_strides(self) -> tuple[int, ...]:
        """The strides of bytes."""
        assert all(Fraction(s).denominator == 1 for s in self.strides)
        return tuple(int(s) for s in self.strides)

    def at(self, index: Index | tuple[Index, ...], what: str) -> "Layout":
        """The piece that an index names: whole numbers drop their dimension, slices keep it."""
        parts = _complete(index if isinstance(index, tuple) else (index,), len(self.shape), what)
        shape, strides, offset = [], [], Fraction(self.offset)
        for number, (part, size, stride) in enumerate(
            zip(parts, self.shape, self.strides, strict=True)
        ):
            start, stop, step = _range(part, size, f"{what}: dimension {number}")
            offset += start * Fraction(stride)
            if isinstance(part, slice):
                shape.append(-(-(stop - start) // step))
                strides.append(stride * step if step > 1 else stride)
        if offset.denominator != 1:
            raise KernelError(
                f"{what}: columns of the accumulator are cut at {parts[-1]}",
                source=str(caller()),
                hint="cut its columns at multiples of the array's columns",
            )
        return Layout(tuple(shape), tuple(strides), int(offset))

    def reshaped(self, shape: Sequence[int], item: int, what: str) -> "Layout":
        """The same elements in the same order in another shape."""
        shape = tuple(shape)
        found: tuple[Stride, ...] | None = None
        if math.prod(shape) == math.prod(self.shape) and Fraction(self.strides[-1]) == item:
            placed = Placed(
                root="", shape=self.shape, strides=self.whole_strides, offset=0, item=item
            )
            found = reshaped(placed, shape)
        elif math.prod(shape) == math.prod(self.shape) and shape[-1:] == self.shape[-1:]:
            outer = tuple(int(s) for s in self.strides[:-1])
            placed = Placed(root="", shape=self.shape[:-1], strides=outer, offset=0, item=1)
            rows = reshaped(placed, shape[:-1])
            found = None if rows is None else (*rows, self.strides[-1])
        if found is None:
            raise KernelError(
                f"{what}: reshape of {list(self.shape)} to {list(shape)}: needs a copy, or has "
                "another number of elements",
                source=str(caller()),
                hint="store the tile and load it in the other shape",
            )
        return Layout(shape, found, self.offset)

    def permuted(self, order: Sequence[int]) -> "Layout":
        """The same elements with dimension order[i] as dimension i."""
        shape, strides = (tuple(x[i] for i in order) for x in (self.shape, self.strides))
        return Layout(cast(tuple[int, ...], shape), strides, self.offset)


def _complete(parts: tuple[Index, ...], rank: int, what: str) -> list[int | slice]:
    """One index for each dimension."""
    given = [p for p in parts if p is not Ellipsis]
    if len(given) > rank or len(parts) - len(given) > 1:
        raise KernelError(
            f"{what}: {len(given)} indices for {rank} dimensions", source=str(caller())
        )
    at = parts.index(Ellipsis) if Ellipsis in parts else len(parts)
    return [*given[:at], *[slice(None)] * (rank - len(given)), *given[at:]]


def _range(part: int | slice, size: int, what: str) -> tuple[int, int, int]:
    if isinstance(part, slice):
        start = 0 if part.start is None else int(part.start)
        stop = size if part.stop is None else int(part.stop)
        step = 1 if part.step is None else int(part.step)
    else:
        start, step = int(part), 1
        stop = start + 1
    if not 0 <= start < stop <= size or step < 1:
        shown = f"{start}:{stop}" + (f":{step}" if step != 1 else "")
        raise KernelError(
            f"{what}: {shown} lies outside 0:{size}",
            source=str(caller()),
            hint="take slices from tiles(size, step), whose last one is shorter",
        )
    return start, stop, step

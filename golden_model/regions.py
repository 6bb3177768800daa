"""Sets of bytes or accumulator vectors, relative to a base, for the hazard checks."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model.boxes import Walk
from golden_model.loops import Ints
from golden_model.state import mark

_PIECES = 32
"""More strided pieces than this are slower than an index array."""


class Piece:
    """Strided runs of units: `shape` and `strides` have the run last."""

    __slots__ = ("offset", "shape", "size", "strides")

    def __init__(self, offset: int, dimensions: list[tuple[int, int]], run: int) -> None:
        """dimensions: (stride, count), the innermost first."""
        self.offset = offset
        self.shape = (*(n for _, n in reversed(dimensions)), run)
        strides = (*(s for s, _ in reversed(dimensions)), 1)
        self.strides = {item: tuple(s * item for s in strides) for item in (1, 4)}
        self.size = 1 + sum((n - 1) * s for n, s in zip(self.shape, strides, strict=True))

    def moved(self, by: int) -> "Piece":
        piece = Piece(self.offset + by, [], 1)
        piece.shape, piece.strides, piece.size = self.shape, self.strides, self.size
        return piece

    def of(self, array: NDArray[Any], base: int) -> NDArray[Any]:
        """The elements of a shadow array, one per unit; shared with it."""
        start, item = base + self.offset, array.itemsize
        if len(self.shape) == 1:
            return array[start : start + self.shape[0]]
        return np.ndarray(self.shape, array.dtype, array, start * item, self.strides[item])


class Region:
    """Units in strided pieces, or by their numbers if there are too many of those."""

    __slots__ = ("_index", "_pieces", "empty")

    def __init__(self, pieces: Iterable[Piece] = (), index: Ints | None = None) -> None:
        self._pieces, self._index = tuple(pieces), index
        self.empty = not self._pieces and (index is None or not index.size)

    def _parts(self, array: NDArray[Any], base: int) -> Iterator[NDArray[Any]]:
        for piece in self._pieces:
            yield piece.of(array, base)
        if self._index is not None:
            yield array[self._index + base]

    def all(self, array: NDArray[np.bool_], base: int) -> bool:
        return all(bool(np.logical_and.reduce(p, axis=None)) for p in self._parts(array, base))

    def max(self, array: NDArray[np.int32], base: int) -> int:
        return max(int(np.maximum.reduce(p, axis=None)) for p in self._parts(array, base))

    def fill(self, array: NDArray[Any], base: int, value: int) -> None:
        for piece in self._pieces:
            piece.of(array, base).fill(value)
        if self._index is not None:
            array[self._index + base] = value

    def units(self, base: int) -> Ints:
        """The distinct units, ascending."""
        found = [np.zeros(0, np.int64) if self._index is None else self._index]
        for piece in self._pieces:
            numbers = np.arange(piece.size, dtype=np.int32)
            found.append(piece.offset + piece.of(numbers, -piece.offset).reshape(-1))
        return np.unique(np.concatenate(found)) + base

    def moved(self, by: int) -> "Region":
        """The units `by` further on."""
        if self._index is not None:
            return Region(index=self._index + by)
        return Region(piece.moved(by) for piece in self._pieces)

    def __or__(self, other: "Region") -> "Region":
        if self._index is None and other._index is None:
            return Region((*self._pieces, *other._pieces))
        return region_of(np.union1d(self.units(0), other.units(0)))


def region(walk: Walk, run: int) -> Region:
    """The units of runs of `run` units at every address of a walk."""
    kept: list[tuple[int, int]] = []
    moving = [(abs(s), n) for s, n in zip(walk.strides, walk.shape, strict=True) if s and n > 1]
    for stride, n in sorted(moving):
        if not kept and stride <= run:
            run += (n - 1) * stride
        elif kept and not stride % kept[-1][0] and stride <= kept[-1][0] * kept[-1][1]:
            # Rows of windows that overlap, or touch, in whole rows.
            inner, count = kept[-1]
            kept[-1] = (inner, count + (n - 1) * (stride // inner))
        else:
            kept.append((stride, n))
    return Region([Piece(walk.low, kept, run)])


def region_at(address: Ints, run: int) -> Region:
    """The units of runs of `run` units at each address."""
    if not address.size:
        return Region()
    low, high = int(address.min()), int(address.max()) + run
    marks = np.zeros(high - low, np.uint8)
    mark(marks, address - low, run, 1)
    return region_of(np.flatnonzero(marks) + low)


def region_of(units: Ints) -> Region:
    """The region of these units, ascending and distinct."""
    if not units.size:
        return Region()
    breaks = np.flatnonzero(np.diff(units) > 1) + 1
    starts = units[np.concatenate([[0], breaks])]
    runs = np.diff(np.concatenate([[0], breaks, [units.size]]))
    steps = np.diff(starts)
    if starts.size > 1 and (runs == runs[0]).all() and (steps == steps[0]).all():
        return Region([Piece(int(starts[0]), [(int(steps[0]), starts.size)], int(runs[0]))])
    if starts.size > _PIECES:
        return Region(index=units)
    return Region(Piece(int(a), [], int(n)) for a, n in zip(starts, runs, strict=True))

"""Rectangular parts of loop nests, whose addresses are strided: views instead of index arrays."""

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from golden_model.loops import Ints, Loop


@dataclass(frozen=True, slots=True)
class Walk:
    """Addresses `offset` + sum of index x stride, from `low` to `high`."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    low: int
    high: int

    def grid(self) -> Ints:
        """[shape]: every address."""
        out = np.full(self.shape, self.offset)
        for axis, (n, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            if stride:
                out += (np.arange(n) * stride).reshape(-1, *[1] * (len(self.shape) - axis - 1))
        return out

    def compact(self) -> Ints:
        """The same, of size 1 in dimensions that do not step."""
        shape = tuple(n if s else 1 for n, s in zip(self.shape, self.strides, strict=True))
        return strided(shape, self.strides, self.offset).grid()

    def then(self, count: int, stride: int) -> "Walk":
        """With one more dimension, the last."""
        return strided((*self.shape, count), (*self.strides, stride), self.offset)

    def joined(self, other: "Walk") -> "Walk":
        """With the dimensions of another walk after its own."""
        shape, strides = (*self.shape, *other.shape), (*self.strides, *other.strides)
        return strided(shape, strides, self.offset + other.offset)

    def first(self) -> "Walk":
        """Without its last dimension: where its runs begin."""
        return strided(self.shape[:-1], self.strides[:-1], self.offset)

    def divided(self, unit: int) -> "Walk":
        """The same in units of `unit`, by which everything must divide."""
        strides = tuple(stride // unit for stride in self.strides)
        return strided(self.shape, strides, self.offset // unit)


def strided(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Walk:
    """The walk over a strided array."""
    spans = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, high = sum(s for s in spans if s < 0), sum(s for s in spans if s > 0)
    return Walk(shape, strides, offset, offset + low, offset + high)


class Box:
    """Loop i of `loops` runs from `start[i]` for `count[i]` iterations, whatever the others do.

    last[i]: these are its last iteration; whole[i]: these are all of its iterations.
    dimensions: the loops that run more than once; shape: their counts.
    """

    def __init__(self, loops: Sequence[Loop], parts: "Sequence[_Part]") -> None:
        self.loops = loops
        self.start = [part.start for part in parts]
        self.count = [part.count for part in parts]
        self.last = [part.last for part in parts]
        self.whole = [part.whole for part in parts]
        self.dimensions = tuple(i for i, n in enumerate(self.count) if n > 1)
        self.shape = tuple(self.count[i] for i in self.dimensions)
        self.size = math.prod(self.shape)

    def walk(self, stride: str, unit: int = 1) -> Walk:
        """Where the steps go by the stride of that name, which counts `unit`s."""
        starts = zip(self.start, self.loops, strict=True)
        offset = unit * sum(i * loop[stride] for i, loop in starts)
        strides = tuple(self.loops[i][stride] * unit for i in self.dimensions)
        return strided(self.shape, strides, offset)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some iterations of one loop."""

    start: int
    count: int
    last: bool
    whole: bool


def boxes(
    loops: Sequence[Loop], outer_last: bool = False, watched: Set[int] = frozenset()
) -> list[Box]:
    """Boxes that make up a nest, in the order of their first steps.

    outer_last: the loop around the nest is in its last iteration; watched: loops whose last
    iteration shall have boxes of its own.
    """
    return [Box(loops, parts) for parts in _split(loops, 0, outer_last, watched)]


def _split(
    loops: Sequence[Loop], at: int, outer_last: bool, watched: Set[int]
) -> list[list[_Part]]:
    if at == len(loops):
        return [[]]
    n = loops[at]["last"] if outer_last else loops[at]["count"]
    ragged = at + 1 < len(loops) and loops[at + 1]["last"] != loops[at + 1]["count"]
    parts = [_Part(0, n, n == 1, True)]
    if (ragged or at in watched) and n > 1:
        parts = [_Part(0, n - 1, False, False), _Part(n - 1, 1, True, False)]
    return [[part, *inner] for part in parts for inner in _split(loops, at + 1, part.last, watched)]


def disjoint(shape: Sequence[int], strides: Sequence[int], run: int) -> bool:
    """Whether runs of `run` units at strided addresses surely share no unit."""
    reach = run
    for stride, n in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True)):
        if stride < reach:
            return False
        reach += stride * (n - 1)
    return True


def apart(address: Ints, run: Ints) -> bool:
    """Whether runs of `run` [n] units at `address` [n] share no unit."""
    order = np.argsort(address)
    return bool((address[order][:-1] + run[order][:-1] <= address[order][1:]).all())


def view(
    memory: NDArray[Any],
    start: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: DTypeLike,
) -> NDArray[Any]:
    """Strided elements of a memory of bytes, shared with it; strides in bytes."""
    return np.ndarray(shape, dtype, memory, start, strides)

"""One dimension of a RESIZE: which inputs an output lies between, and how it weighs them.

Output o lies at (o · step + offset) / scale of the input. Outputs that are `phases` apart lie
equally far from the inputs around them: they have the same weights, and `stride` inputs between
them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """`count` inputs from `source` on, `step` apart (0: the same one), from `at` of a tile on."""

    at: int
    count: int
    source: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeAxis:
    """`size` inputs, `out` outputs; see above."""

    size: int
    out: int
    scale: int
    step: int
    offset: int

    @property
    def phases(self) -> int:
        return self.scale // math.gcd(self.scale, self.step)

    @property
    def stride(self) -> int:
        return self.step // math.gcd(self.scale, self.step)

    def low(self, at: int) -> int:
        """The input before output `at` or at its place; it may lie outside the input."""
        return (at * self.step + self.offset) // self.scale

    def weights(self, at: int) -> tuple[int, ...]:
        """The weights of output `at`: of the input before it and, if there is any, behind it."""
        part = (at * self.step + self.offset) % self.scale
        return (self.scale - part, part) if part else (self.scale,)

    @property
    def most(self) -> int:
        """The largest weight of an input."""
        return max(max(self.weights(at)) for at in range(min(self.out, self.phases)))

    def outputs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """(first, count) of the outputs in start…stop of each phase that has any."""
        for first in range(start, min(start + self.phases, stop)):
            yield first, -(-(stop - first) // self.phases)

    def reach(self, start: int, stop: int) -> tuple[int, int]:
        """The inputs that outputs start…stop read, also those outside: (first, end)."""
        last = range(max(start, stop - self.phases), stop)
        return self.low(start), max(self.low(at) + len(self.weights(at)) for at in last)

    def segments(self, start: int, stop: int) -> Iterator[Segment]:
        """Inputs start…stop, of which those outside are the nearest one inside."""
        low, high = min(max(start, 0), stop), max(min(stop, self.size), start)
        if low > start:
            yield Segment(at=0, count=low - start, source=0, step=0)
        if high > low:
            yield Segment(at=low - start, count=high - low, source=low, step=1)
        first = max(low, high)
        if stop > first:
            yield Segment(at=first - start, count=stop - first, source=self.size - 1, step=0)

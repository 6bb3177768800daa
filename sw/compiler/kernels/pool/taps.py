"""Taps of a window along one of its dimensions, of which a step may take two: as A and as B.

A maximum may take a tap twice, so that a window of three takes two steps: taps 0 and 1, 1 and 2.
A sum must not. Both operands of a step lie inside the input, or it contributes nothing: where
windows reach beyond the input so far that a tap would be missed, they are computed apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sw.compiler.kernels.windows import WindowAxis
from sw.compiler.machine.costs import VECTOR_TILE_CYCLES


@dataclass(frozen=True, slots=True, kw_only=True)
class TapRate:
    """Cycles of a step that takes one tap, and of one that takes two. once: each tap counts."""

    one: float
    two: float
    once: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """Outputs start…stop, computed alike: step i takes tap first + i of the window and, unless
    `apart` is 0, tap first + i + apart too.
    """

    start: int
    stop: int
    first: int
    steps: int
    apart: int = 0

    def cycles(self, rate: TapRate) -> float:
        """Of all outputs, if they are one vector each."""
        return (self.stop - self.start) * self.steps * (rate.two if self.apart else rate.one)


def single_taps(axis: WindowAxis, start: int, stop: int) -> Taps:
    """Outputs start…stop by one tap a step."""
    runs = list(_alike(axis, start, stop))
    first, end = _reach(axis, runs)
    return Taps(start=start, stop=stop, first=first, steps=end - first)


@lru_cache(maxsize=1 << 10)
def paired_taps(
    axis: WindowAxis, start: int, stop: int, rate: TapRate, each: int
) -> tuple[Taps, ...]:
    """Outputs start…stop by two taps a step where that takes fewer cycles; of the ways to divide
    them the fastest one. each: vectors of an output times steps for each tap.
    """
    runs = list(_alike(axis, start, stop))
    best: list[tuple[float, tuple[Taps, ...]]] = [(0.0, ())]
    for i in range(1, len(runs) + 1):
        ways = []
        for j in range(i):
            before, done = best[j]
            taps = _together(axis, runs[j:i], rate)
            ways.append((before + total_cycles((taps,), rate, each), (*done, taps)))
        best.append(min(ways, key=lambda way: way[0]))
    return best[-1][1]


def total_cycles(parts: Sequence[Taps], rate: TapRate, each: int) -> float:
    """Cycles of instructions, a part of the outputs each; each: see `paired_taps`."""
    return sum(taps.cycles(rate) * each + VECTOR_TILE_CYCLES for taps in parts)


_Run = tuple[int, int, tuple[int, int]]
"""Outputs from, to, and which taps of their windows lie in the input: from, to."""


def _alike(axis: WindowAxis, start: int, stop: int) -> Iterator[_Run]:
    while start < stop:
        inside, end = axis.taps(start), start + 1
        while end < stop and axis.taps(end) == inside:
            end += 1
        yield start, end, inside
        start = end


def _reach(axis: WindowAxis, runs: Sequence[_Run]) -> tuple[int, int]:
    """The taps that any of the windows has in the input; all where none has any."""
    known = [inside for _, _, inside in runs if inside[0] < inside[1]]
    if not known:
        return 0, axis.kernel
    return min(low for low, _ in known), max(high for _, high in known)


def _together(axis: WindowAxis, runs: Sequence[_Run], rate: TapRate) -> Taps:
    """Runs by one instruction."""
    first, end = _reach(axis, runs)
    one = Taps(start=runs[0][0], stop=runs[-1][1], first=first, steps=end - first)
    # A window of n taps from `low` on: A takes taps low…high - apart, B low + apart…high. They
    # leave no tap out if apart <= n / 2, and meet no tap twice if it is n / 2.
    counts = {high - low for _, _, (low, high) in runs if low < high}
    apart = min(counts, default=0) // 2
    if rate.once and counts != {2 * apart}:
        apart = 0
    two = Taps(start=one.start, stop=one.stop, first=first, steps=end - first - apart, apart=apart)
    return two if apart and two.cycles(rate) < one.cycles(rate) else one

"""Which blocks of memory a LOAD or STORE visits, and in which order."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

BLOCK_BYTES = 64
"""An access of every DRAM that there is (spec/dram.py)."""

_MOST_RUNS = 16
"""Runs that are looked at for the blocks next to a position."""

Near = Sequence[tuple[int, int]]
"""(accesses away, block), the nearest first."""


class RowSize(NamedTuple):
    """groups: over which a row of blocks is spread. blocks: of a row in all of them."""

    groups: int
    blocks: int


class Path(NamedTuple):
    """Runs of `run` bytes from place `base` on (`Addresses.place`); loops: (count, bytes to the
    next), the outermost first.
    """

    base: int
    run: int
    loops: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, base: int, run: int, loops: Iterable[tuple[int, int]]) -> "Path":
        """Runs that follow one another are one."""
        left = [loop for loop in loops if loop[0] > 1]
        while left and left[-1][1] == run:
            run *= left.pop()[0]
        return cls(base, run, tuple(left))

    @property
    def runs(self) -> int:
        return math.prod(count for count, _ in self.loops)

    def address(self, run: int) -> int:
        """Where a run begins."""
        at = self.base
        for count, by in reversed(self.loops):
            run, index = divmod(run, count)
            at += index * by
        return at

    def at(self, base: int) -> "Path":
        """The same from another place on."""
        return Path(base, self.run, self.loops)

    def near(self, part: float, reach: int, rows: RowSize, by: int) -> Near:
        """What of the next `reach` accesses (by: 1) after that part of them, or of the last ones
        until then (-1), is the first in a row.
        """
        runs = self.runs if self.loops else 1
        run = min(int(part * runs), runs - 1)
        inside = int((part * runs - run) * self.run)
        if self.loops:
            return _near(self, run, inside, reach, rows, by)
        low, high = self.base // BLOCK_BYTES, (self.base + self.run - 1) // BLOCK_BYTES
        if by > 0:
            first = (self.base + inside) // BLOCK_BYTES
            count = min(reach, high - first + 1) if part < 1 else 0
        else:
            first = (self.base + inside - 1) // BLOCK_BYTES
            count = min(reach, first - low + 1)
        return _row_firsts(first, count, rows, by)


def _row_firsts(first: int, count: int, rows: RowSize, by: int) -> Near:
    """Of `count` blocks in a row."""
    groups, blocks = rows
    found = [(away + 1, first + by * away) for away in range(min(groups, count))]
    edge = blocks - first % blocks if by > 0 else first % blocks + 1
    if edge < count:
        edges = range(max(edge, groups), min(edge + groups, count))
        found += [(away + 1, first + by * away) for away in edges]
    return found


@lru_cache(maxsize=1 << 14)
def _near(path: Path, run: int, inside: int, reach: int, rows: RowSize, by: int) -> Near:
    groups, blocks = rows
    found: list[tuple[int, int]] = []
    seen: set[tuple[int, int]] = set()
    away, last = 0, -1
    for block in _blocks(path, run, inside, reach, by):
        if block == last:
            continue
        away, last = away + 1, block
        key = block // blocks, block % groups
        if key not in seen:
            seen.add(key)
            found.append((away, block))
        if away == reach:
            break
    return tuple(found)


def _blocks(path: Path, run: int, inside: int, reach: int, by: int) -> Iterator[int]:
    """The blocks from byte `inside` of a run on, forwards or backwards, some of them twice."""
    stop = min(path.runs, run + _MOST_RUNS) if by > 0 else max(-1, run - _MOST_RUNS)
    for number in range(run, stop, by):
        begin = path.address(number)
        end = begin + path.run
        if number == run:
            begin, end = (begin + inside, end) if by > 0 else (begin, begin + inside)
        if begin < end:
            low, high = begin // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
            if by > 0:
                yield from range(low, min(high, low + reach) + 1)
            else:
                yield from range(high, max(low, high - reach) - 1, -1)

"""Writes that the controller of a DRAM has taken and not done (`rtl/dram.h`)."""

import itertools
import math
from collections import deque
from collections.abc import Sequence

from spec.places import PAGE
from sw.compiler.machine.costs import FEW_WRITES, MANY_WRITES, MOST_WRITES
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.dram.open_rows import Bank, OpenRows
from sw.compiler.program.dram.paths import BLOCK_BYTES
from sw.compiler.program.dram.refreshes import Refreshes

PAGE_BLOCKS = PAGE // BLOCK_BYTES
"""Blocks that lie in one row, as regions are aligned. With bank groups, the first block stands for
the banks of all of them."""

_AT_ONCE = 32
"""Writes of a STORE that are taken to come together."""


class WriteQueue:
    """Writes that a DRAM's controller has taken and not done (`rtl/dram.h`): the numbers of their
    blocks, in order. They are written while nobody reads, one after another, and before reads where
    many wait. Parts of a block that waits are written with it. coming: (when, blocks) of STOREs
    under way. most: writes that wait, with all that come.
    """

    def __init__(self, memory: MemoryChannel) -> None:
        self.memory = memory
        self.rows, self.refreshes = OpenRows(memory), Refreshes(memory)
        self.waiting: dict[int, None] = {}
        self.coming: deque[tuple[float, Sequence[int]]] = deque()
        self.most = 0
        self.now = 0.0
        self._last = 0.0, -math.inf, 0
        self._group = 0
        # Of the oldest one: its page, its bank and row, and from when on that can be closed.
        self._oldest = 0, (0, 0), 0.0
        self._places: dict[int, tuple[int, int]] = {}

    def store(self, begin: float, end: float, blocks: Sequence[int]) -> None:
        """Writes to `blocks` come between `begin` and `end`."""
        each = (end - begin) / max(1, len(blocks))
        for first in range(0, len(blocks), _AT_ONCE):
            part = blocks[first : first + _AT_ONCE]
            self.coming.append((begin + (first + len(part)) * each, part))
        self.most += len(blocks)

    def settle(self, now: float, reads: float) -> float:
        """What comes until `now`, and what is written until then; reads: until when the data bus is
        taken. Returns: until when it is taken if there are writes that cannot wait, else 0.
        """
        taken = 0.0
        while self.coming and self.coming[0][0] <= now:
            there, blocks = self.coming.popleft()
            self.idle(there, reads)
            before = len(self.waiting)
            self.waiting.update(dict.fromkeys(blocks))
            self.most -= before + len(blocks) - len(self.waiting)
            if len(self.waiting) >= MANY_WRITES:
                reads = taken = self._forced(max(there, reads), len(self.waiting) - FEW_WRITES)
        self.idle(now, reads)
        return taken

    def idle(self, now: float, reads: float) -> None:
        """Writes one after another until `now`, while nobody reads; reads: until when the data bus
        is taken.
        """
        at, each = max(self.now, reads), self.memory.write_alone
        while self.waiting and at <= now:
            begin = self._opened(at, at)
            count = self._take(1 + max(0, int((now - begin) / each)))
            at = self._wrote(begin, begin + (count - 1) * each)
        self.now = max(self.now, now, at if self.waiting else 0.0)

    def turned(self, since: float, block: int) -> float:
        """When a read of `block` can be commanded that is known since then."""
        begin, done, group = self._last
        if begin > since:
            return since
        near = block % self.rows.size.groups == group
        return max(since, done + (self.memory.to_read_near if near else self.memory.to_read))

    def _forced(self, start: float, count: int) -> float:
        """Until when the data bus is taken by `count` writes that reads wait for."""
        at, each = start, self.memory.stream(BLOCK_BYTES)
        while count > 0:
            begin = self._opened(start, at)
            taken = self._take(count)
            count -= taken
            at = self.refreshes.end(begin, taken * each)
            self._wrote(begin, at - each)
        return at + self.memory.turn

    @property
    def early(self) -> float:
        """Cycles before the data bus has moved everything in which the last write is taken."""
        return (MOST_WRITES - len(self.waiting)) * self.memory.stream(BLOCK_BYTES)

    def _opened(self, since: float, at: float) -> float:
        """When the oldest one is commanded, which has its turn at `at`."""
        rows, oldest = self.rows, next(iter(self.waiting))
        page = oldest // PAGE_BLOCKS
        place = self._places.get(page)
        if place is None:
            place = self._places[page] = rows.where(self.memory.block(oldest))
        state = rows.found(place[0], at)
        if state is not None and state.row == place[1]:
            begin = at
        else:
            begin = rows.command(state, place[1], since, at)
            state = rows.read(state, place[1], begin, begin)
        self._oldest = page, place, state.closes
        return begin

    def _take(self, most: int) -> int:
        """Removes the oldest ones as long as they are in one page; returns how many."""
        behind = (self._oldest[0] + 1) * PAGE_BLOCKS
        first, waiting, taken = behind - PAGE_BLOCKS, self.waiting, []
        for block in itertools.islice(waiting, most):
            if not first <= block < behind:
                break
            taken.append(block)
        for block in taken:
            del waiting[block]
        self.most -= len(taken)
        self._group = taken[-1] % self.rows.size.groups
        return len(taken)

    def _wrote(self, first: float, last: float) -> float:
        """Writes to a row, commanded from `first` to `last`; returns: when the last one is done."""
        rows = self.rows
        done = last + self.memory.write_alone
        _, (bank, row), closes = self._oldest
        state = Bank(row, first, max(closes, done + rows.write_closes))
        for alike in rows.alike(bank):
            rows.data[alike] = state
        self._last = last, done, self._group
        return done

"""Which row each bank of a DRAM has open, and when another one can be read (`rtl/dram.h`).

All times are cycles of the NPU at which the DRAM is given a command.
"""

import math
from typing import NamedTuple

from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.dram.paths import BLOCK_BYTES, Near, Path, RowSize


class Bank(NamedTuple):
    """row: that is open. last: the last command to it. closes: from when on it can be closed."""

    row: int
    last: float
    closes: float


class Passing(NamedTuple):
    """A LOAD that a burst of the program comes between: what it has read just before and reads just
    after. last: when the last of that was commanded. pace: cycles from one access to the next.
    """

    before: Near
    after: Near
    last: float
    pace: float


ALONE = Passing((), (), 0.0, 0.0)
"""No LOAD is under way."""


class OpenRows:
    """Banks as the accesses of a program leave them, which come in two orders: LOADs and writes,
    and the program. A LOAD is known to its end when bursts of the program come between its own.
    """

    def __init__(self, memory: MemoryChannel) -> None:
        dram = memory.dram
        assert dram is not None and dram.access_bytes == BLOCK_BYTES
        times = {k: t / memory.cycle for k, t in dram.picoseconds(memory.clock_mhz).items()}
        self.precharge, self.activate = times["precharge"], times["activate"]
        self.active, self.read_closes = times["active"], times["read_to_precharge"]
        self.write_closes = times["write_recovery"]
        self.every = times["refresh_every"]
        self.access = memory.access
        reopen = self.read_closes + self.precharge + self.activate
        self.reach = math.ceil(reopen / self.access)
        self._banks = dram.banks
        self.size = RowSize(dram.groups, dram.groups * dram.page_bytes // BLOCK_BYTES)
        self.data: dict[int, Bank] = {}
        self.program: dict[int, Bank] = {}

    def where(self, block: int) -> tuple[int, int]:
        """(bank, row) of a block."""
        groups, blocks = self.size
        page = block // blocks
        row = page // self._banks
        return block % groups * self._banks + (page + row) % self._banks, row

    def alike(self, bank: int) -> range:
        """The banks over which a row is spread, one in each group."""
        return range(bank % self._banks, self.size.groups * self._banks, self._banks)

    def found(self, bank: int, at: float) -> Bank | None:
        """How what came last before `at` has left a bank; None: without an open row."""
        state = self.data.get(bank)
        if state is not None and state.last > at:
            state = None
        other = self.program.get(bank)
        if other is not None and other.last <= at and (state is None or other.last > state.last):
            state = other
        # A refresh closes all rows.
        if state is not None and at // self.every > state.last // self.every:
            return None
        return state

    def command(self, state: Bank | None, row: int, since: float, at: float) -> float:
        """When a row of a bank, known since `since`, is accessed if its turn is at `at`."""
        if state is None:
            return max(at, since + self.activate)
        if state.row == row:
            return at
        return max(at, max(since, state.closes) + self.precharge + self.activate)

    def read(self, state: Bank | None, row: int, first: float, last: float) -> Bank:
        """A bank that is read from `first` to `last`."""
        closes = last + self.read_closes
        if state is None or state.row != row:
            closes = max(closes, first - self.activate + self.active)
        return Bank(row, last, closes)

    def enter(self, path: Path, since: float, at: float) -> float:
        """When a LOAD is commanded first that is known since `since` and has its turn at `at`; what
        its next accesses wait for is added.
        """
        for away, block in path.near(0.0, self.reach, self.size, 1):
            bank, row = self.where(block)
            turn = at + (away - 1) * self.access
            at += self.command(self.found(bank, turn), row, since, turn) - turn
        return at

    def leave(self, path: Path, last: float, pace: float) -> None:
        """The rows that a LOAD leaves open, the last access of which is commanded at `last`."""
        near = path.near(1.0, self.reach, self.size, -1)
        for number in range(len(near)):
            bank, state = self._left(near, number, last, pace)
            known = self.data.get(bank)
            if known is None or known.last < state.last:
                self.data[bank] = state

    def _left(self, near: Near, number: int, last: float, pace: float) -> tuple[int, Bank]:
        """(bank, how it is) that a LOAD has read some accesses ago, entry `number` of `near`."""
        away, block = near[number]
        bank, row = self.where(block)
        at = last - (away - 1) * pace
        closes = at + self.read_closes
        before = number + self.size.groups
        if before < len(near):
            # As long as the row has been open.
            first = last - (near[before][0] - 2) * pace
            closes = max(closes, min(at, first) - self.activate + self.active)
        between = self.program.get(bank)
        if between is not None and between.last < at and between.row != row:
            # It was opened again behind a burst of the program.
            closes = max(closes, between.closes + self.precharge + self.active)
        return bank, Bank(row, at, closes)

    def between(
        self, blocks: range, since: float, now: float, passing: Passing
    ) -> tuple[float, float, float]:
        """When a burst of the program is commanded first that is known since `since` and has its
        turn at `now`; when the next access can be; and how long the LOAD then waits for its row.
        """
        first, again, page = -1.0, 0.0, -1
        for block in blocks:
            if block // self.size.blocks == page:
                # Of the row's banks in all groups, the first one stands for the others.
                now += self.access
                continue
            page = block // self.size.blocks
            bank, row = self.where(block)
            state = self._before(bank, now, passing)
            begin = self.command(state, row, since, now)
            mine = self.read(state, row, begin, begin)
            for alike in self.alike(bank):
                self.program[alike] = mine
            first = begin if first < 0 else first
            now = begin + self.access
            again = max(again, self._again(bank, mine, since, now, passing))
        return first, now, again

    def _before(self, bank: int, now: float, passing: Passing) -> Bank | None:
        """How a bank is when a burst of the program comes to it."""
        state = self.found(bank, now)
        for number in range(len(passing.before)):
            near, left = self._left(passing.before, number, passing.last, passing.pace)
            if near == bank:
                return left if state is None or left.last > state.last else state
        return state

    def _again(self, bank: int, mine: Bank, since: float, now: float, passing: Passing) -> float:
        """How long the LOAD waits until its row is open again."""
        for away, block in passing.after:
            near, row = self.where(block)
            if near == bank:
                turn = now + (away - 1) * passing.pace
                return self.command(mine, row, since, turn) - turn
        return 0.0

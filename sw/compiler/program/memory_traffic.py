"""What waits at the memory while a program runs: bursts of LOADs and of the program, and writes."""

import itertools
from bisect import bisect_left, bisect_right

from spec.config import NpuConfig
from sw.compiler.machine.costs import FETCH_ANSWER, FEW_WRITES, MANY_WRITES, MOST_WRITES
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.transfers import BLOCK_BYTES, Transfer


class Flight:
    """A queue of `limit` entries: one enters when the one so far before it has left."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entered: list[float] = [0.0]
        self.begins: list[float] = [0.0]
        self.ends: list[float] = [0.0]

    def room(self, more: float) -> float:
        """When entry number `more` from now on has room."""
        number = self.entered[-1] + more - self.limit
        if number <= 0:
            return 0.0
        at = bisect_left(self.entered, number)
        if at == len(self.entered):
            return self.ends[-1]
        before, after = self.entered[at - 1], self.entered[at]
        part = (number - before) / (after - before)
        return self.begins[at] + part * (self.ends[at] - self.begins[at])

    def left(self, now: float) -> float:
        """How many have left."""
        at = bisect_right(self.ends, now)
        if at == len(self.ends):
            return self.entered[-1]
        before, begin, end = self.entered[at - 1], self.begins[at], self.ends[at]
        if now <= begin:
            return before
        return before + (self.entered[at] - before) * (now - begin) / (end - begin)

    def add(self, count: float, begin: float, end: float) -> None:
        """So many entries leave between `begin` and `end`."""
        self.entered.append(self.entered[-1] + count)
        self.begins.append(begin)
        self.ends.append(end)


class ReadChannel(Flight):
    """Bursts of LOADs and of the program, answered in the order in which they are asked for
    (`hw_gen/blocks/axi_read_mux.py`). LOAD has no more than `outstanding` in flight, and no more
    than `words_in_flight` words, the program is behind them. A burst counts as many times as it has
    of the words that there may be for each. `stop`: when the data of each LOAD are there, by its
    number in the program; bursts of the program delay them. `rates`: of each LOAD, what a burst
    counts. `bus`: until when the data bus of a DRAM is taken; `written`: until when by writes that
    cannot wait.
    """

    def __init__(self, config: NpuConfig, memory: MemoryChannel, stop: list[float | None]) -> None:
        super().__init__(config.outstanding)
        self.bus_bytes, self.memory, self.stop = config.bus_bytes, memory, stop
        self.share = config.words_in_flight / config.outstanding
        self.asked: list[float] = [0.0]
        self.numbers: list[int] = [-1]
        self.rates: list[float] = [0.0]
        self.free = self.bus = self.written = 0.0

    def load(self, number: int, moved: Transfer, asked: float, begin: float, end: float) -> None:
        """What a LOAD moves, the first burst of which is asked for at `asked`."""
        each = max(1.0, moved.words / moved.bursts / self.share)
        self.add(moved.bursts * each, begin, end)
        self.rates.append(each)
        self.asked.append(asked)
        self.numbers.append(number)
        self.free = max(self.free, end)

    def write(self, start: float, work: float) -> None:
        """The data bus is taken for `work` cycles from `start` on, when it is free."""
        self.bus = self.written = max(self.bus, start) + work

    def read_program(self, at: float, words: int) -> float:
        """When the first of `words` words is there that are asked for at `at`."""
        memory, begins, ends = self.memory, self.begins, self.ends
        taken = memory.stream(words * self.bus_bytes, alone=self.free > at)
        time = max(float(words), taken)
        if taken:
            self.bus = max(self.bus, at) + taken
        there = max(max(at, self.written) + memory.flight + FETCH_ANSWER, self._behind(at))
        for load in range(len(ends) - 1, 0, -1):
            if ends[load] <= there:
                break
            if begins[load] >= there:
                begins[load] += time
            ends[load] += time
            self.stop[self.numbers[load]] = ends[load]
        self.free = max(self.free + time if self.free > there else 0.0, there + time)
        return there

    def _behind(self, at: float) -> float:
        """When everything has come that LOADs had asked for at `at`."""
        last = len(self.asked) - 1
        while last and self.asked[last] > at:
            last -= 1
        if not last or self.ends[last] <= at:
            return 0.0
        before = self.entered[last - 1]
        count = self.entered[last] - before
        # A burst a cycle, and no more than may be in flight.
        sent = (at - self.asked[last]) * self.rates[last]
        asked = min(count, sent, self.left(at) + self.limit - before)
        part = max(0.0, asked) / count
        return self.begins[last] + part * (self.ends[last] - self.begins[last])


class WriteQueue:
    """Writes that a DRAM's controller has taken and not done (`rtl/dram.h`): the numbers of their
    blocks, in order. They are written while nobody reads, one after another, and before reads where
    many wait. Parts of a block that waits are written with it.
    """

    def __init__(self, memory: MemoryChannel) -> None:
        self.memory = memory
        self.waiting: dict[int, None] = {}
        self.now = 0.0

    def store(self, now: float, reads: float, moved: Transfer) -> float:
        """Takes a STORE at `now`; reads: until when the data bus is taken. Returns: for how long it
        is taken by writes that cannot wait.
        """
        self._write(int((now - max(self.now, reads)) / self.memory.write_alone))
        self.now = max(self.now, now)
        forced = 0.0
        for block in moved.touched:
            self.waiting[block] = None
            if len(self.waiting) >= MANY_WRITES:
                self._write(MANY_WRITES - FEW_WRITES)
                forced += self.memory.forced(MANY_WRITES - FEW_WRITES)
        return forced

    @property
    def early(self) -> float:
        """Cycles before the data bus has moved everything in which the last write is taken."""
        return (MOST_WRITES - len(self.waiting)) * self.memory.stream(BLOCK_BYTES)

    def _write(self, count: int) -> None:
        """The oldest ones."""
        for block in list(itertools.islice(self.waiting, max(0, count))):
            del self.waiting[block]

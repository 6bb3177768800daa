"""What waits at the memory while a program runs: bursts of LOADs and of the program."""

from bisect import bisect_left, bisect_right

from spec.config import NpuConfig
from sw.compiler.machine.costs import FETCH_ANSWER
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.transfers import Transfer


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
    counts.
    """

    def __init__(self, config: NpuConfig, memory: MemoryChannel, stop: list[float | None]) -> None:
        super().__init__(config.outstanding)
        self.bus_bytes, self.memory, self.stop = config.bus_bytes, memory, stop
        self.share = config.words_in_flight / config.outstanding
        self.asked: list[float] = [0.0]
        self.numbers: list[int] = [-1]
        self.rates: list[float] = [0.0]
        self.free = 0.0

    def load(
        self, number: int, moved: Transfer, asked: float, begin: float, end: float, steps: int = 1
    ) -> None:
        """What a LOAD of so many steps moves, the first burst of which is asked for at `asked`."""
        self._enter(number, moved, asked, begin, end, 1.0)

    def _enter(
        self,
        number: int,
        moved: Transfer,
        asked: float,
        begin: float,
        end: float,
        share: float,
    ) -> None:
        """A share of a LOAD, which comes from `begin` to `end`."""
        each = max(1.0, moved.words / moved.bursts / self.share)
        self.add(share * moved.bursts * each, begin, end)
        self.rates.append(each)
        self.asked.append(asked)
        self.numbers.append(number)
        self.free = max(self.free, end)

    def read_program(self, at: float, words: int) -> float:
        """When the first of `words` words is there that are asked for at `at`."""
        there = max(at + self.memory.flight + FETCH_ANSWER, self._position(at)[0])
        self._delay(there, float(words))
        return there

    def _delay(self, there: float, time: float) -> None:
        """What comes after `there` comes so much later."""
        begins, ends = self.begins, self.ends
        for load in range(len(ends) - 1, 0, -1):
            if ends[load] <= there:
                break
            if begins[load] >= there:
                begins[load] += time
            ends[load] += time
            if load + 1 == len(ends) or self.numbers[load + 1] != self.numbers[load]:
                self.stop[self.numbers[load]] = ends[load]
        self.free = max(self.free + time if self.free > there else 0.0, there + time)

    def _position(self, at: float) -> tuple[float, int, float]:
        """When everything has come that LOADs had asked for at `at`; the last of them that asks,
        and which part of it has been asked for.
        """
        last, room = len(self.asked) - 1, self.left(at) + self.limit
        while last and (self.asked[last] > at or self.entered[last - 1] >= room):
            last -= 1
        if not last or self.ends[last] <= at:
            return 0.0, last, 1.0
        before = self.entered[last - 1]
        count = self.entered[last] - before
        # A burst a cycle, and no more than may be in flight.
        sent = (at - self.asked[last]) * self.rates[last]
        asked = min(count, sent, room - before)
        part = max(0.0, asked) / count
        return self.begins[last] + part * (self.ends[last] - self.begins[last]), last, part

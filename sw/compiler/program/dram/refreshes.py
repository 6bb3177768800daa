"""When a DRAM refreshes its rows, and takes no access (`rtl/dram.h`)."""

from collections.abc import Iterator
from typing import NamedTuple

from sw.compiler.program.channel import MemoryChannel


class Lead(NamedTuple):
    """How far memory is ahead of what the bus takes of a LOAD: `gain` cycles more each cycle from
    `since` on, and no more than `most`.
    """

    since: float = 0.0
    gain: float = 0.0
    most: float = 0.0

    def at(self, time: float) -> float:
        """Cycles by which it is ahead."""
        return min(self.most, max(0.0, time - self.since) * self.gain)


NO_LEAD = Lead()
"""What is read is taken at once."""


class Refreshes:
    """All banks are refreshed at once, at fixed times, which count from the first request of a run
    on. All times are cycles of the NPU at which the DRAM is given a command. every: from one
    refresh to the next. time: without accesses, as those under way end, rows are closed, and one is
    opened again.
    """

    def __init__(self, memory: MemoryChannel) -> None:
        assert memory.dram is not None
        self.every = memory.dram.refresh_every * 1e3 / memory.cycle
        self.time = memory.refresh

    def over(self, at: float) -> float:
        """When the next access can be, at `at` or behind a refresh that is under way then."""
        number = int(at // self.every)
        return max(at, number * self.every + self.time) if number else at

    def end(self, begin: float, time: float, lead: Lead = NO_LEAD) -> float:
        """When a LOAD is over that takes so long besides refreshes."""
        at = begin
        for stop, again in self._gaps(begin, lead):
            if at + time <= stop:
                break
            time -= max(0.0, stop - at)
            at = max(at, again)
        return at + time

    def parts(
        self, begin: float, end: float, lead: Lead = NO_LEAD
    ) -> Iterator[tuple[float, float]]:
        """What is left of the time between the two, each part from its begin to its end."""
        at = begin
        for stop, again in self._gaps(begin, lead):
            if stop >= end:
                break
            if at < stop < again:
                yield at, stop
            if stop < again:
                at = max(at, again)
        if at < end:
            yield at, end

    def _gaps(self, begin: float, lead: Lead) -> Iterator[tuple[float, float]]:
        """From when to when nothing comes, from the refresh before `begin` on; what memory has read
        ahead still comes.
        """
        number = int(begin // self.every)
        while True:
            if number:
                at = number * self.every
                again = at + self.time
                ahead = lead.at(at)
                hidden = ahead >= self.time
                yield again if hidden else at + ahead, again
                if not hidden:
                    lead = lead._replace(since=again)
            number += 1

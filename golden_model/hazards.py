"""Per-byte shadow of the memories: who wrote last, who read last, and was that ordered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from golden_model.clocks import Clocks, Timeline
from golden_model.errors import HazardError
from golden_model.loops import Ints
from golden_model.regions import Region
from golden_model.state import mark

Describe = Callable[[int], str]
SHADOW_BYTES = 9
"""What a `Shadow` takes for a byte that is written and read."""


@dataclass(frozen=True, slots=True)
class Span:
    """Runs of `run` units at `address` [n], accessed by the steps numbered `steps` [n]."""

    space: str
    steps: Ints
    address: Ints
    run: int

    def within(self, low: int, high: int) -> "Span":
        """The runs that touch low ... high-1."""
        near = (self.address > low - self.run) & (self.address < high)
        return Span(self.space, self.steps[near], self.address[near], self.run)


class Shadow:
    """What is known about one memory of `size` units (bytes, or accumulator vectors).

    initialised: it holds data before the run. writes, reads: by timeline, the number of the last
    event that wrote or read each unit; 0 is before the run.
    """

    def __init__(self, name: str, size: int, initialised: bool = False) -> None:
        self.name = name
        self.size = size
        self.known = np.full(size, initialised, np.bool_)
        self.writes: dict[Timeline, NDArray[np.int32]] = {}
        self.reads: dict[Timeline, NDArray[np.int32]] = {}
        self.latest: dict[tuple[bool, Timeline], int] = {}

    def record(
        self, wrote: bool, timeline: Timeline, region: Region, base: int, event: int
    ) -> None:
        events = self.writes if wrote else self.reads
        if timeline not in events:
            events[timeline] = np.zeros(self.size, np.int32)
        region.fill(events[timeline], base, event)
        self.latest[wrote, timeline] = event


class Hazards:
    """Checks every access of a run. `describe(index)` disassembles an instruction."""

    def __init__(self, clocks: Clocks, describe: Describe) -> None:
        self.clocks = clocks
        self.describe = describe
        # Event 0 is before the run.
        self._epochs, self._indices = [0], [-1]
        self._current: dict[Timeline, int] = {}

    def read(
        self, shadow: Shadow, region: Region, base: int, timeline: Timeline, index: int
    ) -> None:
        """`timeline` reads a region: written before, and by writes that are ordered before."""
        if region.empty:
            return
        if not region.all(shadow.known, base):
            self._unknown(shadow, region, base, timeline, index, "reads")
        self._check(shadow, True, region, base, timeline, index, "reads")
        shadow.record(False, timeline, region, base, self._event(timeline, index))

    def write(
        self, shadow: Shadow, region: Region, base: int, timeline: Timeline, index: int
    ) -> None:
        """`timeline` writes a region: after every earlier read and write of it."""
        if region.empty:
            return
        self._check(shadow, True, region, base, timeline, index, "writes")
        self._check(shadow, False, region, base, timeline, index, "writes")
        region.fill(shadow.known, base, 1)
        shadow.record(True, timeline, region, base, self._event(timeline, index))

    def accumulate(
        self, shadow: Shadow, region: Region, base: int, timeline: Timeline, index: int
    ) -> None:
        """A read whose result is written back at once: sees the timeline's own writes."""
        if not region.empty and not region.all(shadow.known, base):
            self._unknown(shadow, region, base, timeline, index, "accumulates onto")

    def _event(self, timeline: Timeline, index: int) -> int:
        """The number of an access by `timeline` now; accesses that cannot differ share it."""
        epoch, last = self.clocks.epoch(timeline), self._current.get(timeline, 0)
        if self._epochs[last] != epoch or self._indices[last] != index:
            last = self._current[timeline] = len(self._epochs)
            self._epochs.append(epoch)
            self._indices.append(index)
        return last

    def _check(
        self,
        shadow: Shadow,
        wrote: bool,
        region: Region,
        base: int,
        timeline: Timeline,
        index: int,
        verb: str,
    ) -> None:
        """Earlier writes (or reads) of the region are ordered before what `timeline` does now."""
        seen, epochs = self.clocks.seen[timeline], self._epochs
        for other, events in (shadow.writes if wrote else shadow.reads).items():
            known = int(seen[other])
            if epochs[shadow.latest[wrote, other]] <= known:
                continue
            # Of one timeline's events the later ones have the higher numbers and epochs.
            if epochs[region.max(events, base)] > known:
                self._race(shadow, wrote, region, base, timeline, index, verb)

    # Messages -----------------------------------------------------------------------------------

    def _unknown(
        self,
        shadow: Shadow,
        region: Region,
        base: int,
        timeline: Timeline,
        index: int,
        verb: str,
    ) -> None:
        units = region.units(base)
        address = int(units[np.argmin(shadow.known[units])])
        raise HazardError(
            f"{self._who(timeline, index)} {verb} {shadow.name} {address}, "
            "which nothing has written",
            timeline.engine,
            index,
            shadow.name,
            address,
        )

    def _race(
        self,
        shadow: Shadow,
        wrote: bool,
        region: Region,
        base: int,
        timeline: Timeline,
        index: int,
        verb: str,
    ) -> None:
        """Name the lowest unit with an access that is not ordered, and the latest such access."""
        units, epochs = region.units(base), np.array(self._epochs)
        last = np.zeros(units.size, np.int64)
        by = np.zeros(units.size, np.int64)
        for other, events in (shadow.writes if wrote else shadow.reads).items():
            late = epochs[events[units]] > self.clocks.seen[timeline, other]
            late &= events[units] > last
            last[late], by[late] = events[units][late], other
        first = int(np.argmax(last > 0))
        address, access = int(units[first]), "writes" if wrote else "reads"
        other_index = self._indices[int(last[first])]
        raise HazardError(
            f"race: {self._who(timeline, index)} {verb} {shadow.name} {address}, and "
            f"{self._who(Timeline(int(by[first])), other_index)} {access} it; no semaphore orders "
            "the two",
            timeline.engine,
            index,
            shadow.name,
            address,
            other_index,
        )

    def in_place(
        self,
        shadow: Shadow,
        reads: Sequence[Span],
        writes: Sequence[Span],
        timeline: Timeline,
        index: int,
    ) -> None:
        """No step of an instruction may read what an earlier step of it writes."""
        low = min(int(s.address.min()) for s in writes)
        high = max(int(s.address.max()) + s.run for s in writes)
        near = [s.within(low, high) for s in reads]
        near = [s for s in near if s.address.size]
        if not near:
            return
        low = min(low, *(int(s.address.min()) for s in near))
        high = max(high, *(int(s.address.max()) + s.run for s in near))
        never = np.iinfo(np.int64).max
        first_write, last_read = np.full(high - low, never), np.full(high - low, -1)
        for s in writes:
            earliest = np.full(high - low, never)
            mark(earliest, s.address[::-1] - low, s.run, s.steps[::-1])
            np.minimum(first_write, earliest, out=first_write)
        for s in near:
            latest = np.full(high - low, -1)
            mark(latest, s.address - low, s.run, s.steps)
            np.maximum(last_read, latest, out=last_read)
        late = last_read > first_write
        if late.any():
            address = low + int(np.argmax(late))
            raise HazardError(
                f"race: {self._who(timeline, index)} reads {shadow.name} {address}, which an "
                "earlier step of the same instruction writes and may still be writing",
                timeline.engine,
                index,
                shadow.name,
                address,
                index,
            )

    def _who(self, timeline: Timeline, index: int) -> str:
        part = " (weights)" if timeline is Timeline.WEIGHTS else ""
        return f"{timeline.engine}{part} at instruction {index} `{self.describe(index)}`"

"""Per-byte shadow of the memories: who wrote last, who read last, and was that ordered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from golden_model.clocks import Clocks, Timeline
from golden_model.errors import HazardError
from golden_model.loops import Ints
from golden_model.state import mark

Describe = Callable[[int], str]


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

    readers: the timelines that read it. `initialised`: it holds data before the run.
    Epochs are of the timeline that made the access; 0 is before the run.
    """

    def __init__(
        self, name: str, size: int, readers: Sequence[Timeline], initialised: bool = False
    ) -> None:
        self.name = name
        self.size = size
        self.known = np.full(size, initialised, np.bool_)
        self.writer = np.zeros(size, np.int8)
        self.write_epoch = np.zeros(size, np.int64)
        self.write_index = np.zeros(size, np.int32)
        self.read_epoch = {t: np.zeros(size, np.int64) for t in readers}
        self.read_index = {t: np.zeros(size, np.int32) for t in readers}
        self._mark = np.zeros(size, np.uint8)

    def units(self, address: Ints, run: int) -> Ints:
        """The distinct units of runs of `run` units at each address, ascending."""
        if not address.size:
            return np.zeros(0, np.int64)
        low, high = int(address.min()), int(address.max()) + run
        marks = self._mark[low:high]
        mark(marks, address - low, run, 1)
        found = np.flatnonzero(marks)
        marks[found] = 0
        return found + low


class Hazards:
    """Checks every access of a run. `describe(index)` disassembles an instruction."""

    def __init__(self, clocks: Clocks, describe: Describe) -> None:
        self.clocks = clocks
        self.describe = describe

    def read(self, shadow: Shadow, units: Ints, timeline: Timeline, index: int) -> None:
        """`timeline` reads `units`: written before, and by a write that is ordered before."""
        if not units.size:
            return
        known = shadow.known[units]
        if not known.all():
            address = int(units[np.argmin(known)])
            raise HazardError(
                f"{self._who(timeline, index)} reads {shadow.name} {address}, "
                "which nothing has written",
                timeline.engine,
                index,
                shadow.name,
                address,
            )
        self._check_writer(shadow, units, timeline, index, "reads")
        shadow.read_epoch[timeline][units] = self.clocks.epoch(timeline)
        shadow.read_index[timeline][units] = index

    def write(self, shadow: Shadow, units: Ints, timeline: Timeline, index: int) -> None:
        """`timeline` writes `units`: after every earlier read and write of them."""
        if not units.size:
            return
        self._check_writer(shadow, units, timeline, index, "writes")
        seen = self.clocks.seen[timeline]
        for reader, epochs in shadow.read_epoch.items():
            late = epochs[units] > seen[reader]
            if late.any():
                address = int(units[np.argmax(late)])
                other = int(shadow.read_index[reader][address])
                self._race(shadow, address, timeline, index, "writes", reader, other, "reads")
        shadow.known[units] = True
        shadow.writer[units] = timeline
        shadow.write_epoch[units] = self.clocks.epoch(timeline)
        shadow.write_index[units] = index

    def accumulate(self, shadow: Shadow, units: Ints, timeline: Timeline, index: int) -> None:
        """A read whose result is written back at once: sees the timeline's own writes."""
        known = shadow.known[units]
        if not known.all():
            address = int(units[np.argmin(known)])
            raise HazardError(
                f"{self._who(timeline, index)} accumulates onto {shadow.name} {address}, "
                "which nothing has written",
                timeline.engine,
                index,
                shadow.name,
                address,
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
            )

    def _check_writer(
        self, shadow: Shadow, units: Ints, timeline: Timeline, index: int, verb: str
    ) -> None:
        seen: NDArray[np.int64] = self.clocks.seen[timeline]
        late = shadow.write_epoch[units] > seen[shadow.writer[units]]
        if late.any():
            address = int(units[np.argmax(late)])
            writer = Timeline(int(shadow.writer[address]))
            other = int(shadow.write_index[address])
            self._race(shadow, address, timeline, index, verb, writer, other, "writes")

    def _race(
        self,
        shadow: Shadow,
        address: int,
        timeline: Timeline,
        index: int,
        verb: str,
        other: Timeline,
        other_index: int,
        access: str,
    ) -> None:
        raise HazardError(
            f"race: {self._who(timeline, index)} {verb} {shadow.name} {address}, and "
            f"{self._who(other, other_index)} {access} it; no semaphore orders the two",
            timeline.engine,
            index,
            shadow.name,
            address,
        )

    def _who(self, timeline: Timeline, index: int) -> str:
        part = " (weights)" if timeline is Timeline.WEIGHTS else ""
        return f"{timeline.engine}{part} at instruction {index} `{self.describe(index)}`"

"""Bursts of LOADs and of the program behind a DRAM, and what they take because of its rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec.config import NpuConfig
from sw.compiler.machine.costs import FETCH_ANSWER, LOAD_REQUEST, MOST_WRITES, STORE_LEAVES
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.dram.open_rows import ALONE, Passing
from sw.compiler.program.dram.paths import BLOCK_BYTES, Path
from sw.compiler.program.dram.refreshes import NO_LEAD, Lead
from sw.compiler.program.dram.writes import WriteQueue
from sw.compiler.program.memory_traffic import ReadChannel
from sw.compiler.program.transfers import NO_PATH, Transfer

LEAST = 0.01
"""Bursts of the smallest piece of a LOAD."""


@dataclass(slots=True)
class Piece:
    """A part of a LOAD, which bursts of the program and refreshes cut. before, until: which part of
    it is over when the piece begins and when it ends. accesses: of the whole LOAD. slack: cycles in
    which the data bus is not taken meanwhile.
    """

    path: Path
    accesses: float
    slack: float
    before: float = 0.0
    until: float = 1.0

    @property
    def share(self) -> float:
        """Of the LOAD."""
        return self.until - self.before

    def after(self, part: float) -> float:
        """Which part of the LOAD is over after that part of the piece."""
        return self.before + part * self.share


class DramReads(ReadChannel):
    """The read channel of a DRAM. A LOAD is known to its end when bursts of the program come
    between its own: it is cut in two there (`pieces`, one for each entry of the queue). Parts of an
    access that nothing comes between move once. `bus`: until when the data bus is taken;
    `written`: until when by writes that cannot wait, and what a read behind them needs.
    """

    def __init__(
        self, config: NpuConfig, memory: MemoryChannel, stop: list[float | None], writes: WriteQueue
    ) -> None:
        super().__init__(config, memory, stop)
        self.writes, self.rows, self.refreshes = writes, writes.rows, writes.refreshes
        self.pieces: list[Piece] = [Piece(NO_PATH, 0.0, 0.0)]
        self.bus = self.written = 0.0
        self._lead = NO_LEAD
        self._paced = memory.stream(BLOCK_BYTES)
        self._back = memory.flight - memory.there
        self._part_of_access = min(1.0, config.max_burst * config.bus_bytes / BLOCK_BYTES)
        # Of the program: bytes that have been asked for; the last access, and from when on another
        # can follow; when its words have come, and for which there is nothing to read.
        self._fetched, self._block, self._free = 0, -1, 0.0
        self._there = self._spare = 0.0
        # Bursts that LOADs had asked for then, and how long the next of them waits for a row.
        self._asked = self._again = 0.0

    def load(
        self, number: int, moved: Transfer, asked: float, begin: float, end: float, steps: int = 1
    ) -> None:
        """`ReadChannel.load`, in a piece between each refresh and the next, and which rows it
        leaves open.
        """
        parts = self._parts(begin, end)
        time = sum(stop - start for start, stop in parts)
        flights = moved.bursts * self.memory.flight / self.limit
        slack = max(0.0, time - max(moved.blocks * self._paced, flights))
        # It asks while it goes through its runs.
        asks, path = max(moved.bursts, steps), self.path(moved)
        before, first = 0.0, asked + LOAD_REQUEST
        for start, stop in parts:
            share = (stop - start) / time
            self._enter(number, moved, first + before * asks, start, stop, share)
            self.rates[-1] *= moved.bursts / asks
            self.pieces.append(Piece(path, moved.blocks, slack * share, before, before + share))
            before += share
        self._block = -1
        pace = max(self.rows.access, time / max(1.0, moved.blocks))
        self.rows.leave(path, end - self._back, pace)

    def path(self, moved: Transfer) -> Path:
        """Where in memory a LOAD reads."""
        return moved.path.at(self.memory.addresses.place(moved.path.base))

    def opened(self, path: Path, asked: float, there: float) -> float:
        """When the first data of a LOAD come that is asked for at `asked`, if they would be there
        at `there` with its rows open.
        """
        since, first = asked + self.memory.there, there - self._back
        turn = max(self.bus - self.memory.drive, self._turned(since, path.base // BLOCK_BYTES))
        at = max(first, self.refreshes.over(max(since, turn)))
        return there + self.rows.enter(path, since, at) - first

    def move(self, asked: float, work: float) -> float:
        """A LOAD that takes the data bus for `work` cycles, asked for at `asked`; returns: when all
        of its data have come.
        """
        drive = self.memory.drive
        begin = max(self.bus - drive, asked + self.memory.there)
        self.bus = self.refreshes.end(begin, work) + drive
        return self.bus + self.memory.there

    def over(self, moved: Transfer, begin: float, busy: float, work: float) -> float:
        """When a LOAD is over that takes `busy` cycles besides refreshes, `work` of them for its
        accesses, the first data of which come at `begin`.
        """
        since, begin = self._lead.since, begin - self._back
        if begin > self.free - self._back + 1:
            since = begin
        flights = self.limit / max(moved.bursts, moved.words / self.share)
        most = max(0.0, flights * busy - self.memory.flight)
        self._lead = Lead(since, max(0.0, 1 - work / busy), most)
        return self.refreshes.end(begin, busy, self._lead) + self._back

    def store(self, start: float, stop: float, blocks: Sequence[int]) -> float:
        """A STORE that hands over its data between `start` and `stop`; returns: until when, as the
        queue of writes may be full.
        """
        self.settle(start)
        memory, late = self.memory, STORE_LEAVES + self.memory.there
        self.writes.store(start + late, stop + late, blocks)
        if self.writes.most <= MOST_WRITES:
            return stop
        self.settle(stop + STORE_LEAVES)
        done = self.written - memory.to_read - memory.drive - memory.there
        return max(stop, done - self.writes.early)

    @property
    def after_writes(self) -> float:
        """When the first data come to the NPU behind writes that could not wait."""
        return self.written + self.memory.access + self.memory.there

    def settle(self, now: float) -> None:
        """The writes that come until `now`."""
        if not self.writes.waiting and not self.writes.coming:
            return
        taken = self.writes.settle(now + self.memory.there, self.bus)
        if taken:
            self.bus = self.written = taken

    def _turned(self, since: float, block: int) -> float:
        """When a read of `block` that is known since then can be commanded, behind a write that is
        under way.
        """
        self.settle(since - self.memory.there)
        return self.writes.turned(since, block)

    def read_program(self, at: float, words: int) -> float:
        """When the first of `words` words is there that are asked for at `at`."""
        memory = self.memory
        size = min(words * self.bus_bytes, memory.addresses.executed - self._fetched)
        if size <= 0:
            return at
        words = -(-size // self.bus_bytes)
        self.settle(at)
        behind, load, part = self._position(at)
        between = self._asks(load, part)
        load = load if behind else 0
        there = max(max(at + memory.flight, self.after_writes) + FETCH_ANSWER, self._there)
        there = max(there, behind) if between else there
        blocks = self._accesses(size, between)
        late = taken = lost = 0.0
        if blocks:
            taken = len(blocks) * self._paced
            late, lost = self._open(at, there, blocks, self._passing(load, part, behind, between))
            if load and between and part < 1:
                # The LOAD may have to read the rest of an access again.
                taken += self._paced * (1 - self._part_of_access)
            self.bus = max(self.bus + taken + lost, self._free + memory.drive)
        # The words of an access may be those of several bursts.
        spare = 0.0 if between else self._spare
        self._spare = max(0.0, spare + taken - words)
        time = max(words - spare, taken)
        if load:
            time += lost - self._saved(load, lost)
            self._cut(load, part, at)
        self._delay(there, time)
        self._there = there + late + words
        return there + late

    def _asks(self, load: int, part: float) -> bool:
        """Whether LOADs have asked for anything since the last burst of the program."""
        count = self.entered[load] - self.entered[load - 1] if load else 0.0
        before, self._asked = self._asked, self.entered[load] - (1 - part) * count
        return self._asked > before + LEAST

    def _accesses(self, size: int, between: bool) -> range:
        """The accesses of the next `size` bytes of the program."""
        first = self.memory.addresses.fetched(self._fetched)
        self._fetched += size
        blocks = range(first // BLOCK_BYTES, (first + size - 1) // BLOCK_BYTES + 1)
        known = blocks[0] == self._block and not between
        self._block = blocks[-1]
        return blocks[known:]

    def _saved(self, load: int, lost: float) -> float:
        """Of `lost` cycles those that the data bus would not have been taken for."""
        piece = self.pieces[load]
        saved = min(lost, piece.slack)
        piece.slack -= saved
        return saved

    def _passing(self, load: int, part: float, behind: float, between: bool) -> Passing:
        """The LOAD that a burst of the program comes between."""
        if not load:
            return ALONE
        piece, rows = self.pieces[load], self.rows
        where = piece.after(part)
        before = piece.path.near(where, rows.reach, rows.size, -1) if between else ()
        left = max(1.0, piece.accesses * piece.share)
        return Passing(
            before=before,
            after=piece.path.near(where, rows.reach, rows.size, 1),
            last=behind - self._back - rows.access,
            pace=max(rows.access, (self.ends[load] - self.begins[load]) / left),
        )

    def _open(
        self, at: float, there: float, blocks: range, passing: Passing
    ) -> tuple[float, float]:
        """Cycles by which a burst of the program is late that would be there at `there`, and those
        in which the data bus waits for a row.
        """
        since = at + self.memory.there
        turn = there - FETCH_ANSWER - self._back
        ready = max(turn, self._free)
        now = max(ready, self._turned(since, blocks[0]))
        if passing is ALONE:
            now = self.refreshes.over(now)
        first, self._free, again = self.rows.between(blocks, since, now, passing)
        stall = self._free - len(blocks) * self.rows.access - ready
        lost = max(0.0, stall + again - (0.0 if passing.before else self._again))
        self._again = again
        return first - turn, lost

    def _parts(self, begin: float, end: float) -> list[tuple[float, float]]:
        """When the data of a LOAD come, between refreshes."""
        back = self._back
        found = self.refreshes.parts(begin - back, end - back, self._lead)
        parts = [(a + back, b + back) for a, b in found]
        return parts or [(begin, end)]

    def _cut(self, load: int, part: float, at: float) -> None:
        """What a LOAD has not asked for at `at` becomes a piece of its own."""
        begin, end = self.begins[load], self.ends[load]
        split = begin + part * (end - begin)
        count = self.entered[load] - self.entered[load - 1]
        if min(part, 1 - part) * count < LEAST:
            return
        self.entered.insert(load, self.entered[load - 1] + part * count)
        self.begins.insert(load + 1, split)
        self.ends.insert(load, split)
        self.asked.insert(load + 1, at)
        self.numbers.insert(load + 1, self.numbers[load])
        self.rates.insert(load + 1, self.rates[load])
        piece = self.pieces[load]
        middle = piece.after(part)
        self.pieces[load] = replace(piece, until=middle)
        self.pieces.insert(load + 1, replace(piece, before=middle))

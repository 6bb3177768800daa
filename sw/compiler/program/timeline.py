"""The cost model of a whole program: when each instruction runs, as far as the compiler can tell.

Plans are chosen layer by layer; here the layers run into one another. Fetch hands every engine its
instructions. An engine takes them in order, each at the earliest when what it needs is there, slice
by slice, and is slower while others use the same banks. A layer costs the cycles in which the
oldest instruction that is not done is one of its own: the rule by which profiles charge measured
cycles.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from spec.config import NpuConfig
from spec.isa import Engine, Point
from sw.compiler.machine.costs import (
    ACC_WRITE,
    LOAD_LANDS,
    LOAD_REQUEST,
    NOTICED,
    READ_LATENCY,
    STORE_LEAVES,
    TAKEN,
    VECTOR_LATENCY,
    depthwise_latency,
)
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.contention import Traffic
from sw.compiler.program.dependences import Dependences
from sw.compiler.program.dram.reads import DramReads
from sw.compiler.program.dram.writes import WriteQueue
from sw.compiler.program.jobs import SOURCES, Job, Wait, jobs
from sw.compiler.program.memory_traffic import Flight, ReadChannel
from sw.compiler.program.program_fetch import ProgramFetch
from sw.compiler.program.records import Load

IDEAL_MEMORY = MemoryChannel()

_FIRST = (Engine.MATRIX, Engine.DEPTHWISE)
"""Engines that go first at a bank. What they do is followed as far as it can be known, so that
those behind them meet all of it."""

_BEHIND = (Engine.LOAD, Engine.VECTOR, Engine.STORE)
"""The others are followed in the order in which their instructions begin, as is fetch."""


@dataclass(slots=True)
class LayerTime:
    """What the prediction says of a layer: the cycles that it is charged for.

    `busy`: cycles in which each engine works on it, charged to it or not.
    """

    cycles: float = 0.0
    busy: dict[Engine, float] = field(default_factory=lambda: defaultdict(float))


def layer_cycles(
    found: Dependences, layers: int, config: NpuConfig, memory: MemoryChannel = IDEAL_MEMORY
) -> list[int]:
    """The cycles that each of `layers` layers is charged for."""
    return cycles_with(jobs(found, config), layers, config, memory)


def cycles_with(
    todo: Sequence[Job], layers: int, config: NpuConfig, memory: MemoryChannel
) -> list[int]:
    """The same for instructions that `jobs` has looked at already."""
    return [round(time.cycles) for time in Timeline(todo, config, memory).charged(layers)]


def layer_times(
    found: Dependences, layers: int, config: NpuConfig, memory: MemoryChannel = IDEAL_MEMORY
) -> list[LayerTime]:
    """When the engines work on each of `layers` layers."""
    return Timeline(jobs(found, config), config, memory).charged(layers)


class Timeline:
    """A program on the engines of `config` with a memory.

    Of each instruction, by its number: `start`, `stop`: its first step, and the cycle after its
    last one (of LOAD: after its last data). `busy`: cycles between the two without waits for
    others. `left`: when its engine can take the next instruction out of the queue. `offered`: when
    fetch has handed it to its engine.
    """

    def __init__(self, todo: Sequence[Job], config: NpuConfig, memory: MemoryChannel) -> None:
        self.todo, self.config, self.memory = todo, config, memory
        self.start, self.busy, self.left, self.offered = ([0.0] * len(todo) for _ in range(4))
        self.stop: list[float | None] = [None] * len(todo)
        self._queues: dict[Engine, list[int]] = {engine: [] for engine in Engine}
        for number, job in enumerate(todo):
            self._queues[job.engine].append(number)
        self._heads, self._free = dict.fromkeys(Engine, 0), dict.fromkeys(Engine, 0.0)
        self._traffic = {engine: Traffic(config.banks) for engine in _FIRST}
        self._reads = ReadChannel(config, memory, self.stop)
        self._dram: DramReads | None = None
        if memory.dram is not None:
            self._dram = self._reads = DramReads(config, memory, self.stop, WriteQueue(memory))
        self._runs = Flight(2 * config.outstanding)
        self._landed = 0.0
        self._latency = [self._after(engine, point) for engine, point in SOURCES]
        self._fetch = ProgramFetch(config, self._reads, ahead=self._dram is None)
        self._fetched = 0
        self._fetch.take(1, 0.0)
        self._follow()

    def charged(self, layers: int) -> list[LayerTime]:
        """What is left of each instruction after everything older is done, by layer."""
        times = [LayerTime() for _ in range(layers)]
        done = 0.0
        for (number, job), ends in zip(enumerate(self.todo), self.ends(), strict=True):
            time = times[job.layer]
            time.cycles += max(0.0, ends - done)
            time.busy[job.engine] += self.busy[number]
            done = max(done, ends)
        return times

    def ends(self) -> list[float]:
        """When the last result of each instruction is where others can use it."""
        last = {e: self._latency[SOURCES.index((e, Point.DONE))] - NOTICED for e in Engine}
        return [
            self._stop(number) + last[job.engine] + job.tail for number, job in enumerate(self.todo)
        ]

    def _after(self, engine: Engine, point: Point) -> float:
        """Cycles from the last step of an engine to the first one of who waits for the point."""
        if point is not Point.DONE:
            return READ_LATENCY + NOTICED
        through = self.config.cycles_through_array
        done = {
            Engine.LOAD: LOAD_LANDS,
            Engine.STORE: STORE_LEAVES + self.memory.flight,
            Engine.MATRIX: through + ACC_WRITE,
            Engine.DEPTHWISE: depthwise_latency(self.config),
            Engine.VECTOR: VECTOR_LATENCY,
        }
        return NOTICED + done.get(engine, 0)

    def _follow(self) -> None:
        """Every instruction, each as soon as all is known that it depends on."""
        ready: dict[Engine, float | None] = dict.fromkeys(_BEHIND)
        left = len(self.todo)
        while left:
            for engine in _FIRST:
                while (at := self._ready(engine)) is not None:
                    self._run(engine, at)
                    left -= 1
            chosen, first = None, self._fetches()
            for engine in _BEHIND:
                if ready[engine] is None:
                    ready[engine] = self._ready(engine)
                at = ready[engine]
                if at is not None and (first is None or at <= first):
                    chosen, first = engine, at
            if chosen is not None and first is not None:
                self._run(chosen, first)
                ready[chosen] = None
                left -= 1
            elif first is not None:
                job = self.todo[self._fetched]
                handed = self._fetch.take(job.granules, self._room() or 0.0)
                self.offered[self._fetched] = handed + TAKEN
                self._fetched += 1

    def _fetches(self) -> float | None:
        """When fetch begins with its next instruction; None: not known yet, or it has all."""
        if self._fetched == len(self.todo) or self._room() is None:
            return None
        return self._fetch.begins

    def _room(self) -> float | None:
        """When the queue of the next instruction has room; None: not known yet."""
        job = self.todo[self._fetched]
        before = job.number - self.config.queue_depth - 1
        if before < 0:
            return 0.0
        number = self._queues[job.engine][before]
        return None if self.stop[number] is None else self.left[number]

    def _ready(self, engine: Engine) -> float | None:
        """When the next instruction of an engine begins; None: not known yet, or there is none."""
        queue, head = self._queues[engine], self._heads[engine]
        if head == len(queue) or queue[head] >= self._fetched:
            return None
        number = queue[head]
        job, stop = self.todo[number], self.stop
        for wait in job.slices:
            if stop[wait.job] is None:
                return None
        # A wait that is met takes a cycle to ask for and one to be granted, the last one no more.
        at = max(self._free[engine], self.offered[number]) + max(0, 2 * job.slots - 1)
        for wait in job.begins:
            if stop[wait.job] is None:
                return None
            at = max(at, self._there(wait))
        return at

    def _there(self, wait: Wait) -> float:
        """When what is waited for is there, and the first step that uses it can go."""
        number = wait.job
        after = self._latency[wait.source] + self.todo[number].tail + wait.extra
        return self._stop(number) - self.busy[number] * (1 - wait.share) + after

    def _stop(self, number: int) -> float:
        stop = self.stop[number]
        assert stop is not None
        return stop

    def _run(self, engine: Engine, start: float) -> None:
        """The next instruction of an engine."""
        number = self._queues[engine][self._heads[engine]]
        self._heads[engine] += 1
        if engine is Engine.LOAD:
            self._load(number, start)
            return
        job = self.todo[number]
        busy = job.busy
        if engine is Engine.STORE:
            # Each burst is in flight for the latency, and not more of them than the engine counts.
            busy = max(busy, job.moved.bursts * self.memory.flight / self.config.outstanding)
        if engine is not Engine.MATRIX:
            others = [t for e, t in self._traffic.items() if e is not engine]
            # Who follows a product slice by slice is a slice, and so a bank, behind.
            apart = {w.job for w in job.slices if self.todo[w.job].engine is Engine.MATRIX}
            busy += sum(t.delayed(start, busy, job.wants, apart) - start - busy for t in others)
        stop = start + busy
        for wait in job.slices:
            # The rest of the steps follows after the slice that was waited for.
            stop = max(stop, self._there(wait) + busy * (1 - wait.before))
        if engine is Engine.STORE and self._dram is not None:
            stop = self._dram.store(start, stop, job.moved.touched)
        self.start[number], self.stop[number], self.busy[number] = start, stop, busy
        self._free[engine] = self.left[number] = stop
        if engine is Engine.MATRIX:
            late = self.config.cycles_through_array + ACC_WRITE
            self._traffic[engine].add(number, start, stop, late, job.wants)
        elif engine is Engine.DEPTHWISE:
            late = depthwise_latency(self.config)
            self._traffic[engine].add(number, start, stop, late, job.wants)

    def _load(self, number: int, start: float) -> None:
        """LOAD asks, and its data come; the next one asks meanwhile."""
        if self._dram is not None:
            self._fetch.answer(start)
        job, config, memory = self.todo[number], self.config, self.memory
        record = job.instruction.record
        assert isinstance(record, Load)
        count = job.moved.bursts
        work = memory.work(record, job.moved)
        busy = max(job.busy, count * memory.flight / config.outstanding, work)
        steps = max(count, job.steps)
        first = max(start, self._runs.room(1), self._reads.room(1) if count else 0.0)
        asked = first + steps
        for wait in job.slices:
            asked = max(asked, self._there(wait) + steps * (1 - wait.before))
        latency, free = 0.0, 0.0
        if count:
            latency, free = LOAD_REQUEST + memory.flight, self._reads.free
        begin = max(first + latency, self._landed, free)
        late = 0.0
        if count and self._dram is not None:
            self._dram.settle(first)
            begin = max(begin, self._dram.after_writes)
            path = self._dram.path(job.moved)
            late = self._dram.opened(path, first + LOAD_REQUEST, begin) - begin
        begin += late
        stop = begin + busy
        if count and self._dram is not None:
            stop = self._dram.over(job.moved, begin, busy, work)
            if work:
                stop = max(stop, self._dram.move(start + LOAD_REQUEST, work + late))
        stop = max(stop, asked + latency)
        if count:
            self._reads.load(number, job.moved, first, begin, stop, job.steps)
            asked = max(asked, self._reads.room(0))
        self._runs.add(job.steps, begin, stop)
        asked = max(asked, self._runs.room(0))
        self.start[number], self.stop[number], self.busy[number] = start, stop, busy
        self._free[Engine.LOAD] = self.left[number] = asked
        self._landed = stop

"""The cost model of a whole program: when each instruction runs, as far as the compiler can tell.

Plans are chosen layer by layer; here the layers run into one another. Every engine takes its
instructions in order, each at the earliest when what it needs is there, slice by slice. A layer
costs the cycles in which the oldest instruction that is not done is one of its own: the rule by
which profiles charge measured cycles.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from spec.config import NpuConfig
from spec.isa import Engine, Opcode
from sw.compiler.machine.costs import (
    INSTRUCTION_CYCLES,
    PROGRAM_START,
    READY,
    RESULT_LATENCY,
    SPLIT_RUN,
    instruction_bytes,
)
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.cycles import busy_cycles
from sw.compiler.program.dependences import END, Channel, Dependences, Need
from sw.compiler.program.records import Load, Store
from sw.compiler.program.virtual import VirtualInstruction, iterations

IDEAL_MEMORY = MemoryChannel()


@dataclass(slots=True)
class _Run:
    """An instruction's cycles from its first step to its last; `busy`: those without waits."""

    start: float
    stop: float
    busy: float

    def at(self, share: float) -> float:
        """When this share of its steps is over."""
        return self.stop - self.busy * (1 - share)


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
    return [round(time.cycles) for time in layer_times(found, layers, config, memory)]


def layer_times(
    found: Dependences, layers: int, config: NpuConfig, memory: MemoryChannel = IDEAL_MEMORY
) -> list[LayerTime]:
    """When the engines work on each of `layers` layers."""
    runs: dict[int, _Run] = {}
    # No engine has anything to do before fetch has read the first instructions.
    begin = PROGRAM_START + 2 * memory.latency
    free: dict[Engine, float] = defaultdict(lambda: begin)
    times = [LayerTime() for _ in range(layers)]
    latency = {**RESULT_LATENCY, Engine.LOAD: memory.latency, Engine.STORE: memory.latency}
    done = fetched = taken = waiting = 0.0
    for instruction, needs in found.needs:
        busy = busy_cycles(instruction, config, memory.flight) + _lost(instruction, config)
        size = instruction_bytes(instruction.opcode)
        fetched += size / config.bus_bytes
        if instruction.opcode is Opcode.LOAD:
            # Instructions are read through the same port.
            busy, fetched = busy + fetched, 0.0
        work = memory.stream(size)
        if isinstance(instruction.record, Load | Store):
            work += memory.work(instruction.record)
            if instruction.opcode is Opcode.LOAD:
                busy = max(busy, work)
            else:
                waiting = min(waiting + work, memory.queue)
        run = _run(instruction, needs, busy, free[instruction.engine], runs, latency)
        if work:
            # LOAD and STORE have one data bus between them. Nobody waits for writes in the queue.
            taken = max(taken, run.start) + work
            run.stop = max(run.stop, taken - waiting)
        runs[id(instruction)] = run
        free[instruction.engine] = run.stop
        # Charged: what is left after everything older is done.
        ends = run.stop + latency.get(instruction.engine, READY)
        time = times[instruction.layer]
        time.cycles += max(0.0, ends - done)
        time.busy[instruction.engine] += busy
        done = max(done, ends)
    return times


def _lost(instruction: VirtualInstruction, config: NpuConfig) -> float:
    """Cycles that an engine cannot use: between instructions, and in parts of bus words."""
    record = instruction.record
    if not isinstance(record, Load | Store):
        return INSTRUCTION_CYCLES[instruction.opcode]
    if record.run % config.bus_bytes == 0:
        return 0.0
    # Where runs begin, modulo a bus word: buffers and tensors begin with one.
    starts = math.gcd(config.bus_bytes, record.mem_base, *(abs(n.mem) for n in record.loop))
    if record.run <= starts:
        return 0.0
    runs = iterations(record.loop, len(record.loop))
    # A short run lies within one word more often than not, and a byte always does.
    return SPLIT_RUN * runs * min(1.0, (record.run - 1) / config.bus_bytes)


def _run(
    instruction: VirtualInstruction,
    needs: Mapping[Channel, list[Need]],
    busy: float,
    free: float,
    runs: Mapping[int, _Run],
    latency: Mapping[Engine, float],
) -> _Run:
    loops = instruction.record.loop
    start, stop = free, 0.0
    for (engine, _, _), wanted in needs.items():
        after = 0 if engine is instruction.engine else latency.get(engine, READY)
        for need in wanted:
            there = _time(need, runs) + after
            if need.level == 0:
                start = max(start, there)
            else:
                # The rest of the steps follows after the slice that was waited for.
                before = need.iteration / iterations(loops, need.level)
                stop = max(stop, there + busy * (1 - before))
    return _Run(start, max(stop, start + busy), busy)


def _time(need: Need, runs: Mapping[int, _Run]) -> float:
    """When what is needed has been done."""
    run = runs[id(need.producer)]
    if need.producer_iteration == END:
        return run.stop
    # Slices of an instruction are taken to last equally long.
    steps = iterations(need.producer.record.loop, need.producer_level)
    return run.at((need.producer_iteration + 1) / steps)

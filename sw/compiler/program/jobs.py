"""What the prediction has to know of every instruction, whatever memory it will run with."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from spec.config import NpuConfig
from spec.isa import FORMATS, GRANULE_BYTES, Engine, Opcode, Point, Scale, Space, Table
from sw.compiler.machine.costs import LOOKED_UP, RESCALED, weight_cycles
from sw.compiler.program.accesses import WEIGHTS
from sw.compiler.program.contention import (
    NO_DEMAND,
    Demand,
    demand,
    fold_cycles,
    own_conflicts,
    pair_conflicts,
)
from sw.compiler.program.cycles import busy_cycles, depthwise_cycles
from sw.compiler.program.dependences import END, Channel, Dependences, Need
from sw.compiler.program.records import Depthwise, Load, Matrix, Store, Vector
from sw.compiler.program.transfers import NOTHING, Transfer, transfer
from sw.compiler.program.virtual import VirtualInstruction, levels

Source = tuple[Engine, Point]
"""An engine and a point of its instructions, from which others learn of it."""

SOURCES: tuple[Source, ...] = tuple((engine, point) for engine in Engine for point in Point)
_NUMBER = {source: number for number, source in enumerate(SOURCES)}


class Wait(NamedTuple):
    """Producer number `job`, when `share` of its steps are over; source: number in `SOURCES`.

    before: share of the waiting instruction's steps that precede the wait. extra: cycles from the
    moment when what was waited for is there to the first step that uses it.
    """

    job: int
    share: float
    source: int
    before: float
    extra: float


@dataclass(slots=True, kw_only=True)
class Job:
    """An instruction. number: in its engine. granules: of the program. steps: iterations of all its
    loops. bodies: those of each level.

    busy: cycles in which it keeps its engine, with nobody else in its way. tail: cycles from its
    last step to its last result, beyond those of its engine's shortest way. slots: waits of its
    first step. begins, slices: what that and later steps wait for. moved: over the bus. wants: of
    the memories on chip.
    """

    engine: Engine
    layer: int
    instruction: VirtualInstruction
    number: int
    granules: int
    bodies: Sequence[int]
    busy: float = 0.0
    tail: float = 0.0
    slots: int = 0
    begins: list[Wait] = field(default_factory=list)
    slices: list[Wait] = field(default_factory=list)
    moved: Transfer = NOTHING
    wants: Demand = NO_DEMAND

    @property
    def steps(self) -> int:
        return self.bodies[-1]


def jobs(found: Dependences, config: NpuConfig) -> list[Job]:
    """Of every instruction, in the order of the program."""
    place: dict[int, int] = {}
    numbers = dict.fromkeys(Engine, 0)
    out: list[Job] = []
    for instruction, needs in found.needs:
        engine = instruction.engine
        job = Job(
            engine=engine,
            layer=instruction.layer,
            instruction=instruction,
            number=numbers[engine],
            granules=FORMATS[instruction.opcode].granules,
            bodies=levels(instruction.record.loop),
            slots=sum(map(bool, needs.values())),
            tail=_tail(instruction, config),
        )
        numbers[engine] += 1
        if isinstance(instruction.record, Load | Store):
            job.moved = transfer(instruction, job.steps, config)
            job.busy = max(job.moved.words, job.moved.pieces)
        else:
            job.busy = _busy(instruction, job.bodies, config)
        job.wants = demand(instruction, job.bodies, job.busy, config)
        for channel, wanted in needs.items():
            at_once = (instruction, channel) in found.at_once
            for wait in _waits(job, channel, wanted, at_once, out, place, config):
                (job.slices if wait.before else job.begins).append(wait)
        place[id(instruction)] = len(out)
        out.append(job)
    return out


def moved_bytes(todo: Sequence[Job], config: NpuConfig) -> tuple[int, int]:
    """(bytes read, bytes written) of the NPU's memory by a program.

    What is read counts in whole bus words, the program with it. What is written counts by itself.
    """
    words = sum(job.moved.words for job in todo if isinstance(job.instruction.record, Load))
    granules = sum(job.granules for job in todo)
    granules += sum(FORMATS[opcode].granules for opcode in (Opcode.BEGIN, Opcode.END))
    written = sum(
        job.instruction.record.run * job.steps
        for job in todo
        if isinstance(job.instruction.record, Store)
    )
    return round(words * config.bus_bytes) + granules * GRANULE_BYTES, written


def _busy(instruction: VirtualInstruction, bodies: Sequence[int], config: NpuConfig) -> float:
    """Cycles of an instruction of the array, the depthwise or the vector engine."""
    record = instruction.record
    if isinstance(record, Matrix):
        folds = bodies[record.fold_loops]
        return folds * fold_cycles(instruction, record, bodies[-1] / folds, config)
    if isinstance(record, Depthwise):
        busy = depthwise_cycles(record, config)
        return busy + pair_conflicts(instruction, record, config)
    assert isinstance(record, Vector)
    busy = busy_cycles(instruction, config)
    if record.lane_loop < len(record.loop) and record.lanes_last != record.lanes:
        # The last vectors of a loop have fewer elements.
        fewer = replace(instruction, record=record._replace(lanes=record.lanes_last))
        busy += (busy_cycles(fewer, config) - busy) / record.loop[record.lane_loop].count
    return busy + own_conflicts(instruction, bodies[-1], busy, config)


def _tail(instruction: VirtualInstruction, config: NpuConfig) -> float:
    """What a result of VECTOR passes beyond the shortest way (hw_gen/blocks/vector_schedule.py)."""
    record = instruction.record
    if not isinstance(record, Vector):
        return 0.0
    tail = RESCALED if record.o_scale is not Scale.OFF else 0
    if record.reduce_lanes:
        # A level of the tree each, and a sum of the parts.
        tail += (config.lane_count - 1).bit_length() + 1
    elif record.o_space is Space.SPAD:
        tail += math.ceil(record.o_type.bytes * record.lanes / config.word_bytes) - 1
    return tail + (LOOKED_UP if record.table is not Table.OFF else 0)


def _waits(
    job: Job,
    channel: Channel,
    wanted: Sequence[Need],
    at_once: bool,
    earlier: Sequence[Job],
    place: dict[int, int],
    config: NpuConfig,
) -> Iterable[Wait]:
    """What `job` waits for on a channel; at_once: with its first step."""
    engine, point, waiting = channel
    record, extra = job.instruction.record, 0.0
    if waiting == WEIGHTS and isinstance(record, Matrix):
        # They are read before the first vector of their fold.
        extra = weight_cycles(config, bool(record.transposed))
    for need in wanted:
        producer = place[id(need.producer)]
        begins = at_once or not need.level
        yield Wait(
            job=producer,
            share=_share(need, point, earlier[producer]),
            source=_NUMBER[engine, point],
            before=0.0 if begins else need.iteration / job.bodies[need.level],
            extra=extra,
        )


def _share(need: Need, point: Point, producer: Job) -> float:
    """Share of the producer's steps that are over when what is needed is done. Slices of an
    instruction are taken to last equally long.
    """
    share = 1.0
    if need.producer_iteration != END:
        share = (need.producer_iteration + 1) / producer.bodies[need.producer_level]
    record = producer.instruction.record
    if point is Point.WEIGHTS and isinstance(record, Matrix):
        # The weights of a fold have been read before its first vector.
        share = max(0.0, share - 1 / producer.bodies[record.fold_loops])
    return share

"""Dependence analysis: from accesses to the needs that semaphores must meet.

A need says that an instruction (or one iteration of it) must come after a point of an earlier one.
Needs that follow from earlier waits (directly, or through what the producer had waited for) are
dropped.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spec.isa import Engine, Opcode, Point
from sw.compiler.program.accesses import WEIGHTS, AccessTracker, Order, Seen, sequencer
from sw.compiler.program.virtual import Access, Place, VirtualInstruction, iterations

Source = tuple[Engine, Point]
Channel = tuple[Engine, Point, str]
"""Producing engine and point, waiting sequencer (an engine's name, or WEIGHTS)."""

Position = tuple[int, float]
"""Number of an instruction in its engine, and the iteration of it (END: all of it)."""

Clock = dict[Source, Position]
END = float("inf")
NEVER: Position = (-1, -1.0)


@dataclass(slots=True, eq=False)
class Need:
    """Consumer iteration (level, iteration) needs `producer` up to an iteration of a level."""

    level: int
    iteration: int
    producer: VirtualInstruction
    index: int
    producer_level: int
    producer_iteration: float


@dataclass(slots=True, eq=False)
class Slices:
    """What the weight sequencer knows in an instruction, wait by wait.

    clocks: level and iteration of a wait, and what is known from then on; the first is before any.
    """

    clocks: list[tuple[int, int, Clock]]

    def note(self, need: Need, clock: Clock) -> None:
        self.clocks.append((need.level, need.iteration, dict(clock)))

    def at(self, level: int, iteration: float) -> Clock:
        """What is known when this iteration of this level has its weights."""
        known = self.clocks[0][2]
        for at_level, at_iteration, clock in self.clocks:
            # Waits at another level may come later than this iteration.
            is_over = at_level == 0 or (at_level == level and at_iteration <= iteration)
            if iteration != END and not is_over:
                break
            known = clock
        return known


@dataclass(slots=True)
class Dependences:
    """The needs of every instruction, in program order, and what each sequencer knows at each.

    Keys of the dictionaries are the ids of instructions. `index`: its number in its engine,
    `place`: in the program. `start`: known when the instruction's first step begins;
    `end`: what its DONE and READ prove; `weights`: what its WEIGHTS prove, slice by slice.
    `at_once`: instructions and channels where the first step waits for what later slices need, as
    no slot can tell these apart.
    """

    needs: list[tuple[VirtualInstruction, dict[Channel, list[Need]]]] = field(default_factory=list)
    index: dict[int, int] = field(default_factory=dict)
    place: dict[int, int] = field(default_factory=dict)
    clocks: dict[str, Clock] = field(default_factory=lambda: defaultdict(dict))
    start: dict[int, Clock] = field(default_factory=dict)
    end: dict[int, Clock] = field(default_factory=dict)
    weights: dict[int, Slices] = field(default_factory=dict)
    at_once: set[tuple[VirtualInstruction, Channel]] = field(default_factory=set)


def _point(seen: Seen, consumer: VirtualInstruction) -> Point:
    """The point of the earlier access that the later one must wait for."""
    # What was written must have arrived. LOAD has no point but DONE.
    if seen.access.write or seen.instruction.opcode is Opcode.LOAD:
        return Point.DONE
    if seen.access.weights:
        return Point.WEIGHTS
    # READ covers operands A and B; parameters and TABLE are read later in the pipeline.
    if seen.access.buffer.place in (Place.PARAM, Place.TABLE):
        return Point.DONE
    # DONE follows READ closely in VECTOR, and one channel to LOAD instead of two saves a slot.
    if seen.instruction.engine is Engine.VECTOR and consumer.engine is Engine.LOAD:
        return Point.DONE
    return Point.READ


def _ordered_by_engine(seen: Seen, instruction: VirtualInstruction, access: Access) -> bool:
    """Within one engine only a read after a write needs a semaphore; sums find their own writes."""
    if seen.instruction.engine is not instruction.engine:
        return False
    if access.buffer.place is Place.ACC and instruction.engine in (Engine.MATRIX, Engine.DEPTHWISE):
        return True
    return access.write or not seen.access.write


_IMPLIED = {
    Point.DONE: (Point.DONE, Point.READ, Point.WEIGHTS),
    Point.READ: (Point.READ, Point.WEIGHTS),
    Point.WEIGHTS: (Point.WEIGHTS,),
}
"""The points of an instruction that are over when a point of it is."""


def _learn(clock: Clock, engine: Engine, point: Point, position: Position, of: Clock) -> None:
    for implied in _IMPLIED[point]:
        source = (engine, implied)
        clock[source] = max(clock.get(source, NEVER), position)
    for source, value in of.items():
        clock[source] = max(clock.get(source, NEVER), value)


def _needs_of(
    instruction: VirtualInstruction, tracker: AccessTracker
) -> dict[Channel, dict[tuple[int, int], Need]]:
    needs: dict[Channel, dict[tuple[int, int], Need]] = defaultdict(dict)
    for access in instruction.accesses:
        waiting = sequencer(instruction, access)
        key = (access.level, access.iteration)
        for seen in tracker.conflicts(access, waiting):
            # An engine runs its instructions in order, and a few hazards with them.
            if _ordered_by_engine(seen, instruction, access):
                continue
            by_key = needs[seen.instruction.engine, _point(seen, instruction), waiting]
            old = by_key.get(key)
            # The latest producer of a channel is enough: posts come in its order.
            if old is not None and old.index > seen.index:
                continue
            level, iteration = seen.access.level, float(seen.access.iteration)
            # The last slice is over with the whole, for which a single post is enough.
            if level == 0 or iteration == iterations(seen.instruction.record.loop, level) - 1:
                level, iteration = 0, END
            if old is None or (old.index, old.producer_iteration) < (seen.index, iteration):
                by_key[key] = Need(*key, seen.instruction, seen.index, level, iteration)
    return needs


def _reduce(
    instruction: VirtualInstruction,
    needs: dict[Channel, dict[tuple[int, int], Need]],
    state: Dependences,
) -> dict[Channel, list[Need]]:
    """Drop what is known already; update the clocks of the instruction's sequencers."""
    kept: dict[Channel, list[Need]] = defaultdict(list)
    main = state.clocks[instruction.engine.name]
    # Latest producers first: what they had waited for makes the others superfluous.
    flat = [(n, c) for c, by_key in needs.items() for n in by_key.values()]
    flat.sort(key=lambda p: (p[0].level, p[0].iteration, -state.place[id(p[0].producer)]))
    start_main: Clock = dict(main)
    slices = Slices([(0, 0, dict(state.clocks[WEIGHTS]))])
    by_level: dict[tuple[str, int], Clock] = {}
    for need, channel in flat:
        engine, point, waiting = channel
        clock = _clock(state.clocks[waiting], waiting, need.level, by_level)
        position = (need.index, need.producer_iteration)
        # Known already, by an earlier wait or by what a producer had waited for.
        if clock.get((engine, point), NEVER) >= position:
            continue
        kept[channel].append(need)
        producer = id(need.producer)
        if point is Point.WEIGHTS:
            of = state.weights[producer].at(need.producer_level, need.producer_iteration)
        else:
            of = (state.end if need.producer_iteration == END else state.start)[producer]
        _learn(clock, engine, point, position, of)
        if clock is not state.clocks[waiting]:
            _learn(state.clocks[waiting], engine, point, position, of)
        if waiting == WEIGHTS:
            slices.note(need, state.clocks[waiting])
        # Waits at inner levels are over only later, so READ and DONE prove more than the start.
        if need.level == 0 and waiting == instruction.engine.name:
            start_main = dict(clock)
    for channel, wanted in kept.items():
        wanted[:0] = _first_slices(instruction, list(needs[channel].values()), wanted)
    state.start[id(instruction)] = start_main
    end = dict(main)
    if instruction.engine is Engine.MATRIX:
        state.weights[id(instruction)] = slices
        # Products need their weights: what those had waited for is over as well.
        for source, value in state.clocks[WEIGHTS].items():
            end[source] = max(end.get(source, NEVER), value)
    state.end[id(instruction)] = end
    return kept


def _clock(whole: Clock, waiting: str, level: int, by_level: dict[tuple[str, int], Clock]) -> Clock:
    """What a sequencer knows from the waits of a level on: what another inner level waits for may
    come later. `whole`: by the waits of all levels so far, the outer ones first.
    """
    if level == 0:
        return whole
    start = by_level.setdefault((waiting, 0), dict(whole))
    return by_level.setdefault((waiting, level), dict(start))


def _first_slices(
    instruction: VirtualInstruction, needs: Sequence[Need], kept: Sequence[Need]
) -> list[Need]:
    """The needs of a loop's first iterations that were dropped, where later ones are kept.

    A wait takes as many posts in every iteration: without these, all would come at the start.
    """
    levels, have = {need.level for need in kept}, {need.iteration for need in kept}
    if len(levels) > 1 or 0 in levels:
        return []
    (level,) = levels
    first = [n for n in needs if n.level == level and n.iteration < min(have)]
    whole = len(first) + len(kept) == iterations(instruction.record.loop, level)
    return sorted(first, key=lambda need: need.iteration) if whole else []


def predecessors(
    instructions: Sequence[VirtualInstruction], busy: Sequence[float], order: Order = sequencer
) -> list[dict[int, float]]:
    """For every instruction, the earlier ones (by number) that it must stay behind, of any engine;
    and how long before the end of each it can begin and never wait for it: the earlier one is done
    with some bytes sooner, the later one touches some late.

    Those that follow from others of them may be missing. `busy`: cycles of the instructions.
    `order`: the sequences that keep the order of the program whatever their instructions wait for.
    """
    tracker = AccessTracker(order)
    number = {id(instruction): i for i, instruction in enumerate(instructions)}
    out: list[dict[int, float]] = []
    for i, instruction in enumerate(instructions):
        leads: dict[int, float] = {}
        for access in instruction.accesses:
            late = 0.0
            if access.level:
                late = (
                    busy[i] * access.iteration / iterations(instruction.record.loop, access.level)
                )
            for seen in tracker.conflicts(access, order(instruction, access)):
                j, lead = number[id(seen.instruction)], late
                if seen.access.level:
                    steps = iterations(seen.instruction.record.loop, seen.access.level)
                    lead += busy[j] * (1 - (seen.access.iteration + 1) / steps)
                if lead < leads.get(j, math.inf):
                    leads[j] = lead
        leads.pop(i, None)
        out.append(leads)
        tracker.add(instruction, i)
    return out


def analyse(
    instructions: Sequence[VirtualInstruction],
    extra: Mapping[int, Sequence[tuple[VirtualInstruction, Channel]]],
) -> Dependences:
    """The needs of all instructions.

    `extra`: those (by id) that also take others' posts of a channel.
    """
    tracker, state = AccessTracker(), Dependences()
    counts: dict[Engine, int] = defaultdict(int)
    for instruction in instructions:
        state.place[id(instruction)] = len(state.place)
        state.index[id(instruction)] = index = counts[instruction.engine]
        counts[instruction.engine] += 1
        needs = _needs_of(instruction, tracker)
        for other, channel in extra.get(id(instruction), ()):
            _add_extra(needs[channel], other, state.index[id(other)])
        state.needs.append((instruction, _reduce(instruction, needs, state)))
        tracker.add(instruction, index)
    return state


def _add_extra(by_key: dict[tuple[int, int], Need], other: VirtualInstruction, index: int) -> None:
    old = by_key.get((0, 0))
    if old is None or old.index < index:
        by_key[0, 0] = Need(0, 0, other, index, 0, END)

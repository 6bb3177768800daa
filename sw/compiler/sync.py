"""Stage `synchronise`: every semaphore wait and post, derived from what the nodes access.

A *channel* is a semaphore from one engine and point to one waiting sequencer. Posts on a channel
are numbered in the producer's order; a consumer that needs the n-th takes what is missing to n.
Every wait refers to a node earlier in program order, so the program cannot deadlock. Needs that
follow from earlier waits (directly, or through what the producer had waited for) are dropped.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from spec.config import NpuConfig
from spec.isa import SYNC_SLOTS, Engine, Opcode, Point, Sync
from spec.program import REGION_CONST, REGION_INPUT
from sw.compiler.draft import Access, Buffer, Draft, Node, Place, iterations
from sw.compiler.errors import LegalityError

MAX_AMOUNT = 127
Source = tuple[Engine, Point]
Channel = tuple[Engine, Point, str]
Position = tuple[int, float]
Clock = dict[Source, Position]
END = float("inf")


@dataclass(slots=True, eq=False)
class _Seen:
    """A past access with the position of its node in its engine."""

    node: Node
    index: int
    access: Access


@dataclass(slots=True, eq=False)
class _Need:
    """Consumer iteration (level, iteration) needs producer `node` up to `iteration` of `level`."""

    level: int
    iteration: int
    producer: Node
    index: int
    producer_level: int
    producer_iteration: float


@dataclass(slots=True)
class _State:
    index: dict[int, int] = field(default_factory=dict)
    clocks: dict[str, Clock] = field(default_factory=lambda: defaultdict(dict))
    start: dict[int, Clock] = field(default_factory=dict)
    end: dict[int, Clock] = field(default_factory=dict)
    weights: dict[int, Clock] = field(default_factory=dict)


def sequencer(node: Node, access: Access | None = None) -> str:
    """The sequencer that a wait for `access` holds back."""
    return "WEIGHTS" if access is not None and access.weights else node.engine.name


class _Tracker:
    """Accesses that a later one may still conflict with, per address space."""

    def __init__(self) -> None:
        self.spaces: dict[object, list[_Seen]] = defaultdict(list)

    @staticmethod
    def _space(buffer: Buffer) -> object:
        return (buffer.place, buffer.region)

    def conflicts(self, access: Access) -> Iterable[_Seen]:
        base = access.buffer.address
        start, stop = base + access.start, base + access.stop
        for seen in self.spaces[self._space(access.buffer)]:
            other = seen.access
            at = other.buffer.address
            if (
                (access.write or other.write)
                and at + other.start < stop
                and start < at + other.stop
            ):
                yield seen

    def add(self, node: Node, index: int) -> None:
        """File the accesses of `node` and forget what they make superfluous.

        A write came after everything that it covers. A read of all steps replaces earlier reads
        by the same sequencer inside its bytes.
        """
        for access in node.accesses:
            buffer = access.buffer
            if buffer.place is Place.DRAM and buffer.region in (REGION_CONST, REGION_INPUT):
                continue
            space = self.spaces[self._space(buffer)]
            start, stop = buffer.address + access.start, buffer.address + access.stop
            space[:] = [
                s
                for s in space
                if s.node is node
                or s.access.buffer.address + s.access.start < start
                or s.access.buffer.address + s.access.stop > stop
                or not (
                    access.write
                    or (
                        access.level == 0
                        and not s.access.write
                        and sequencer(s.node, s.access) == sequencer(node, access)
                    )
                )
            ]
            space.append(_Seen(node, index, access))


def _point(seen: _Seen, consumer: Node) -> Point:
    """The point of the earlier access that the later one must wait for."""
    if seen.access.write or seen.node.opcode is Opcode.LOAD:
        return Point.DONE
    if seen.access.weights:
        return Point.WEIGHTS
    if seen.access.buffer.place in (Place.PARAM, Place.TABLE):
        return Point.DONE
    # DONE follows READ closely in VECTOR, and one channel to LOAD instead of two saves a slot.
    if seen.node.engine is Engine.VECTOR and consumer.engine is Engine.LOAD:
        return Point.DONE
    return Point.READ


def _ordered_by_engine(seen: _Seen, node: Node, access: Access) -> bool:
    """Within one engine only a read after a write needs a semaphore (not so in ACC of MATRIX)."""
    if seen.node.engine is not node.engine:
        return False
    if access.buffer.place is Place.ACC and node.engine is Engine.MATRIX:
        return True
    return access.write or not seen.access.write


def _implied(point: Point) -> tuple[Point, ...]:
    return {
        Point.DONE: (Point.DONE, Point.READ, Point.WEIGHTS),
        Point.READ: (Point.READ, Point.WEIGHTS),
        Point.WEIGHTS: (Point.WEIGHTS,),
    }[point]


def _learn(clock: Clock, engine: Engine, point: Point, position: Position, of: Clock) -> None:
    for implied in _implied(point):
        source = (engine, implied)
        clock[source] = max(clock.get(source, (-1, -1.0)), position)
    for source, value in of.items():
        clock[source] = max(clock.get(source, (-1, -1.0)), value)


def _needs_of(node: Node, tracker: _Tracker) -> dict[Channel, dict[tuple[int, int], _Need]]:
    needs: dict[Channel, dict[tuple[int, int], _Need]] = defaultdict(dict)
    for access in node.accesses:
        for seen in tracker.conflicts(access):
            if _ordered_by_engine(seen, node, access):
                continue
            point = _point(seen, node)
            channel = (seen.node.engine, point, sequencer(node, access))
            level, iteration = seen.access.level, float(seen.access.iteration)
            if level == 0 or iteration == iterations(seen.node.values["loop"], level) - 1:
                level, iteration = 0, END
            key = (access.level, access.iteration)
            need = _Need(*key, seen.node, seen.index, level, iteration)
            old = needs[channel].get(key)
            if old is None or (old.index, old.producer_iteration) < (seen.index, iteration):
                needs[channel][key] = need
    return needs


def _reduce(
    node: Node, needs: dict[Channel, dict[tuple[int, int], _Need]], state: _State
) -> dict[Channel, list[_Need]]:
    """Drop what is known already; update the clocks of the node's sequencers."""
    kept: dict[Channel, list[_Need]] = defaultdict(list)
    main = state.clocks[node.engine.name]
    # Latest producers first: what they had waited for makes the others superfluous.
    flat = [(n, c) for c, by_key in needs.items() for n in by_key.values()]
    flat.sort(key=lambda p: (p[0].level, p[0].iteration, -state.index[id(p[0].producer)]))
    start_main: Clock = dict(main)
    for need, channel in flat:
        engine, point, waiting = channel
        clock = state.clocks[waiting]
        position = (need.index, need.producer_iteration)
        if clock.get((engine, point), (-1, -1.0)) >= position:
            continue
        kept[channel].append(need)
        producer = id(need.producer)
        if point is Point.WEIGHTS:
            of = state.weights[producer]
        else:
            of = (state.end if need.producer_iteration == END else state.start)[producer]
        _learn(clock, engine, point, position, of)
        if need.level == 0 and waiting == node.engine.name:
            start_main = dict(clock)
    state.start[id(node)] = start_main
    end = dict(main)
    if node.engine is Engine.MATRIX:
        weights = state.clocks["WEIGHTS"]
        state.weights[id(node)] = dict(weights)
        for source, value in weights.items():
            end[source] = max(end.get(source, (-1, -1.0)), value)
    state.end[id(node)] = end
    return kept


def _levels(
    plan: list[tuple[Node, dict[Channel, list[_Need]]]],
) -> dict[Channel, dict[int, int]]:
    """The level at which each needed producer posts, by channel and id of the node."""
    levels: dict[Channel, dict[int, int]] = defaultdict(dict)
    for _, needs in plan:
        for channel, wanted in needs.items():
            for need in wanted:
                old = levels[channel].get(id(need.producer), 0)
                levels[channel][id(need.producer)] = max(old, need.producer_level)
    return levels


def _amounts(needed: dict[tuple[int, int], int], before: int, node: Node) -> dict[int, int]:
    """Wait amounts by level that fetch each iteration's posts, never more than its last needs.

    `needed`: total posts wanted at (level, iteration). One level besides 0 can be used; where the
    amounts are not the same for every iteration, everything is taken at level 0.
    """
    top = max(needed.values()) - before
    levels = {level for level, _ in needed if level}
    if len(levels) == 1:
        (level,) = levels
        count = iterations(node.values["loop"], level)
        at_start = max((n for (lv, _), n in needed.items() if lv == 0), default=before)
        totals, running = [], at_start
        for i in range(count):
            running = max(running, needed.get((level, i), 0))
            totals.append(running - before)
        steps = {b - a for a, b in pairwise(totals)}
        if len(steps) == 1:
            (step,) = steps
            if step > 0 and totals[0] >= step:
                return {0: totals[0] - step, level: step}
    return {0: top}


def synchronise(draft: Draft, config: NpuConfig) -> dict[Channel, int]:
    """Fill in waits and posts of every node; returns the semaphore of each channel.

    `LegalityError` if the configuration has too few semaphores or a node too few slots.
    """
    tracker, state = _Tracker(), _State()
    counts: dict[Engine, int] = defaultdict(int)
    plan: list[tuple[Node, dict[Channel, list[_Need]]]] = []
    for node in draft.nodes:
        node.waits, node.posts = [], []
        state.index[id(node)] = index = counts[node.engine]
        counts[node.engine] += 1
        plan.append((node, _reduce(node, _needs_of(node, tracker), state)))
        tracker.add(node, index)
    levels = _levels(plan)
    semaphores = _number(levels, config)
    bases: dict[Channel, dict[int, int]] = defaultdict(dict)
    posted: dict[Channel, int] = defaultdict(int)
    taken: dict[Channel, int] = defaultdict(int)
    for node, needs in plan:
        for channel, wanted in needs.items():
            totals: dict[tuple[int, int], int] = {}
            for need in wanted:
                base = bases[channel][id(need.producer)]
                level = levels[channel][id(need.producer)]
                count = iterations(need.producer.values["loop"], level)
                done = count if need.producer_iteration == END else int(need.producer_iteration) + 1
                totals[need.level, need.iteration] = base + done
            for level, amount in _amounts(totals, taken[channel], node).items():
                _wait(node, channel, semaphores[channel], level, amount)
                repeat = iterations(node.values["loop"], level)
                taken[channel] += amount * repeat
        for channel, by_node in levels.items():
            if id(node) in by_node:
                level = by_node[id(node)]
                bases[channel][id(node)] = posted[channel]
                posted[channel] += iterations(node.values["loop"], level)
                node.posts.append(Sync(sem=semaphores[channel], level=level, point=channel[1]))
        _check_slots(node)
    return semaphores


def _wait(node: Node, channel: Channel, sem: int, level: int, amount: int) -> None:
    point = Point.WEIGHTS if channel[2] == "WEIGHTS" else Point.DONE
    while amount > 0:
        part = min(amount, MAX_AMOUNT)
        node.waits.append(Sync(sem=sem, level=level, point=point, amount=part))
        amount -= part


def _number(levels: dict[Channel, dict[int, int]], config: NpuConfig) -> dict[Channel, int]:
    channels = sorted(levels, key=lambda c: (c[0], c[1], c[2]))
    if len(channels) > config.semaphores:
        raise LegalityError(
            f"{len(channels)} channels need a semaphore each, the configuration has "
            f"{config.semaphores}"
        )
    return {channel: i for i, channel in enumerate(channels)}


def _check_slots(node: Node) -> None:
    for kind, slots in (("waits", node.waits), ("posts", node.posts)):
        if len(slots) > SYNC_SLOTS:
            raise LegalityError(
                f"{len(slots)} {kind}, an instruction has {SYNC_SLOTS} slots", node=node.note
            )

"""What must wait for what: from the accesses of the nodes to the needs that semaphores must meet.

A need says that a node (or one iteration of it) must come after a point of an earlier node. Needs
that follow from earlier waits (directly, or through what the producer had waited for) are dropped.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spec.isa import Engine, Opcode, Point
from spec.program import REGION_CONST, REGION_INPUT
from sw.compiler.program.virtual import Access, Buffer, Place, VirtualInstruction, iterations

Source = tuple[Engine, Point]
Channel = tuple[Engine, Point, str]
"""Producing engine and point, waiting sequencer (an engine's name, or WEIGHTS)."""

Position = tuple[int, float]
"""Number of a node in its engine, and the iteration of it (END: all of it)."""

Clock = dict[Source, Position]
END = float("inf")
NEVER: Position = (-1, -1.0)


@dataclass(slots=True, eq=False)
class _Seen:
    """Addresses `start`…`stop` of a past access, and the number of its node in its engine."""

    node: VirtualInstruction
    index: int
    access: Access
    start: int
    stop: int


@dataclass(slots=True, eq=False)
class Need:
    """Consumer iteration (level, iteration) needs producer `node` up to `iteration` of `level`."""

    level: int
    iteration: int
    producer: VirtualInstruction
    index: int
    producer_level: int
    producer_iteration: float


@dataclass(slots=True)
class Dependences:
    """The needs of every node, in program order, and what each sequencer knows at each node.

    Keys of the dictionaries are the ids of nodes. `index`: number of the node in its engine,
    `place`: in the program. `start`: known when the node's first step begins;
    `end`, `weights`: what its DONE and READ, or its WEIGHTS, prove.
    """

    needs: list[tuple[VirtualInstruction, dict[Channel, list[Need]]]] = field(default_factory=list)
    index: dict[int, int] = field(default_factory=dict)
    place: dict[int, int] = field(default_factory=dict)
    clocks: dict[str, Clock] = field(default_factory=lambda: defaultdict(dict))
    start: dict[int, Clock] = field(default_factory=dict)
    end: dict[int, Clock] = field(default_factory=dict)
    weights: dict[int, Clock] = field(default_factory=dict)


_NAMES = {engine: engine.name for engine in Engine}


def sequencer(node: VirtualInstruction, access: Access | None = None) -> str:
    """The sequencer that a wait for `access` holds back."""
    return "WEIGHTS" if access is not None and access.weights else _NAMES[node.engine]


@dataclass(slots=True, eq=False)
class _Known:
    """The accesses of a buffer that still count, by `start`; how many were writes, and all ever.

    `starts`: of each access. `longest`: bytes of the longest one yet.
    """

    accesses: list[_Seen] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    longest: int = 0
    writes: int = 0
    total: int = 0

    def between(self, start: int, stop: int) -> tuple[int, int]:
        """Bounds of the only accesses that can overlap `start`…`stop`."""
        low = bisect_right(self.starts, start - self.longest)
        return low, bisect_left(self.starts, stop, low)

    def file(self, seen: _Seen) -> None:
        """Keep an access."""
        at = bisect_right(self.starts, seen.start)
        self.accesses.insert(at, seen)
        self.starts.insert(at, seen.start)
        self.longest = max(self.longest, seen.stop - seen.start)

    def hide(self, access: Access, node: VirtualInstruction, start: int, stop: int) -> None:
        """Forget what `access` of `node` makes superfluous."""
        if access.level and not access.write:
            # Slices of a read come one after another: earlier reads may outlast the first.
            return
        low, high = self.between(start, stop)
        pieces: list[_Seen] = []
        for at in reversed(range(low, high)):
            seen = self.accesses[at]
            if seen.stop <= start or not _hides(access, node, seen):
                continue
            whole = start <= seen.start and seen.stop <= stop
            if access.write or whole:
                del self.accesses[at], self.starts[at]
            if access.write and not whole:
                pieces += _outside(seen, start, stop)
        for piece in pieces:
            self.file(piece)


class _Tracker:
    """Accesses that a later one may still conflict with, by buffer.

    Buffers whose addresses overlap are found once, when the later of them is first touched.
    """

    def __init__(self) -> None:
        self.near: dict[int, list[_Known]] = {}
        self.spaces: dict[object, list[Buffer]] = defaultdict(list)
        self.read: dict[Hashable, int] = {}

    def _lists(self, buffer: Buffer) -> list[_Known]:
        """What was seen of `buffer`, and of every other that shares addresses with it."""
        near = self.near.get(id(buffer))
        if near is None:
            start, stop = buffer.address, buffer.address + buffer.size
            others = self.spaces[buffer.place, buffer.region]
            mine = _Known()
            near = self.near[id(buffer)] = [mine]
            for other in others:
                if other.address < stop and start < other.address + other.size:
                    near.append(self.near[id(other)][0])
                    self.near[id(other)].append(mine)
            others.append(buffer)
        return near

    def _again(self, reader: Hashable, access: Access) -> bool:
        """Whether `reader` has read just these bytes since they were last written."""
        if access.write or access.level:
            return False
        version = sum(known.writes for known in self._lists(access.buffer))
        key = (reader, id(access.buffer), access.start, access.stop, access.lanes)
        last, self.read[key] = self.read.get(key), version
        return last == version

    def conflicts(self, access: Access, by: Hashable) -> Iterator[_Seen]:
        """Earlier accesses to the same bytes, unless both only read.

        `by`: who accesses, one after another. What it has come after before is not repeated where
        that is cheap to know: bytes that were not written since it read them, and other buffers
        under pixels of which it touches channel after channel.
        """
        if self._again(by, access):
            return
        mine, *others = self._lists(access.buffer)
        yield from _meeting(access, *_span(access), mine)
        others = [known for known in others if known.accesses]
        if not access.pitch:
            for known in others:
                yield from _meeting(access, *_span(access), known)
            return
        base = access.buffer.address
        start, stop = access.start - access.lanes[0], access.stop - access.lanes[1] + access.pitch
        for known in others:
            key = (by, id(known), id(access.buffer), start, stop, access.write)
            last, self.read[key] = self.read.get(key), known.total
            if last != known.total:
                yield from _meeting(access, base + start, base + stop, known)

    def add(self, node: VirtualInstruction, index: int) -> None:
        """File the accesses of `node` and forget what they make superfluous.

        A write came after all that it overlaps, so what conflicts there later need only wait for
        the write. A read of all steps replaces earlier reads by the same sequencer in its bytes.
        """
        for access in node.accesses:
            buffer = access.buffer
            # Nobody writes these.
            if buffer.place is Place.DRAM and buffer.region in (REGION_CONST, REGION_INPUT):
                continue
            start, stop = _span(access)
            near = self._lists(buffer)
            # Some channels of a tensor never cover what another buffer held in their place.
            for known in near if access.write and not access.pitch else near[:1]:
                if known.accesses:
                    known.hide(access, node, start, stop)
            near[0].file(_Seen(node, index, access, start, stop))
            near[0].writes += access.write
            near[0].total += 1


def _meeting(access: Access, start: int, stop: int, known: _Known) -> Iterator[_Seen]:
    """Those of `known` between addresses `start` and `stop` that conflict with `access`."""
    write = access.write
    for seen in known.accesses[slice(*known.between(start, stop))]:
        if start < seen.stop and (write or seen.access.write) and not seen.access.misses(access):
            yield seen


def _hides(access: Access, node: VirtualInstruction, seen: _Seen) -> bool:
    """Whether `access` of `node` makes what it covers of an earlier access superfluous."""
    if seen.node is node or not access.spans(seen.access):
        return False
    return access.write or _same_reader(seen, node, access)


def _span(access: Access) -> tuple[int, int]:
    base = access.buffer.address
    return base + access.start, base + access.stop


def _outside(seen: _Seen, start: int, stop: int) -> list[_Seen]:
    """What is left of `seen` before `start` and after `stop`."""
    pieces = ((seen.start, min(seen.stop, start)), (max(seen.start, stop), seen.stop))
    return [replace(seen, start=a, stop=b) for a, b in pieces if a < b]


def _same_reader(seen: _Seen, node: VirtualInstruction, access: Access) -> bool:
    same = sequencer(seen.node, seen.access) == sequencer(node, access)
    return same and access.level == 0 and not seen.access.write


def _point(seen: _Seen, consumer: VirtualInstruction) -> Point:
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


def _ordered_by_engine(seen: _Seen, node: VirtualInstruction, access: Access) -> bool:
    """Within one engine only a read after a write needs a semaphore; sums find their own writes."""
    if seen.node.engine is not node.engine:
        return False
    if access.buffer.place is Place.ACC and node.engine in (Engine.MATRIX, Engine.DEPTHWISE):
        return True
    return access.write or not seen.access.write


_IMPLIED = {
    Point.DONE: (Point.DONE, Point.READ, Point.WEIGHTS),
    Point.READ: (Point.READ, Point.WEIGHTS),
    Point.WEIGHTS: (Point.WEIGHTS,),
}
"""The points of a node that are over when a point of it is."""


def _learn(clock: Clock, engine: Engine, point: Point, position: Position, of: Clock) -> None:
    for implied in _IMPLIED[point]:
        source = (engine, implied)
        clock[source] = max(clock.get(source, NEVER), position)
    for source, value in of.items():
        clock[source] = max(clock.get(source, NEVER), value)


def _needs_of(
    node: VirtualInstruction, tracker: _Tracker
) -> dict[Channel, dict[tuple[int, int], Need]]:
    needs: dict[Channel, dict[tuple[int, int], Need]] = defaultdict(dict)
    for access in node.accesses:
        waiting = sequencer(node, access)
        key = (access.level, access.iteration)
        for seen in tracker.conflicts(access, waiting):
            # An engine runs its instructions in order, and a few hazards with them.
            if _ordered_by_engine(seen, node, access):
                continue
            by_key = needs[seen.node.engine, _point(seen, node), waiting]
            old = by_key.get(key)
            # The latest producer of a channel is enough: posts come in its order.
            if old is not None and old.index > seen.index:
                continue
            level, iteration = seen.access.level, float(seen.access.iteration)
            if level == 0 or iteration == iterations(seen.node.record.loop, level) - 1:
                level, iteration = 0, END
            if old is None or (old.index, old.producer_iteration) < (seen.index, iteration):
                by_key[key] = Need(*key, seen.node, seen.index, level, iteration)
    return needs


def _reduce(
    node: VirtualInstruction, needs: dict[Channel, dict[tuple[int, int], Need]], state: Dependences
) -> dict[Channel, list[Need]]:
    """Drop what is known already; update the clocks of the node's sequencers."""
    kept: dict[Channel, list[Need]] = defaultdict(list)
    main = state.clocks[node.engine.name]
    # Latest producers first: what they had waited for makes the others superfluous.
    flat = [(n, c) for c, by_key in needs.items() for n in by_key.values()]
    flat.sort(key=lambda p: (p[0].level, p[0].iteration, -state.place[id(p[0].producer)]))
    start_main: Clock = dict(main)
    for need, channel in flat:
        engine, point, waiting = channel
        clock = state.clocks[waiting]
        position = (need.index, need.producer_iteration)
        # Known already, by an earlier wait or by what a producer had waited for.
        if clock.get((engine, point), NEVER) >= position:
            continue
        kept[channel].append(need)
        producer = id(need.producer)
        if point is Point.WEIGHTS:
            of = state.weights[producer]
        else:
            of = (state.end if need.producer_iteration == END else state.start)[producer]
        _learn(clock, engine, point, position, of)
        # Waits at inner levels are over only later, so READ and DONE prove more than the start.
        if need.level == 0 and waiting == node.engine.name:
            start_main = dict(clock)
    state.start[id(node)] = start_main
    end = dict(main)
    if node.engine is Engine.MATRIX:
        weights = state.clocks["WEIGHTS"]
        state.weights[id(node)] = dict(weights)
        for source, value in weights.items():
            end[source] = max(end.get(source, NEVER), value)
    state.end[id(node)] = end
    return kept


def predecessors(nodes: Sequence[VirtualInstruction]) -> list[set[int]]:
    """For every node, the earlier ones (by number) that it must stay behind, whatever engine.

    Those that follow from others of them may be missing.
    """
    tracker = _Tracker()
    number = {id(node): i for i, node in enumerate(nodes)}
    out: list[set[int]] = []
    for i, node in enumerate(nodes):
        found = {
            number[id(seen.node)]
            for access in node.accesses
            for seen in tracker.conflicts(access, (sequencer(node, access), node.layer))
        }
        out.append(found - {i})
        tracker.add(node, i)
    return out


def analyse(
    nodes: Sequence[VirtualInstruction],
    extra: Mapping[int, Sequence[tuple[VirtualInstruction, Channel]]],
) -> Dependences:
    """The needs of all nodes. `extra`: nodes (by id) that also take others' posts of a channel."""
    tracker, state = _Tracker(), Dependences()
    counts: dict[Engine, int] = defaultdict(int)
    for node in nodes:
        state.place[id(node)] = len(state.place)
        state.index[id(node)] = index = counts[node.engine]
        counts[node.engine] += 1
        needs = _needs_of(node, tracker)
        for other, channel in extra.get(id(node), ()):
            _add_extra(needs[channel], other, state.index[id(other)])
        state.needs.append((node, _reduce(node, needs, state)))
        tracker.add(node, index)
    return state


def _add_extra(by_key: dict[tuple[int, int], Need], other: VirtualInstruction, index: int) -> None:
    old = by_key.get((0, 0))
    if old is None or old.index < index:
        by_key[0, 0] = Need(0, 0, other, index, 0, END)

"""Which earlier accesses a later one conflicts with: the same bytes, and one of both writes.

Accesses that later ones make superfluous are forgotten, so that a program of many thousand
instructions is looked at in about linear time.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from spec.isa import Engine
from spec.program import REGION_CONST, REGION_INPUT
from sw.compiler.program.virtual import Access, Buffer, Place, VirtualInstruction

WEIGHTS = "WEIGHTS"
"""The sequencer of weights, which the matrix engine has besides its main one."""

_NAMES = {engine: engine.name for engine in Engine}


def sequencer(instruction: VirtualInstruction, access: Access | None = None) -> str:
    """The sequencer that a wait for `access` holds back."""
    return WEIGHTS if access is not None and access.weights else _NAMES[instruction.engine]


@dataclass(slots=True, eq=False)
class Seen:
    """Addresses `start`…`stop` of a past access, and its instruction's number in its engine."""

    instruction: VirtualInstruction
    index: int
    access: Access
    start: int
    stop: int


Order = Callable[[VirtualInstruction, Access], Hashable]
"""Which sequence an access belongs to: those of one happen in the order of the program."""


@dataclass(slots=True, eq=False)
class _Known:
    """The accesses of a buffer that still count, by `start`; how many were writes, and all ever.

    `order`: which accesses happen one after another. `starts`: of each access. `longest`: bytes of
    the longest one yet.
    """

    order: Order
    accesses: list[Seen] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    longest: int = 0
    writes: int = 0
    total: int = 0

    def between(self, start: int, stop: int) -> tuple[int, int]:
        """Bounds of the only accesses that can overlap `start`…`stop`."""
        # None is longer than the longest: what begins so far before `start` has ended there.
        low = bisect_right(self.starts, start - self.longest)
        return low, bisect_left(self.starts, stop, low)

    def file(self, seen: Seen) -> None:
        """Keep an access."""
        at = bisect_right(self.starts, seen.start)
        self.accesses.insert(at, seen)
        self.starts.insert(at, seen.start)
        self.longest = max(self.longest, seen.stop - seen.start)

    def hide(self, access: Access, instruction: VirtualInstruction, start: int, stop: int) -> None:
        """Forget what `access` of `instruction` makes superfluous."""
        if access.level and not access.write:
            # Slices of a read come one after another: earlier reads may outlast the first.
            return
        low, high = self.between(start, stop)
        pieces: list[Seen] = []
        for at in reversed(range(low, high)):
            seen = self.accesses[at]
            if seen.stop <= start or not self._hides(access, instruction, seen):
                continue
            whole = start <= seen.start and seen.stop <= stop
            if access.write or whole:
                del self.accesses[at], self.starts[at]
            if access.write and not whole:
                pieces += _outside(seen, start, stop)
        for piece in pieces:
            self.file(piece)

    def _hides(self, access: Access, instruction: VirtualInstruction, seen: Seen) -> bool:
        """Whether `access` of `instruction` makes what it covers of an earlier one superfluous."""
        if seen.instruction is instruction or not access.spans(seen.access):
            return False
        if access.write:
            return True
        same = self.order(seen.instruction, seen.access) == self.order(instruction, access)
        return same and access.level == 0 and not seen.access.write


class AccessTracker:
    """Accesses that a later one may still conflict with, by buffer.

    Buffers whose addresses overlap are found once, when the later of them is first touched.
    `order`: which accesses happen one after another, whatever they wait for.
    """

    def __init__(self, order: Order = sequencer) -> None:
        self.order = order
        self.near: dict[int, list[_Known]] = {}
        self.spaces: dict[object, list[Buffer]] = defaultdict(list)
        self.read: dict[Hashable, int] = {}

    def _lists(self, buffer: Buffer) -> list[_Known]:
        """What was seen of `buffer`, and of every other that shares addresses with it."""
        near = self.near.get(id(buffer))
        if near is None:
            start, stop = buffer.address, buffer.address + buffer.size
            others = self.spaces[buffer.place, buffer.region]
            mine = _Known(self.order)
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
        # Reads conflict with writes only: without a new one everything has been waited for.
        version = sum(known.writes for known in self._lists(access.buffer))
        key = (reader, id(access.buffer), access.start, access.stop, access.lanes)
        last, self.read[key] = self.read.get(key), version
        return last == version

    def conflicts(self, access: Access, by: Hashable) -> Iterator[Seen]:
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
        # Block after block of channels covers the same pixels. Another buffer below them conflicts
        # with all of the pixels' bytes, so that it is looked at once for all blocks.
        base = access.buffer.address
        start, stop = access.start - access.lanes[0], access.stop - access.lanes[1] + access.pitch
        for known in others:
            key = (by, id(known), id(access.buffer), start, stop, access.write)
            last, self.read[key] = self.read.get(key), known.total
            if last != known.total:
                yield from _meeting(access, base + start, base + stop, known)

    def add(self, instruction: VirtualInstruction, index: int) -> None:
        """File the accesses of `instruction` and forget what they make superfluous.

        A write came after all that it overlaps, so what conflicts there later need only wait for
        the write. A read of all steps replaces earlier reads by the same sequencer in its bytes.
        """
        for access in instruction.accesses:
            buffer = access.buffer
            # Nobody writes these.
            if buffer.place is Place.DRAM and buffer.region in (REGION_CONST, REGION_INPUT):
                continue
            start, stop = _span(access)
            near = self._lists(buffer)
            # Some channels of a tensor never cover what another buffer held in their place.
            for known in near if access.write and not access.pitch else near[:1]:
                if known.accesses:
                    known.hide(access, instruction, start, stop)
            near[0].file(Seen(instruction, index, access, start, stop))
            near[0].writes += access.write
            near[0].total += 1


def _meeting(access: Access, start: int, stop: int, known: _Known) -> Iterator[Seen]:
    """Those of `known` between addresses `start` and `stop` that conflict with `access`."""
    write = access.write
    for seen in known.accesses[slice(*known.between(start, stop))]:
        if start < seen.stop and (write or seen.access.write) and not seen.access.misses(access):
            yield seen


def _span(access: Access) -> tuple[int, int]:
    base = access.buffer.address
    return base + access.start, base + access.stop


def _outside(seen: Seen, start: int, stop: int) -> list[Seen]:
    """What is left of `seen` before `start` and after `stop`."""
    pieces = ((seen.start, min(seen.stop, start)), (max(seen.start, stop), seen.stop))
    # Not `replace`: long programs pass here a hundred thousand times.
    return [Seen(seen.instruction, seen.index, seen.access, a, b) for a, b in pieces if a < b]

"""Places for the memories of a kernel: those of one line of source rotate in the same buffers.

A memory lives from the first to the last statement that touches it. Lines get as many buffers as
memories of theirs live at once, and one more if there is room: then the engines can fill it while
the others are still read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.isa import Reduce
from sw.compiler.program.allocate import align
from sw.compiler.program.virtual import Place
from sw.language.errors import AccumulatorFullError, KernelError, RaceError
from sw.language.memory import Memory
from sw.language.source import Line
from sw.language.steps import VectorStep
from sw.language.trace import Trace

MORE = {Place.SPAD: 2, Place.ACC: 3}
"""Buffers of a line beyond those that live at once, if there is room: so far the engines run ahead.
In the accumulator one tile with three more lies in each of its four banks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The memories that a line of source makes, in order; `slots`: buffers they rotate in."""

    line: Line
    memories: tuple[Memory, ...]
    slots: int

    @property
    def size(self) -> int:
        """Of a buffer."""
        return max(memory.size for memory in self.memories)

    @property
    def banks(self) -> int:
        """Banks of the accumulator that a buffer spreads over."""
        return max(memory.banks for memory in self.memories)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Sites by place, the buffer (site, slot) of each memory; bytes or vectors arranged by hand."""

    sites: Mapping[Place, tuple[Site, ...]]
    slots: Mapping[Memory, tuple[int, int]]
    by_hand: Mapping[Place, int]
    vectors: tuple[tuple[int, ...], ...]

    @property
    def spad_bytes(self) -> int:
        """Scratchpad bytes of all buffers."""
        rotating = sum(site.slots * site.size for site in self.sites[Place.SPAD])
        return rotating + self.by_hand[Place.SPAD]


def place(trace: Trace) -> Placement:
    """Places for everything; `KernelError` if it does not fit, `RaceError` for tiles that clash."""
    memories = list(dict.fromkeys(m for step in trace.steps for m in step.memories))
    lives = _in_place(trace)
    memories = [m for m in memories if m not in lives]
    by_hand = [m for m in memories if m.at is not None]
    _check_by_hand(by_hand, trace)
    sites: dict[Place, tuple[Site, ...]] = {}
    slots: dict[Memory, tuple[int, int]] = {}
    hand: dict[Place, int] = {}
    for kind in (Place.SPAD, Place.ACC):
        hand[kind] = max(
            (m.at + m.size for m in by_hand if m.place is kind and m.at is not None), default=0
        )
        found = _sites([m for m in memories if m.place is kind and m.at is None])
        sites[kind] = tuple(_fitted(found, kind, hand[kind], trace))
        for number, site in enumerate(sites[kind]):
            slots |= {m: (number, slot) for m, slot in _rotated(site, trace)}
    slots |= {memory: slots[root] for memory, root in lives.items()}
    vectors = _vectors(sites[Place.ACC], hand[Place.ACC], trace.config)
    return Placement(sites=sites, slots=slots, by_hand=hand, vectors=vectors)


def _in_place(trace: Trace) -> dict[Memory, Memory]:
    """Results in the accumulator that lie where the operand lay that is used here last.

    A VECTOR reads a vector of it before it writes the same one.
    """
    roots: dict[Memory, Memory] = {}
    for number, step in enumerate(trace.steps):
        if not isinstance(step, VectorStep) or step.pending.reduce is not Reduce.NONE:
            continue
        a, out = step.pending.a, step.out
        root = roots.get(a.memory, a.memory)
        alike = a.in_acc and out.in_acc and a.layout == out.layout and a.memory is not out.memory
        sizes = (a.memory.size, a.memory.banks) == (out.memory.size, out.memory.banks)
        free = root.at is None and out.memory.at is None and out.memory.buffers is None
        if alike and sizes and free and root.last == number == out.memory.first:
            roots[out.memory] = root
            root.last = out.memory.last
    return roots


def _sites(memories: Sequence[Memory]) -> list[Site]:
    """The lines, with as many buffers as their memories need."""
    by_line: dict[Line, list[Memory]] = {}
    for memory in memories:
        by_line.setdefault(memory.line, []).append(memory)
    return [
        Site(line=line, memories=tuple(some), slots=some[0].buffers or _alive(some))
        for line, some in by_line.items()
    ]


def _alive(memories: Sequence[Memory]) -> int:
    """Most memories that live at once."""
    events = sorted([(m.first, 1) for m in memories] + [(m.last + 1, -1) for m in memories])
    alive = most = 0
    for _, change in events:
        alive += change
        most = max(most, alive)
    return most


def _fitted(sites: list[Site], kind: Place, taken: int, trace: Trace) -> list[Site]:
    """More buffers for lines that make more memories than they need at once, small ones first, in
    turns of one; never more than fit.
    """
    config = trace.config
    if not _fits(sites, kind, taken, config):
        whole = config.spad_bytes if kind is Place.SPAD else config.acc_vectors
        raise _too_large(sites, kind, taken, whole, trace)
    order = sorted(range(len(sites)), key=lambda i: sites[i].size)
    for _ in range(MORE[kind]):
        for i in order:
            site = sites[i]
            if site.memories[0].buffers is None and site.slots < len(site.memories):
                tried = [*sites[:i], replace(site, slots=site.slots + 1), *sites[i + 1 :]]
                if _fits(tried, kind, taken, config):
                    sites = tried
    return sites


def _fits(sites: Sequence[Site], kind: Place, taken: int, config: NpuConfig) -> bool:
    if kind is Place.SPAD:
        rotating = sum(site.slots * align(site.size, config.word_bytes) for site in sites)
        return rotating + align(taken, config.word_bytes) <= config.spad_bytes
    try:
        _vectors(sites, taken, config)
    except _NoRoom:
        return False
    return True


class _NoRoom(Exception):
    """The accumulator is too small."""


def _vectors(sites: Sequence[Site], taken: int, config: NpuConfig) -> tuple[tuple[int, ...], ...]:
    """The first vector of every buffer of every site in the accumulator.

    Neighbouring buffers lie in different banks, so that VECTOR empties one while the array fills
    the next.
    """
    free = np.ones(config.acc_vectors, np.bool_)
    free[:taken] = False
    out: list[tuple[int, ...]] = [()] * len(sites)
    turn = 0
    for number in sorted(range(len(sites)), key=lambda i: -sites[i].size * sites[i].banks):
        site, places = sites[number], []
        for _ in range(site.slots):
            start = _take(site, free, turn, config.acc_bank)
            places.append(start)
            turn = (start + site.size - 1) // config.acc_bank + site.banks
        out[number] = tuple(places)
    return tuple(out)


def _take(site: Site, free: NDArray[np.bool_], turn: int, bank: int) -> int:
    """The first vector of a buffer, in bank `turn` or behind it; it is free no more."""
    size, reach = site.size, (site.banks - 1) * bank + site.size
    # As often as the buffer lies in banks of its own, all of them must be free at one place.
    whole = np.lib.stride_tricks.sliding_window_view(free, size).all(axis=1)
    open_at = np.ones(max(0, free.size - reach + 1), np.bool_)
    for i in range(site.banks):
        open_at &= whole[i * bank : i * bank + open_at.size]
    starts = np.flatnonzero(open_at)
    if size <= bank:
        # Neither here nor there: a buffer across two banks is in the way of both.
        starts = starts[starts % bank + size <= bank]
    if not starts.size:
        raise _NoRoom
    banks = free.size // bank
    start = int(min(starts, key=lambda at: ((at // bank - turn) % banks, at)))
    for i in range(site.banks):
        free[start + i * bank : start + i * bank + size] = False
    return start


def _rotated(site: Site, trace: Trace) -> Iterator[tuple[Memory, int]]:
    """The buffer of each memory: the one whose last memory was done first."""
    held: list[Memory | None] = [None] * site.slots
    for memory in sorted(site.memories, key=lambda m: m.first):
        at = min(range(site.slots), key=lambda i: -1 if (h := held[i]) is None else h.last)
        before = held[at]
        if before is not None and before.last >= memory.first:
            raise _clash(before, memory, trace, f"buffers={site.slots}: use more buffers")
        held[at] = memory
        yield memory, at


def _check_by_hand(memories: Sequence[Memory], trace: Trace) -> None:
    """What a kernel places itself overlaps only where the earlier tile is read no more."""
    for i, later in enumerate(memories):
        for before in memories[:i]:
            assert before.at is not None and later.at is not None
            apart = (
                before.place is not later.place
                or before.at + before.size <= later.at
                or later.at + later.size <= before.at
            )
            if not apart and before.last >= later.first:
                raise _clash(before, later, trace, "place it elsewhere, or use the first earlier")


def _clash(before: Memory, later: Memory, trace: Trace, hint: str) -> RaceError:
    """A tile that is read after another was written where it lay."""
    reader, writer = trace.steps[before.last], trace.steps[later.first]
    return RaceError(
        f"{before.label} (made at {before.line.short}) is used after another tile took its place",
        first=f"{writer} writes {_where(later)}",
        second=f"{reader} uses {_where(before)}",
        node=trace.name,
        source=str(reader.line),
        hint=hint,
    )


def _where(memory: Memory) -> str:
    unit = "bytes" if memory.place is Place.SPAD else "vectors"
    name = "scratchpad" if memory.place is Place.SPAD else "accumulator"
    if memory.at is None:
        return f"{memory.label}: {memory.size} {unit} of its buffer in the {name}"
    return f"{memory.label}: {unit} {memory.at}…{memory.at + memory.size - 1} of the {name}"


def _too_large(
    sites: Sequence[Site], kind: Place, taken: int, whole: int, trace: Trace
) -> KernelError:
    unit = "bytes of the scratchpad" if kind is Place.SPAD else "vectors of the accumulator"
    rows = [
        f"{site.line.short} {site.memories[0].label}: {site.slots} x {site.size * site.banks:,}"
        for site in sites
    ]
    if taken:
        rows.append(f"placed by hand: {taken:,}")
    largest = max(sites, key=lambda site: site.slots * site.size * site.banks)
    total = sum(site.slots * site.size * site.banks for site in sites) + taken
    kind_of_error = AccumulatorFullError if kind is Place.ACC else KernelError
    return kind_of_error(
        f"tiles need {total:,} {unit}, configuration {trace.config.name} has {whole:,}: "
        + "; ".join(rows),
        node=trace.name,
        source=str(largest.line),
        hint="cut smaller tiles, or keep fewer of them at once",
    )

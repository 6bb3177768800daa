"""Stage `repeats`: sections of the program that run again and again are stored once, with REPEAT.

Samples of a batch, tiles of a tall tensor and heads of an attention need the same instructions,
with addresses that move on by the same steps. What runs stays the same, instruction by instruction.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from spec.codec import ROWS, Bits
from spec.fields import field_of
from spec.isa import DISPLACED, GRANULE_BYTES, STEPS, Instruction, Opcode, Space
from sw.compiler.machine.costs import FETCH_AGAIN, FETCH_GRANULE
from sw.compiler.program.virtual import VirtualInstruction

WINDOWS = (1, 8, 64, 512)
"""Numbers of instructions by which periods are recognized."""

MOST_PERIODS = 12
"""Periods that are tried for each of them, the most frequent ones."""

TURNS = (1, 2, 3, 4, 6)
"""Multiples of a period that are tried: rotating buffers may take several to come around."""

LONGEST = 1 << 14
"""Instructions of the longest section."""

LEAST_SAVED = 256
"""Bytes that a section saves at least."""

LEAST_SIZE = 8192
"""Bytes of a section at least: each run of it costs fetch a jump. Without this limit MobileNetV2
takes 2% more cycles on the RTL, a product of one row 1%."""

LONG_RUN = 100 * FETCH_AGAIN
"""Cycles of a run beside which a jump is nothing, however few bytes it has."""

MOST_BUS_BYTES = 64
"""The widest word of the bus (`spec.config`)."""

_PARAMS = ((0, "mem_base"),)
"""What of a LOAD of parameters or of a TABLE may be displaced."""

_MOST_MOVES = max(map(len, DISPLACED.values()))
_REPEAT_BYTES = Instruction(Opcode.REPEAT).format.granules * GRANULE_BYTES
_MOST_COUNT = field_of(Opcode.REPEAT, "count").maximum
_STEP = field_of(Opcode.REPEAT, "step.bytes")

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Instructions `start`…`start + period` of the program run `runs` times.

    steps: how far each displacement moves on from run to run.
    """

    start: int
    period: int
    runs: int
    saves: int
    steps: tuple[int, ...]

    @property
    def stop(self) -> int:
        return self.start + self.period * self.runs


def store_once(
    instructions: Sequence[Instruction],
    virtual: Sequence[VirtualInstruction],
    predicted: Sequence[int],
) -> list[Instruction]:
    """`instructions` (BEGIN, those of `virtual`, END) with sections that repeat stored once."""
    words = [each.encode() for each in instructions]
    program = _Program(instructions, words)
    found: list[Section] = []
    for start, stop, layers in _parts([each.layer for each in virtual]):
        cycles = sum(predicted[layer] for layer in layers)
        # BEGIN comes before them.
        found += program.sections(start + 1, stop + 1, cycles)
    return list(_stored(instructions, program, _chosen(found)))


def _parts(layers: Sequence[int]) -> Iterator[tuple[int, int, set[int]]]:
    """(first, end, layers) of each part of the program: a layer, or layers that run concurrently.

    A few instructions of a layer may lie between those of the next one.
    """
    starts: dict[int, int] = {}
    ends = {layer: i + 1 for i, layer in enumerate(layers)}
    for i, layer in enumerate(layers):
        starts.setdefault(layer, i)
    start = end = 0
    members: set[int] = set()
    for layer, first in starts.items():
        if members and end - first <= (ends[layer] - first) // 4:
            yield start, first, members
            start, end, members = first, first, set()
        members.add(layer)
        end = max(end, ends[layer])
    if members:
        yield start, len(layers), members


class _Program:
    """The instructions as numbers.

    kinds: equal for instructions that differ only in addresses that can be displaced. moves: these
    addresses, and `widths` where they wrap. ends: bytes of the program up to each instruction.
    """

    def __init__(self, instructions: Sequence[Instruction], words: Sequence[bytes]) -> None:
        numbers: dict[tuple[int, int], int] = {}
        count = len(instructions)
        self.kinds = np.empty(count, np.int64)
        self.moves = np.zeros((count, _MOST_MOVES), np.int64)
        self.widths = np.ones((count, _MOST_MOVES), np.int64)
        for i, (each, word) in enumerate(zip(instructions, words, strict=True)):
            names = _displaced(each)
            # Parameters and tables keep their place in a bus word.
            place = each["mem_base"] % MOST_BUS_BYTES if names == _PARAMS else 0
            key = int.from_bytes(word, "little") & _mask(each.opcode, names), place
            self.kinds[i] = numbers.setdefault(key, len(numbers))
            for k, name in names:
                self.moves[i, k] = each[name]
                self.widths[i, k] = 1 << field_of(each.opcode, name).bits
        self.ends = np.concatenate([[0], np.cumsum([len(word) for word in words])])

    def sections(self, start: int, stop: int, cycles: int) -> Iterator[Section]:
        """Candidates among instructions `start`…`stop`, which take about so many cycles."""
        kinds, size = self.kinds[start:stop], int(self.ends[stop] - self.ends[start])
        least = _least_period(stop - start, size, cycles)
        least_size = min(LEAST_SIZE, math.ceil(LONG_RUN * size / cycles)) if cycles else LEAST_SIZE
        for period in _periods(kinds, least):
            same = kinds[period:] == kinds[:-period]
            if np.count_nonzero(same) < period:
                continue
            by = self.steps(start, stop, period)
            for a, b in _runs(same, by, period):
                section = self._section(
                    start + a, period, (b - a) // period + 1, by[a : a + period]
                )
                if section is not None and self._bytes(section) >= least_size:
                    yield section

    def steps(self, start: int, stop: int, period: int) -> Numbers:
        """How far the addresses of each instruction lie before those of the one a period on."""
        by = self.moves[start + period : stop] - self.moves[start : stop - period]
        # Addresses wrap around: of the ways there, the short one.
        half = self.widths[start : stop - period] // 2
        return (by + half) % (2 * half + (half == 0)) - half

    def _bytes(self, section: Section) -> int:
        """Of one run."""
        return int(self.ends[section.start + section.period] - self.ends[section.start])

    def _section(self, start: int, period: int, runs: int, by: Numbers) -> Section | None:
        steps = tuple(int(step) for step in np.unique(by) if step)
        runs = min(runs, _MOST_COUNT)
        fits = all(_STEP.minimum <= step <= _STEP.maximum for step in steps)
        size = int(self.ends[start + period] - self.ends[start])
        saves = size * (runs - 1) - _REPEAT_BYTES
        if len(steps) > STEPS or not fits or saves < LEAST_SAVED:
            return None
        return Section(start=start, period=period, runs=runs, saves=saves, steps=steps)


def _displaced(instruction: Instruction) -> tuple[tuple[int, str], ...]:
    """(place, name) of the addresses of an instruction that may be displaced."""
    names = enumerate(DISPLACED.get(instruction.opcode, ()))
    if instruction.opcode is Opcode.LOAD and instruction["space"] != Space.SPAD:
        return () if instruction["fill"] else _PARAMS
    if instruction.opcode is Opcode.LOAD and instruction["fill"]:
        return tuple((i, name) for i, name in names if name != "mem_base")
    if instruction.opcode is Opcode.VECTOR:
        on_acc = [name for name in ("a", "o") if instruction[f"{name}_space"] == Space.ACC]
        return tuple((i, name) for i, name in names if name[0] not in on_acc)
    return tuple(names)


@cache
def _mask(opcode: Opcode, names: tuple[tuple[int, str], ...]) -> int:
    """The bits of an instruction without the addresses `names`."""
    places = 0
    for item in ROWS[opcode].items:
        if isinstance(item, Bits) and any(item.name == name for _, name in names):
            places |= item.mask << item.shift
    return ~places


def _least_period(count: int, size: int, cycles: int) -> int:
    """Instructions of a section from which on fetch keeps ahead of the engines all the same."""
    per_instruction = cycles / count
    fetched = FETCH_GRANULE * size / GRANULE_BYTES / count
    if per_instruction <= fetched:
        return count
    return max(1, int(FETCH_AGAIN / (per_instruction - fetched)))


def _periods(kinds: Numbers, least: int) -> list[int]:
    """Periods from `least` instructions on: distances between neighbours that look alike.

    What looks alike are instructions, and windows of several: long ones occur once in a period.
    """
    out: set[int] = set()
    for window in WINDOWS:
        if window >= len(kinds) // 2:
            break
        looks = _windows(kinds, window)
        order = np.argsort(looks, kind="stable")
        near = (order[1:] - order[:-1])[looks[order[1:]] == looks[order[:-1]]]
        votes = np.bincount(near)
        frequent = np.argsort(-votes, kind="stable")[:MOST_PERIODS]
        frequent = frequent[votes[frequent] > 0]
        for times in TURNS:
            out.update((-(-least // (times * frequent)) * times * frequent).tolist())
    return sorted(period for period in out if period <= min(LONGEST, len(kinds) // 2))


def _windows(kinds: Numbers, size: int) -> NDArray[np.uint64]:
    """A number for the `size` kinds from each instruction on, modulo 2^64."""
    # Powers of an odd number have inverses: a window's sum is brought to the same power.
    base = np.uint64(0x9E3779B97F4A7C15)
    inverse = np.uint64(pow(int(base), -1, 1 << 64))
    powers = np.cumprod(np.full(len(kinds), base, np.uint64))
    back = np.cumprod(np.full(len(kinds), inverse, np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(kinds.astype(np.uint64) * powers)])
    return (sums[size:] - sums[:-size]) * back[: len(kinds) - size + 1]


def _runs(same: NDArray[np.bool_], by: Numbers, period: int) -> Iterator[tuple[int, int]]:
    """[a, b) in which every instruction equals the one a period on, and moves on as steadily."""
    for a, b in _stretches(same, period):
        steady = (by[a + period : b] == by[a : b - period]).all(axis=1)
        if not steady.any():
            yield a, a + period
        for c, d in _stretches(steady, 1):
            yield a + c, a + d + period


def _stretches(flags: NDArray[np.bool_], least: int) -> Iterator[tuple[int, int]]:
    """[a, b) of each stretch of True that is at least so long."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    starts, stops = edges[::2], edges[1::2]
    long = stops - starts >= least
    yield from zip(starts[long].tolist(), stops[long].tolist(), strict=True)


def _chosen(found: list[Section]) -> list[Section]:
    """Sections that do not overlap and together save most, in the order of the program."""
    found = sorted(found, key=lambda section: section.stop)
    stops = [section.stop for section in found]
    best, taken = [0], [False]
    for i, section in enumerate(found):
        saves = best[bisect_right(stops, section.start, 0, i)] + section.saves
        taken.append(saves > best[-1])
        best.append(max(saves, best[-1]))
    out: list[Section] = []
    i = len(found)
    while i:
        if taken[i]:
            out.append(found[i - 1])
            i = bisect_right(stops, found[i - 1].start, 0, i - 1)
        else:
            i -= 1
    return out[::-1]


def _stored(
    instructions: Sequence[Instruction], program: _Program, sections: list[Section]
) -> Iterator[Instruction]:
    at = 0
    for section in sections:
        yield from instructions[at : section.start]
        end, granules = section.start + section.period, 0
        by = program.steps(section.start, end + section.period, section.period)
        for i in range(section.period):
            stored = _moving(instructions[section.start + i], by[i].tolist(), section.steps)
            granules += stored.format.granules
            yield stored
        steps = [{"bytes": step} for step in section.steps]
        yield Instruction(
            Opcode.REPEAT, {"count": section.runs - 1, "section": granules, "step": steps}
        )
        at = section.stop
    yield from instructions[at:]


def _moving(instruction: Instruction, by: Sequence[int], steps: Sequence[int]) -> Instruction:
    """The instruction with the displacements that move on by `by`."""
    chosen = {f"{name}_by": steps.index(by[i]) + 1 for i, name in _displaced(instruction) if by[i]}
    return (
        Instruction(instruction.opcode, {**instruction.values, **chosen}) if chosen else instruction
    )

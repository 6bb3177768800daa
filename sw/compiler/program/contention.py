"""Memories on chip that several engines use at once: who waits, and for how long.

The accumulator has four banks (`hw_gen/blocks/accumulator.py`). Each serves a read and a write a
cycle, the matrix engine's before the depthwise engine's before the vector engine's. In the
scratchpad (`hw_gen/blocks/scratchpad.py`) a bank serves one access a cycle: activations, weights,
depthwise, A and B of the vector engine, STORE, in this order. A result waits in a buffer
for its bank, and its engine where that buffer still holds another word. Which banks two streams use
in a cycle is taken as chance, but for A and B, which stay side by side.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import NamedTuple

from spec.config import NpuConfig
from spec.isa import Reduce, Space
from sw.compiler.machine.costs import columns_read, weight_cycles
from sw.compiler.program.cycles import fresh_share, reading_cycles, words_read
from sw.compiler.program.records import Depthwise, Matrix, Store, Vector
from sw.compiler.program.virtual import VirtualInstruction

ACC_BANKS = 4
_ALONE = tuple(tuple(float(b == bank) for b in range(ACC_BANKS)) for bank in range(ACC_BANKS))
Shares = tuple[float, ...]
"""Of an instruction's accesses, the share in each bank of the accumulator."""


class Demand(NamedTuple):
    """What an instruction asks of the memories on chip in a cycle while it runs.

    reads, writes: of the accumulator, by bank; empty: none. banks: of the scratchpad, for an
    access; taken: the same for all accesses of a cycle, as others see it. slack: cycles that its
    engine takes anyway, over those in which it reads the scratchpad. out_banks, out_slack: the same
    for what it writes there. acc_slack: the same for the accumulator.
    """

    reads: Shares = ()
    writes: Shares = ()
    banks: float = 0.0
    taken: float = 0.0
    slack: float = 1.0
    out_banks: float = 0.0
    out_slack: float = 1.0
    acc_slack: float = 1.0


NO_DEMAND = Demand()


def demand(
    instruction: VirtualInstruction, bodies: Sequence[int], busy: float, config: NpuConfig
) -> Demand:
    """Of an instruction that takes `busy` cycles if nobody is in its way.

    bodies: iterations of each level of its loops.
    """
    record = instruction.record
    if isinstance(record, Matrix):
        return _matrix(instruction, record, bodies, busy, config)
    if isinstance(record, Depthwise):
        return _depthwise(instruction, record, config)
    if isinstance(record, Vector):
        return _vector(instruction, record, bodies[-1], busy, config)
    if isinstance(record, Store):
        base = record.chip_base + _address(instruction, "chip_base")
        return Demand(banks=_banks(base, [n.chip for n in record.loop], config.bus_bytes, config))
    return NO_DEMAND


def banks_added_up(instruction: VirtualInstruction, config: NpuConfig) -> frozenset[int]:
    """Banks of the accumulator from which a MATRIX reads sums in most of its cycles."""
    record = instruction.record
    if not isinstance(record, Matrix):
        return frozenset()
    products = math.prod(n.count for i, n in enumerate(record.loop) if record.k_loops >> i & 1)
    if products == 1 and not record.accumulate:
        return frozenset()
    base = record.acc_base + _address(instruction, "acc_base")
    return _used(_shares(base, [(n.count, n.acc) for n in record.loop], config))


def banks_read(instruction: VirtualInstruction, config: NpuConfig) -> frozenset[int]:
    """Banks of the accumulator that a VECTOR reads."""
    record = instruction.record
    if not isinstance(record, Vector) or record.a_space is not Space.ACC:
        return frozenset()
    base = record.a_base + _address(instruction, "a_base")
    return _used(_shares(base, [(n.count, n.a) for n in record.loop], config))


def _used(shares: Shares) -> frozenset[int]:
    return frozenset(bank for bank, share in enumerate(shares) if share)


def fold_cycles(
    instruction: VirtualInstruction, record: Matrix, vectors: float, config: NpuConfig
) -> float:
    """Cycles of a fold of so many vectors: theirs, or those in which the array takes the weights
    of the next one. The activations go first at a bank.
    """
    weights = weight_cycles(config, bool(record.transposed))
    if vectors >= 2 * weights:
        return vectors
    met = _activations(instruction, record, config) * _weights(instruction, record, config)
    met = min(1.0, met * config.weight_rows / config.banks)
    return max(vectors, weights + met * min(vectors, weights))


def _activations(instruction: VirtualInstruction, record: Matrix, config: NpuConfig) -> float:
    base = record.act_base + _address(instruction, "act_base")
    return _banks(base, [n.act for n in record.loop if n.count > 1], record.rows, config)


def _weights(instruction: VirtualInstruction, record: Matrix, config: NpuConfig) -> float:
    base = record.wgt_base + _address(instruction, "wgt_base")
    size = record.rows if record.transposed else record.cols
    strides = [record.wgt_row, *(n.wgt for n in record.loop if n.count > 1)]
    return _banks(base, strides, size, config)


def _matrix(
    instruction: VirtualInstruction,
    record: Matrix,
    bodies: Sequence[int],
    busy: float,
    config: NpuConfig,
) -> Demand:
    base = record.acc_base + _address(instruction, "acc_base")
    shares = _shares(base, [(n.count, n.acc) for n in record.loop], config)
    products = math.prod(n.count for i, n in enumerate(record.loop) if record.k_loops >> i & 1)
    # The first product of a sum overwrites what was there.
    again = 1.0 if record.accumulate else 1 - 1 / products
    loading = weight_cycles(config, bool(record.transposed)) * config.weight_rows
    loading *= bodies[record.fold_loops]
    taken = bodies[-1] * _activations(instruction, record, config)
    taken += loading * _weights(instruction, record, config)
    return Demand(
        reads=tuple(again * share for share in shares), writes=shares, taken=taken / max(1.0, busy)
    )


def _depthwise(instruction: VirtualInstruction, record: Depthwise, config: NpuConfig) -> Demand:
    base = record.acc_base + _address(instruction, "acc_base")
    spans = [*((n.count, n.acc) for n in record.loop), (record.outputs, record.acc_col)]
    groups = columns_read(record.outputs, record.stride, record.kernel_cols, config)
    together = len(groups[0])
    each = record.kernel_rows * record.stride / together
    shares = tuple(share / each for share in _shares(base, spans, config))
    act = record.act_base + _address(instruction, "act_base")
    strides = [record.act_row, record.act_col, *(n.act for n in record.loop)]
    banks = _banks(act, strides, record.lanes, config)
    return Demand(
        reads=shares if record.accumulate else (),
        writes=shares,
        banks=banks * together,
        taken=banks * together,
    )


def pair_conflicts(instruction: VirtualInstruction, record: Depthwise, config: NpuConfig) -> float:
    """Cycles that a DEPTHWISE loses as the two columns that it reads together lie in one bank, in
    different words.
    """
    groups = columns_read(record.outputs, record.stride, record.kernel_cols, config)
    if len(groups[0]) < 2:
        return 0.0
    base = record.act_base + _address(instruction, "act_base")
    outputs = min(SAMPLES, record.outputs)
    met = 0
    for i, k in product(range(outputs), range(record.kernel_rows)):
        at = base + k * record.act_row
        first, second = (
            {byte // config.word_bytes for byte in (start, start + record.lanes - 1)}
            for start in (at + column * record.act_col for column in groups[i])
        )
        both = product(first - second, second - first)
        met += any(config.bank_of(a) == config.bank_of(b) for a, b in both)
    steps = math.prod(loop.count for loop in record.loop)
    return steps * record.outputs * met / outputs


def _vector(
    instruction: VirtualInstruction, record: Vector, steps: int, busy: float, config: NpuConfig
) -> Demand:
    reads: Shares = ()
    writes: Shares = ()
    banks, reading = 0.0, 0.0
    a = record.a_base + _address(instruction, "a_base")
    words, alone = words_read(record, config)
    if record.a_space is Space.ACC:
        reads = _shares(a, [(n.count, n.a) for n in record.loop], config)
    else:
        size = record.a_type.bytes * (1 if record.a_one else record.lanes)
        banks = _banks(a, [n.a for n in record.loop if n.count > 1], size, config)
        reading = reading_cycles(words, alone, fresh_share(record))
        # Two words in a cycle, where both ports read A.
        banks *= max(1.0, words / reading)
    o = record.o_base + _address(instruction, "o_base")
    out_banks, out_slack = 0.0, 1e9
    if record.o_space is Space.ACC:
        writes = _shares(o, [(n.count, n.o) for n in record.loop], config)
    else:
        size = record.o_type.bytes * (1 if record.reduce_lanes else record.lanes)
        chosen = 0 if record.reduce is Reduce.NONE else record.reduce_loops
        results = math.prod(n.count for i, n in enumerate(record.loop) if not chosen >> i & 1)
        out_banks = _banks(o, [n.o for n in record.loop if n.count > 1], size, config)
        out_slack = busy / (results * math.ceil(size / config.word_bytes))
    slack = busy / (steps * reading) if reading else 1e9
    acc_slack = max(1.0, busy / steps)
    return Demand(reads, writes, banks, 0.0, slack, out_banks, out_slack, acc_slack)


def own_conflicts(
    instruction: VirtualInstruction, steps: int, busy: float, config: NpuConfig
) -> float:
    """Cycles that a VECTOR of so many steps and `busy` cycles loses as two of its own words lie in
    one bank: of A and B, which are read side by side, or of what it reads and what it writes. Of A
    and B in one buffer `busy` has them (`banks.conflict_factor`).
    """
    record = instruction.record
    assert isinstance(record, Vector)
    if record.a_space is not Space.SPAD:
        return 0.0
    word = config.word_bytes
    a, b = words_read(record, config)
    lost = 0.0
    fresh = fresh_share(record)
    beats = steps * reading_cycles(a, b, fresh)
    bases = instruction.bases
    if b and bases.get("b_base") is not bases.get("a_base"):
        beats += steps * fresh * min(a, b) * _side_by_side(instruction, record, config)
        lost = max(0.0, beats - busy)
    if record.o_space is Space.SPAD and record.o_type.bytes * record.lanes > word * max(a, b):
        # Where there are more words to write than to read, writes find the banks taken.
        lost += steps * (a + b) / config.banks
    return lost


SAMPLES = 32
"""Steps of a VECTOR whose addresses are looked at."""

GOLDEN = 0.6180339887
"""Their distance, over all steps: no period of banks is met again and again."""


def _side_by_side(instruction: VirtualInstruction, record: Vector, config: NpuConfig) -> float:
    """Share of the steps in which A and B begin in one bank."""
    word = config.word_bytes
    a0 = record.a_base + _address(instruction, "a_base")
    b0 = record.b_base + _address(instruction, "b_base")
    loops = [(n.count, n.a, n.b) for n in record.loop if n.count > 1]
    steps = math.prod(count for count, _, _ in loops)
    met = 0
    samples = min(SAMPLES, steps)
    for sample in range(samples):
        at = int(sample * GOLDEN * steps) % steps if samples < steps else sample
        a, b = a0, b0
        for count, by_a, by_b in reversed(loops):
            at, index = divmod(at, count)
            a += index * by_a
            b += index * by_b
        met += config.bank_of(a // word) == config.bank_of(b // word)
    return met / samples


def _address(instruction: VirtualInstruction, name: str) -> int:
    buffer = instruction.bases.get(name)
    return max(0, buffer.address) if buffer is not None else 0


def _banks(base: int, strides: Sequence[int], size: int, config: NpuConfig) -> float:
    """Banks that an access of `size` bytes takes on average: two where it begins in one word and
    ends in the next.
    """
    word = config.word_bytes
    step = math.gcd(word, *strides)
    return _straddling(base % step, step, min(size, word), word)


@cache
def _straddling(first: int, step: int, size: int, word: int) -> float:
    begins = range(first, word, step)
    return 1 + sum(at + size > word for at in begins) / len(begins)


def _shares(base: int, spans: Sequence[tuple[int, int]], config: NpuConfig) -> Shares:
    """Vectors from `base` on, spread evenly over what the loops (count, stride) reach."""
    low = high = base
    for count, by in spans:
        if by > 0:
            high += (count - 1) * by
        else:
            low += (count - 1) * by
    high += 1
    size = config.acc_bank
    if low // size == (high - 1) // size:
        return _ALONE[low // size % ACC_BANKS]
    inside = [max(0, min(high, (b + 1) * size) - max(low, b * size)) for b in range(ACC_BANKS)]
    return tuple(count / (high - low) for count in inside)


@dataclass(slots=True)
class Traffic:
    """What an engine that goes first asks for, and when: windows in order, each of one job."""

    banks: int
    jobs: list[int] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)

    def add(self, job: int, start: float, stop: float, late: float, wants: Demand) -> None:
        """Steps from `start` to `stop`, whose sums come `late` cycles later."""
        self.jobs.append(job)
        self.starts.append(start + late)
        self.stops.append(stop + late)
        self.demands.append(wants)

    def delayed(
        self, start: float, work: float, mine: Demand, apart: Collection[int] = ()
    ) -> float:
        """When `work` cycles from `start` on are done, of an engine that wants `mine` and is in
        other banks than jobs `apart`.
        """
        now, left = start, work
        for at in range(bisect_right(self.stops, start), len(self.stops)):
            if self.jobs[at] in apart:
                continue
            begin, end = self.starts[at], self.stops[at]
            if now + left <= begin:
                break
            if begin > now:
                left -= begin - now
                now = begin
            free = self._free(mine, self.demands[at])
            if left <= (end - now) * free:
                return now + left / free
            left -= (end - now) * free
            now = max(now, end)
        return now + left

    def _free(self, mine: Demand, theirs: Demand) -> float:
        """Share of its pace that an engine keeps beside another."""
        free = (1 - _met(mine.reads, theirs.reads)) * (1 - _met(mine.writes, theirs.writes))
        free = min(1.0, mine.acc_slack * free)
        met = min(0.9, mine.banks * theirs.taken / self.banks)
        out_met = min(0.9, mine.out_banks * theirs.taken / self.banks)
        # A result waits if its bank is taken, and was when the one before it came.
        out_met *= out_met
        # What waits for one memory leaves the other alone.
        return min(free, mine.slack * (1 - met), mine.out_slack * (1 - out_met))


def _met(mine: Shares, theirs: Shares) -> float:
    """How likely both ask for the same bank in a cycle."""
    return sum(a * b for a, b in zip(mine, theirs)) if mine and theirs else 0.0  # noqa: B905

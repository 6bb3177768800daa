"""Stage `list-scheduling`: instructions of neighbouring layers in the order in which they can run.

Emitters write one layer after the other, but the engines need not wait for a layer to end: a
depthwise layer can follow the channels of the convolution before it. Engines take instructions in
program order, so the order is made by playing the program on a simple model of the engines:
instructions start when their engine is free and what they depend on is far enough that they need
not wait for it any more (or, in half of the plays, has ended). On each engine the
instructions of a layer keep their order; those of layers that run at the same time mix as they
become ready, earlier layers first. Of other layers mix what a `Freedom` says. The program is played
with each of FREEDOMS, where layers overlap also with what `_rank` prefers, and the order that ends
first is taken. A product beside a fused elementwise layer waits for its turn on the matrix engine:
what the other needs goes first, and the program has its instructions a little ahead of that order
(`hand_ahead`), and LOADs behind it.
"""

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from spec.config import NpuConfig
from spec.isa import Engine, Space
from sw.compiler.kernels.budget import MemoryBudget, Overlap
from sw.compiler.machine.costs import READY, RESULT_LATENCY
from sw.compiler.program.accesses import sequencer
from sw.compiler.program.contention import banks_added_up, banks_read
from sw.compiler.program.cycles import busy_cycles
from sw.compiler.program.dependences import predecessors
from sw.compiler.program.hand_ahead import hand_ahead, late_loads
from sw.compiler.program.merge_loads import merge_loads
from sw.compiler.program.records import Load
from sw.compiler.program.virtual import Access, VirtualInstruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Freedom:
    """Which instructions of layers that follow one another may change places.

    `engines`: on these, those of different layers. `tables`: a LOAD of a TABLE or of parameters
    need not keep its place among the loads of data, in layers of up to so many TABLEs.
    """

    engines: frozenset[Engine]
    tables: int = 0


# A TABLE can be loaded only when the layer before looks up no more. Weights that wait behind such a
# LOAD keep the array waiting. But where TABLEs replace each other in every tile, a long LOAD of
# weights that goes first keeps all of that layer waiting.
FREEDOMS = (
    Freedom(engines=frozenset({Engine.VECTOR})),
    Freedom(engines=frozenset({Engine.VECTOR, Engine.STORE}), tables=1),
    Freedom(engines=frozenset({Engine.VECTOR, Engine.STORE}), tables=99),
    Freedom(engines=frozenset({Engine.VECTOR, Engine.STORE, Engine.LOAD}), tables=99),
)
"""The orders that are compared; the first of those that end together is taken."""


def list_schedule(
    instructions: Sequence[VirtualInstruction],
    budgets: Sequence[MemoryBudget],
    config: NpuConfig,
    freedoms: Sequence[Freedom] = FREEDOMS,
) -> list[VirtualInstruction]:
    """The instructions in the order of their start. `budgets`: of the layers."""
    busy = [busy_cycles(instruction, config) for instruction in instructions]
    engines = [instruction.engine for instruction in instructions]
    met = _Met.of(instructions, config)
    leads = predecessors(instructions, busy, _order)
    for engine, wanted in zip(engines, leads, strict=True):
        # An engine orders its own instructions: the next need only start behind this one.
        wanted.update({j: math.inf for j in wanted if engines[j] is engine})
    # As if nothing could begin beside what it waits for: such an order is better now and then.
    whole = [{j: lead if lead == math.inf else 0.0 for j, lead in x.items()} for x in leads]
    sequences, rankings = _rules(instructions, budgets, freedoms)
    orders = [
        _play(engines, busy, before, sequence, ranking, banks)
        for before in (leads, whole)
        for sequence in sequences
        for ranking in rankings
        for banks in met.with_none()
    ]
    timed = [_timed(order, engines, busy, leads, met) for order in orders]
    best = min(range(len(orders)), key=lambda k: timed[k].end)
    near = _beside(budgets)
    ahead = [near[instruction.layer] for instruction in instructions]
    starts = late_loads(orders[best], engines, timed[best].starts, busy, leads)
    order = hand_ahead(orders[best], engines, starts, leads, ahead)
    return merge_loads(order, instructions, leads)


def _rules(
    instructions: Sequence[VirtualInstruction],
    budgets: Sequence[MemoryBudget],
    freedoms: Sequence[Freedom],
) -> tuple[list[list[Hashable]], list[list[int]]]:
    """The sequences and the ranks that orders are made with."""
    products = frozenset(x.layer for x in instructions if x.engine is Engine.MATRIX)
    beside = _products_beside(budgets, products)
    ranks = [
        _rank(x, budgets[x.layer], x.layer in products, x.layer in beside) for x in instructions
    ]
    sequences: list[list[Hashable]] = []
    for freedom in freedoms:
        found = _sequences(instructions, budgets, freedom, beside)
        # Some freedoms are none here.
        if found not in sequences:
            sequences.append(found)
    # The order of the program, where nothing can start sooner, is better now and then, too.
    return sequences, [ranks] if not any(ranks) else [ranks, [0] * len(ranks)]


def _beside(budgets: Sequence[MemoryBudget]) -> list[bool]:
    """Of each layer, whether it or a neighbour follows another tile by tile."""
    follows = [budget.overlap is Overlap.TILES for budget in budgets]
    return [any(follows[max(0, i - 1) : i + 2]) for i in range(len(follows))]


@dataclass(frozen=True, slots=True)
class _Met:
    """By instruction, the banks of the accumulator that a MATRIX adds up in, or a VECTOR reads.

    The array goes first at a bank, and leaves it hardly a cycle.
    """

    adds: Sequence[frozenset[int]]
    reads: Sequence[frozenset[int]]

    @staticmethod
    def of(instructions: Sequence[VirtualInstruction], config: NpuConfig) -> "_Met":
        return _Met(
            [banks_added_up(instruction, config) for instruction in instructions],
            [banks_read(instruction, config) for instruction in instructions],
        )

    def with_none(self) -> Sequence["_Met"]:
        """These, if there are any, and as if every bank were free."""
        none = _Met(self.adds, [frozenset()] * len(self.reads))
        return (self, none) if any(self.reads) else (none,)

    def leaves(self, number: int, product: int, free: float) -> float:
        """When a VECTOR can read its bank. The array computes `product` until `free`; −1: none."""
        if product < 0 or len(self.adds[product]) > 1:
            return 0.0
        return free if self.adds[product] == self.reads[number] else 0.0


class _Timed(NamedTuple):
    """When each instruction of an order starts, by number, and when the last result is there."""

    starts: list[float]
    end: float


def _timed(
    order: Sequence[int],
    engines: Sequence[Engine],
    busy: Sequence[float],
    leads: Sequence[Mapping[int, float]],
    met: _Met,
) -> _Timed:
    """The times of an order on the model of the engines."""
    starts, ends = [0.0] * len(order), [0.0] * len(order)
    free: dict[Engine, float] = defaultdict(float)
    product = -1
    for i in order:
        engine = engines[i]
        start = free[engine]
        if engine is Engine.MATRIX:
            product = i
        elif met.reads[i]:
            start = max(start, met.leaves(i, product, free[Engine.MATRIX]))
        for j, lead in leads[i].items():
            start = max(start, starts[j], ends[j] - lead)
        starts[i] = start
        free[engine] = start + busy[i]
        ends[i] = free[engine] + RESULT_LATENCY.get(engine, READY)
    return _Timed(starts, max(ends, default=0.0))


def _play(
    engines: Sequence[Engine],
    busy: Sequence[float],
    before: Sequence[Mapping[int, float]],
    sequences: Sequence[Hashable],
    ranks: Sequence[int],
    met: _Met,
) -> list[int]:
    """The numbers of the instructions in the order of their start. `before`: what each depends on,
    by number, and its lead; `sequences`: those of equal ones keep their order. `ranks`: of
    instructions that could start together the lowest goes first. `met`: banks that they wait for.
    """
    after, missing = _successors(before, sequences)
    ready = [0.0] * len(engines)
    free: dict[Engine, float] = defaultdict(float)
    # By the cycle in which each could start; the earlier one in the program goes first.
    heap = [(0.0, ranks[i], i) for i, count in enumerate(missing) if not count]
    heapq.heapify(heap)
    order: list[int] = []
    product = -1
    while heap:
        start, rank, i = heapq.heappop(heap)
        engine = engines[i]
        soonest = max(ready[i], free[engine])
        if met.reads[i]:
            soonest = max(soonest, met.leaves(i, product, free[Engine.MATRIX]))
        if soonest > start:
            # Another instruction has taken the engine since this one was filed.
            heapq.heappush(heap, (soonest, rank, i))
            continue
        order.append(i)
        if engine is Engine.MATRIX:
            product = i
        free[engine] = soonest + busy[i]
        ends = free[engine] + RESULT_LATENCY.get(engine, READY)
        for j, lead in after[i].items():
            ready[j] = max(ready[j], soonest, ends - lead)
            missing[j] -= 1
            if not missing[j]:
                heapq.heappush(heap, (max(ready[j], free[engines[j]]), ranks[j], j))
    # Dependences only point backwards, so nothing can be left over.
    assert len(order) == len(engines)
    return order


def _successors(
    before: Sequence[Mapping[int, float]], sequences: Sequence[Hashable]
) -> tuple[dict[int, dict[int, float]], list[int]]:
    """(what waits for each instruction, by number, and its lead; for how many each one waits)."""
    after: dict[int, dict[int, float]] = defaultdict(dict)
    for i, wanted in enumerate(before):
        for j, lead in wanted.items():
            after[j][i] = lead
    missing = [len(wanted) for wanted in before]
    latest: dict[Hashable, int] = {}
    for i, key in enumerate(sequences):
        # Besides its dependences an instruction waits for its predecessor in its sequence.
        if key in latest and i not in after[latest[key]]:
            after[latest[key]][i] = math.inf
            missing[i] += 1
        latest[key] = i
    return after, missing


def _sequences(
    instructions: Sequence[VirtualInstruction],
    budgets: Sequence[MemoryBudget],
    freedom: Freedom,
    beside: Collection[int],
) -> list[Hashable]:
    """The sequence of each instruction: its engine, its layer if layers mix, a kind of LOAD.

    beside: products beside layers that have one of their own. They mix with it on the array.
    """
    tables = Counter(x.layer for x in instructions if _space(x) is Space.TABLE)
    return [
        (
            x.engine,
            x.layer if x.layer in beside or _mixes(x, budgets[x.layer], freedom) else -1,
            freedom.tables > 0
            and tables[x.layer] <= freedom.tables
            and _space(x) in (Space.TABLE, Space.PARAM),
        )
        for x in instructions
    ]


def _products_beside(budgets: Sequence[MemoryBudget], products: Collection[int]) -> set[int]:
    """Layers behind one with a product of its own that they run concurrently with."""
    found: set[int] = set()
    for i, pair in enumerate(pairwise(budgets)):
        together = all(budget.overlap is Overlap.CONCURRENT for budget in pair)
        # Such layers come in pairs: the second of one is not the first of the next.
        if together and i in products and i + 1 in products and i not in found:
            found.add(i + 1)
    return found


def _rank(
    instruction: VirtualInstruction, budget: MemoryBudget, product: bool, beside: bool
) -> int:
    """Which of several instructions an engine should take first, the lowest.

    Where layers take turns, each engine first does what the other works on for longer. Where a
    product and another layer follow one another, its epilogue goes first: the array waits for it.
    So it does of a product `beside` one that has its own.
    """
    if beside:
        return -int(instruction.engine is Engine.VECTOR)
    if budget.overlap is Overlap.TILES:
        return int(instruction.engine is Engine.VECTOR and not product)
    if budget.overlap is not Overlap.TURNS:
        return 0
    long_epilogue = budget.other_banks
    return int(long_epilogue if instruction.engine is Engine.VECTOR else not long_epilogue)


def _order(instruction: VirtualInstruction, access: Access) -> Hashable:
    """What keeps its order with every freedom: the accesses of a sequencer in a layer, of one kind
    of LOAD.
    """
    values = _space(instruction) in (Space.TABLE, Space.PARAM)
    return sequencer(instruction, access), instruction.layer, values


def _space(instruction: VirtualInstruction) -> Space | None:
    """Where a LOAD writes."""
    record = instruction.record
    return record.space if isinstance(record, Load) else None


def _mixes(instruction: VirtualInstruction, budget: MemoryBudget, freedom: Freedom) -> bool:
    """Whether instructions of other layers may come between it and its predecessor."""
    if instruction.engine is Engine.MATRIX and budget.overlap is Overlap.CONCURRENT:
        return False
    return instruction.engine in freedom.engines or budget.concurrent

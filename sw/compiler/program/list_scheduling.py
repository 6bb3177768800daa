"""Stage `list-scheduling`: instructions of neighbouring layers in the order in which they can run.

Emitters write one layer after the other, but the engines need not wait for a layer to end: a
depthwise layer can follow the channels of the convolution before it. Engines take instructions in
program order, so the order is made by playing the program on a simple model of the engines:
instructions start when their engine is free and what they depend on has ended. On each engine the
instructions of a layer keep their order; those of layers that run at the same time mix as they
become ready, earlier layers first. Other layers mix on the vector engine only. A product beside a
fused elementwise layer waits for its turn on the matrix engine: what the other needs goes first.
"""

import heapq
from collections import defaultdict
from collections.abc import Hashable, Sequence

from spec.config import NpuConfig
from spec.isa import Engine
from sw.compiler.kernels.budget import MemoryBudget, Overlap
from sw.compiler.machine.costs import READY, RESULT_LATENCY
from sw.compiler.program.cycles import busy_cycles
from sw.compiler.program.dependences import predecessors
from sw.compiler.program.virtual import VirtualInstruction


def list_schedule(
    nodes: Sequence[VirtualInstruction], budgets: Sequence[MemoryBudget], config: NpuConfig
) -> list[VirtualInstruction]:
    """The instructions in the order of their start. `budgets`: of the layers."""
    after, missing = _successors(nodes, budgets)
    ready = [0.0] * len(nodes)
    free: dict[Engine, float] = defaultdict(float)
    # By the cycle in which each could start; the earlier one in the program goes first.
    heap = [(0.0, i) for i, count in enumerate(missing) if not count]
    heapq.heapify(heap)
    order: list[VirtualInstruction] = []
    while heap:
        start, i = heapq.heappop(heap)
        node = nodes[i]
        soonest = max(ready[i], free[node.engine])
        if soonest > start:
            # Another instruction has taken the engine since this one was filed.
            heapq.heappush(heap, (soonest, i))
            continue
        order.append(node)
        free[node.engine] = soonest + busy_cycles(node, config)
        ends = free[node.engine] + RESULT_LATENCY.get(node.engine, READY)
        for j in after[i]:
            # An engine orders its own instructions: the next need only start behind this one.
            same = nodes[j].engine is node.engine
            ready[j] = max(ready[j], soonest if same else ends)
            missing[j] -= 1
            if not missing[j]:
                heapq.heappush(heap, (max(ready[j], free[nodes[j].engine]), j))
    # Dependences only point backwards, so nothing can be left over.
    assert len(order) == len(nodes)
    return order


def _successors(
    nodes: Sequence[VirtualInstruction], budgets: Sequence[MemoryBudget]
) -> tuple[dict[int, list[int]], list[int]]:
    """(what waits for each instruction, by number; for how many each one waits)."""
    before = predecessors(nodes)
    after: dict[int, list[int]] = defaultdict(list)
    for i, wanted in enumerate(before):
        for j in wanted:
            after[j].append(i)
    missing = [len(wanted) for wanted in before]
    latest: dict[Hashable, int] = {}
    for i, node in enumerate(nodes):
        # Besides its dependences an instruction waits for its predecessor in its sequence.
        key = (node.engine, node.layer if _mixes(node, budgets[node.layer]) else -1)
        if key in latest:
            after[latest[key]].append(i)
            missing[i] += 1
        latest[key] = i
    return after, missing


def _mixes(node: VirtualInstruction, budget: MemoryBudget) -> bool:
    """Whether instructions of other layers may come between it and its predecessor."""
    if node.engine is Engine.MATRIX and budget.overlap is Overlap.CONCURRENT:
        return False
    return node.engine is Engine.VECTOR or budget.concurrent

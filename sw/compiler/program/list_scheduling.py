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
    instructions: Sequence[VirtualInstruction], budgets: Sequence[MemoryBudget], config: NpuConfig
) -> list[VirtualInstruction]:
    """The instructions in the order of their start. `budgets`: of the layers."""
    after, missing = _successors(instructions, budgets)
    ready = [0.0] * len(instructions)
    free: dict[Engine, float] = defaultdict(float)
    # By the cycle in which each could start; the earlier one in the program goes first.
    heap = [(0.0, i) for i, count in enumerate(missing) if not count]
    heapq.heapify(heap)
    order: list[VirtualInstruction] = []
    while heap:
        start, i = heapq.heappop(heap)
        instruction = instructions[i]
        soonest = max(ready[i], free[instruction.engine])
        if soonest > start:
            # Another instruction has taken the engine since this one was filed.
            heapq.heappush(heap, (soonest, i))
            continue
        order.append(instruction)
        free[instruction.engine] = soonest + busy_cycles(instruction, config)
        ends = free[instruction.engine] + RESULT_LATENCY.get(instruction.engine, READY)
        for j in after[i]:
            # An engine orders its own instructions: the next need only start behind this one.
            same = instructions[j].engine is instruction.engine
            ready[j] = max(ready[j], soonest if same else ends)
            missing[j] -= 1
            if not missing[j]:
                heapq.heappush(heap, (max(ready[j], free[instructions[j].engine]), j))
    # Dependences only point backwards, so nothing can be left over.
    assert len(order) == len(instructions)
    return order


def _successors(
    instructions: Sequence[VirtualInstruction], budgets: Sequence[MemoryBudget]
) -> tuple[dict[int, list[int]], list[int]]:
    """(what waits for each instruction, by number; for how many each one waits)."""
    before = predecessors(instructions)
    after: dict[int, list[int]] = defaultdict(list)
    for i, wanted in enumerate(before):
        for j in wanted:
            after[j].append(i)
    missing = [len(wanted) for wanted in before]
    latest: dict[Hashable, int] = {}
    for i, instruction in enumerate(instructions):
        # Besides its dependences an instruction waits for its predecessor in its sequence.
        key = (
            instruction.engine,
            instruction.layer if _mixes(instruction, budgets[instruction.layer]) else -1,
        )
        if key in latest:
            after[latest[key]].append(i)
            missing[i] += 1
        latest[key] = i
    return after, missing


def _mixes(instruction: VirtualInstruction, budget: MemoryBudget) -> bool:
    """Whether instructions of other layers may come between it and its predecessor."""
    if instruction.engine is Engine.MATRIX and budget.overlap is Overlap.CONCURRENT:
        return False
    return instruction.engine is Engine.VECTOR or budget.concurrent

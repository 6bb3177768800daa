"""Stage `interleave`: nodes of neighbouring layers in the order in which they can run.

The schedules write one layer after the other, but the engines need not wait for a layer to end: a
depthwise layer can follow the channels of the convolution before it. Engines take instructions in
program order, so the order is made by playing the program on a simple model of the engines: nodes
start when their engine is free and what they depend on has ended. On each engine the nodes of a
layer keep their order; those of layers that run at the same time mix as they become ready, earlier
layers first. Other layers mix on the vector engine only. A product beside a chain waits for its
turn on the matrix engine: what the chain needs goes first.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from spec.config import NpuConfig
from spec.isa import Alu, DType, Engine, Opcode, Scale, Space, reads_b
from sw.compiler.kernels.budget import MemoryBudget, Overlap
from sw.compiler.machine.costs import READY, RESULT_LATENCY
from sw.compiler.program.draft import Draft, Node, iterations
from sw.compiler.program.ordering import dependencies


def interleave(draft: Draft, budgets: Sequence[MemoryBudget], config: NpuConfig) -> None:
    """Put the nodes of `draft` in the order of their start. `budgets`: of the layers."""
    nodes = draft.nodes
    before = dependencies(draft)
    after: dict[int, list[int]] = defaultdict(list)
    for i, wanted in enumerate(before):
        for j in wanted:
            after[j].append(i)
    # What a node still waits for: its dependencies, and its predecessor in its sequence.
    missing = [len(wanted) for wanted in before]
    latest: dict[Hashable, int] = {}
    for i, node in enumerate(nodes):
        budget = budgets[node.layer]
        mixes = node.engine is Engine.VECTOR or budget.concurrent
        if node.engine is Engine.MATRIX and budget.overlap is Overlap.CONCURRENT:
            mixes = False
        key = (node.engine, node.layer if mixes else -1)
        if key in latest:
            after[latest[key]].append(i)
            missing[i] += 1
        latest[key] = i
    ready = [0.0] * len(nodes)
    free: dict[Engine, float] = defaultdict(float)
    heap = [(0.0, i) for i, count in enumerate(missing) if not count]
    heapq.heapify(heap)
    order: list[Node] = []
    while heap:
        start, i = heapq.heappop(heap)
        node = nodes[i]
        soonest = max(ready[i], free[node.engine])
        if soonest > start:
            heapq.heappush(heap, (soonest, i))
            continue
        order.append(node)
        free[node.engine] = soonest + node_cycles(node, config)
        ends = free[node.engine] + RESULT_LATENCY.get(node.engine, READY)
        for j in after[i]:
            same = nodes[j].engine is node.engine
            ready[j] = max(ready[j], soonest if same else ends)
            missing[j] -= 1
            if not missing[j]:
                heapq.heappush(heap, (max(ready[j], free[nodes[j].engine]), j))
    assert len(order) == len(nodes)
    draft.nodes[:] = order


def node_cycles(node: Node, config: NpuConfig) -> float:
    """About how long a node keeps its engine busy."""
    values, loops = node.values, node.values["loop"]
    steps = iterations(loops, len(loops))
    if node.opcode in (Opcode.LOAD, Opcode.STORE):
        return steps * max(1.0, values["run"] / config.bus_bytes)
    if node.opcode is Opcode.MATRIX:
        folds = iterations(loops, values["fold_loops"])
        return max(steps, folds * (config.cols if values.get("transposed") else config.rows))
    if node.opcode is Opcode.DEPTHWISE:
        columns = (values["outputs"] - 1) * values["stride"] + values["kernel_cols"]
        return float(steps * columns * values["kernel_rows"])
    same = all(node.bases.get(x) is node.bases.get("a_base") for x in ("a_base", "b_base"))
    same = same and values.get("a_base", 0) == values.get("b_base", 0)
    same = same and all(loop.get("a", 0) == loop.get("b", 0) for loop in loops)
    return vector_cycles(values, config, same=same)


def vector_cycles(values: Mapping[str, Any], config: NpuConfig, *, same: bool = False) -> float:
    """Cycles of a VECTOR: each step takes as many as the widest of A, B and result has words.

    In a reduction only its last step writes. `same`: B is A, whose words are then read twice.
    """
    loops = values["loop"]
    lanes = values.get("lanes", config.cols)
    reduces = bool(values.get("reduce"))
    chosen = values.get("reduce_loops", 0) if reduces else 0
    counts = [loop.get("count", 1) for loop in loops]
    written = math.prod(n for i, n in enumerate(counts) if not chosen >> i & 1)
    fields = {"alu": Alu.PASS, "a_scale": Scale.OFF, "b_none": 0, **values}
    with_b = reads_b(fields)
    read = max(
        _words(values, "a", lanes, config),
        _words(values, "b", lanes, config) if with_b else 1,
    )
    if same and with_b and values.get("a_space", Space.SPAD) is not Space.ACC:
        read *= 2
    write = _words(values, "o", lanes, config)
    return float(max(math.prod(counts) * read, written * write))


def _words(values: Mapping[str, Any], stream: str, lanes: int, config: NpuConfig) -> int:
    """Words of a vector of A, B or the result; the accumulator has it in one."""
    if values.get(f"{stream}_space", Space.SPAD) is Space.ACC:
        return 1
    one = values.get("reduce_lanes") if stream == "o" else values.get(f"{stream}_one")
    size = DType(values.get(f"{stream}_type", DType.I8)).bytes * (1 if one else lanes)
    return -(-size // config.word_bytes)

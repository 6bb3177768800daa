"""Cost model of layers that only the vector engine computes.

Cycles: the busiest of the vector engine, the load engine and the store engine, or the buffers in
which tiles come and go; plus the first load and the last store, which nothing hides.
"""

import math

from spec.config import NpuConfig
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.vector.plan import VectorPlan, tile_count
from sw.compiler.kernels.vector.work import VectorWork
from sw.compiler.machine.costs import HANDOVER, MEMORY_LATENCY


def vector_cost(
    work: VectorWork, config: NpuConfig, budget: MemoryBudget, plan: VectorPlan
) -> tuple[int, int]:
    """(cycles, bytes moved)."""
    out = work.out
    n, h, w, c = out.shape
    vectors = -(-c * w // config.cols) if plan.flat else w * -(-c // config.cols)
    tiles = tile_count(work, plan)
    steps = n * h * vectors * work.cycles + work.tile_cycles * tiles
    load = sum(
        tiles * work.pixels(plan.th, plan.tw) * plan.tc * v.item
        # Each tile loads all that its windows reach, also what its neighbours load.
        if work.overlapping
        else math.prod(v.shape) * v.item
        for v in work.ins
        if v.tensor not in budget.held
    )
    store = 0 if out.tensor in budget.held else math.prod(out.shape) * out.item
    cycles = max(steps, load / config.bus_bytes, store / config.bus_bytes)
    # A buffer is free again when its tile has come, or gone, and was computed.
    for moved in filter(None, (load, store)):
        turn = steps + moved / config.bus_bytes + tiles * (MEMORY_LATENCY + HANDOVER)
        cycles = max(cycles, turn / plan.slots)
    # Of the first load and the last store nothing is hidden, nor of the way to memory.
    if load:
        cycles += load / tiles / config.bus_bytes + MEMORY_LATENCY
    if store:
        cycles += store / tiles / config.bus_bytes + 2 * MEMORY_LATENCY
    return math.ceil(cycles + HANDOVER), load + store

"""Tile search for pools: windows that overlap make tiles of few rows read much twice."""

from collections.abc import Iterator
from dataclasses import replace

from spec.config import NpuConfig
from spec.isa import Scale
from sw.compiler.kernels.boxes import halvings
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.pool.cost import tile_cycles, window_cycles
from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.kernels.vector.cost import vector_cost
from sw.compiler.kernels.vector.plan import VectorPlan, fitting, no_tile_fits, sized, tile_count
from sw.compiler.kernels.vector.work import VectorWork


def pool_work(layer: PoolLayer, config: NpuConfig) -> VectorWork:
    """The layer as the vector engine's tile search sees it."""
    return VectorWork(
        ins=(layer.input,),
        out=layer.output,
        per_channel=layer.epilogue.scale is Scale.CHANNEL,
        cycles=window_cycles(layer, config),
        tile_cycles=tile_cycles(layer, config),
        separate=layer.is_separate(config.cols),
        overlapping=True,
        kernel=layer.kernel,
        stride=layer.stride,
        pad=layer.pad,
    )


def plan_pool(layer: PoolLayer, config: NpuConfig, budget: MemoryBudget) -> VectorPlan:
    """The fastest plan that fits in `budget`; `CompileError` if not even the smallest does."""
    work = pool_work(layer, config)
    first = fitting(work, config, budget)
    if first is None:
        raise no_tile_fits(layer, budget)
    # The first that fits does not count what windows of neighbouring tiles read twice: the cost
    # of others with higher or lower tiles may be less.
    plans = [first, *_whole_rows(work, config, budget)]
    costs = [vector_cost(work, config, budget, plan) for plan in plans]
    held = layer.input.tensor in budget.held

    def rank(pair: tuple[tuple[int, int], VectorPlan]) -> tuple[float, int]:
        # On chip the first tile begins when the layer before has made what it reads: that layer
        # runs beside all tiles but the last.
        (cycles, traffic), plan = pair
        return cycles * (1 + held / tile_count(work, plan)), traffic

    (cycles, traffic), plan = min(zip(costs, plans, strict=True), key=rank)
    # Parameters change with the channels: such layers keep their order.
    row_order = budget.row_order and not work.per_channel
    return replace(plan, cycles=cycles, traffic=traffic, row_order=row_order)


def _whole_rows(work: VectorWork, config: NpuConfig, budget: MemoryBudget) -> Iterator[VectorPlan]:
    """Tiles of whole rows, few or many, of all channels or some, that fit twice."""
    _, h, w, c = work.out.shape
    for tc in halvings(c, config.cols):
        for th in halvings(h, 1):
            plan = sized(work, config, budget, (th, w, tc), 2)
            if plan.spad_bytes <= budget.buffer_bytes:
                yield plan

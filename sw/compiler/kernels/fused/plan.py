"""Tile search of fused elementwise layers, with and without registers in the accumulator."""

import math
from collections.abc import Sequence
from dataclasses import replace

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import LONG_FOLD, MemoryBudget
from sw.compiler.kernels.fused.cost import fused_cost
from sw.compiler.kernels.fused.layer import FusedLayer, Product
from sw.compiler.kernels.fused.plan_blocks import plan_blocks
from sw.compiler.kernels.fused.sizes import MAX_EXTENT, fits, on_chip_registers, sized
from sw.compiler.kernels.fused.tiles import FusedPlan
from sw.compiler.machine.costs import weight_cycles

PIECES = (4, 8, 16)
"""Tiles that a layer is cut into, if not too small, so that load, compute and store overlap."""


ABREAST = 2
"""Tiles that pass each step one after another: a step of one hides the latency of the other's."""

SHORT_ROW = 4
"""Vectors of a row up to which they do, where there is no product. Two tiles of long rows have few
rows each, and products that follow them tile by tile read their weights more often."""


def plan_fused(layer: FusedLayer, config: NpuConfig, budget: MemoryBudget) -> FusedPlan:
    """The cheapest tiles that fit, twice if possible; `CompileError` if none fits."""
    found = []
    for acc in _places(layer):
        # Two buffers overlap loads with steps; one is for layers that would not fit otherwise.
        for count in (2, 1):
            fitting = [
                plan
                for abreast in (1, ABREAST)
                for pieces in PIECES
                if (plan := _largest(layer, config, budget, count, pieces, acc, abreast))
                and (abreast == 1 or _may_pass_abreast(layer, config, plan))
            ]
            found += [_costed(layer, config, plan) for plan in fitting]
            if fitting:
                break
    if layer.product is not None and not _fills_array(layer, layer.product, config, found):
        found += plan_blocks(layer, config, budget)
    if found:
        best = min(found, key=lambda plan: plan.cycles)
        return replace(best, entries=budget.param_entries(config, product=False))
    raise CompileError(
        f"no tile of {list(layer.shape)} fits in {budget.buffer_bytes} bytes of scratchpad",
        node=layer.name,
        source=layer.source,
        hint="use a configuration with a larger scratchpad",
    )


def _may_pass_abreast(layer: FusedLayer, config: NpuConfig, plan: FusedPlan) -> bool:
    """Whether rows are short, or each tile's product has folds as long as `LONG_FOLD` asks for, or
    all rows that there are.
    """
    if layer.product is None:
        return layer.shape[-1] <= SHORT_ROW * config.cols
    enough = LONG_FOLD * weight_cycles(config, layer.product.transposed)
    return plan.tile[-2] >= min(layer.shape[-2], enough)


def _fills_array(
    layer: FusedLayer, product: Product, config: NpuConfig, plans: Sequence[FusedPlan]
) -> bool:
    """Whether a tile has as many rows as keep the array busy, or all that there are.

    A fold takes as long as its weights: of fewer rows the array may as well compute blocks twice.
    """
    enough = min(layer.shape[-2], weight_cycles(config, product.transposed))
    return any(plan.tile[-2] >= enough for plan in plans)


def _places(layer: FusedLayer) -> tuple[bool, ...]:
    """Whether registers may lie in the accumulator, and whether they must."""
    if layer.product is not None:
        return (True,)
    return (True, False) if any(r.acc for r in layer.registers) else (False,)


def _largest(
    layer: FusedLayer,
    config: NpuConfig,
    budget: MemoryBudget,
    count: int,
    pieces: int,
    acc: bool,
    abreast: int,
) -> FusedPlan | None:
    """A tile that grows from the innermost dimension outwards until the budget is used up."""
    tile = [size if d in layer.whole else 1 for d, size in enumerate(layer.shape)]
    # Each step waits for the one before: tiles of fewer vectors would mostly wait.
    target = max(math.prod(layer.shape) // pieces, 64 * config.cols)
    on_chip = on_chip_registers(layer, budget)

    def may_have(d: int, n: int) -> bool:
        grown = (*tile[:d], n, *tile[d + 1 :])
        return fits(sized(layer, config, grown, count, acc, on_chip, abreast), config, budget)

    if not may_have(0, tile[0]):
        return None
    for d in reversed(range(len(tile))):
        if d in layer.whole or (layer.product is not None and d < len(tile) - 2):
            continue
        # Bytes grow with the extent: halving finds the largest that fits.
        low, high = 1, min(layer.shape[d], MAX_EXTENT)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if may_have(d, middle) else (low, middle - 1)
        enough = -(-target // math.prod(tile))
        n = min(low, max(enough, config.cols if d == len(tile) - 1 else 1))
        # Whole vectors: a remainder would cost a step of few lanes in every tile.
        if n < layer.shape[d] and n > config.cols:
            n -= n % config.cols
        tile[d] = n
        if n < layer.shape[d]:
            break
    return sized(layer, config, tuple(tile), count, acc, on_chip, abreast)


def _costed(layer: FusedLayer, config: NpuConfig, plan: FusedPlan) -> FusedPlan:
    cycles, traffic = fused_cost(layer, config, plan)
    return replace(plan, cycles=cycles, traffic=traffic)

"""What lowering asks the tilers before it decides: whether a layer would fit on chip at all.

Lowering runs before residency has chosen what each layer may use, so a budget must be assumed. A
fused layer is asked for in a third of the scratchpad: the rest is for tensors that stay on chip. A
pool is asked for in all of it, because a pool that does not fit there cannot be computed in one
layer, whatever stays on chip. Only whether a plan exists counts; the plan itself is made later.
"""

import math

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.fused.plan import plan_fused
from sw.compiler.kernels.layers import PoolLayer
from sw.compiler.kernels.pool.plan import plan_pool

FUSED_SHARE = 3
"""A fused layer must fit in this part (1/FUSED_SHARE) of the scratchpad."""

SMALL_WINDOW = 1024
"""Bytes of a window of one lane block that surely fit: the tiler need not be asked."""


def fused_fits(layer: FusedLayer, config: NpuConfig) -> bool:
    """Whether a tile of the fused layer fits in its assumed share."""
    try:
        plan_fused(layer, config, MemoryBudget(config.spad_bytes // FUSED_SHARE))
    except CompileError:
        return False
    return True


def row_fits(size: int, config: NpuConfig) -> bool:
    """Whether `size` int32 elements, which a tile holds whole, fit twice in that share."""
    return 4 * size <= config.spad_bytes // (2 * FUSED_SHARE)


def pool_fits(layer: PoolLayer, config: NpuConfig) -> bool:
    """Whether every part of the pool has a plan in the whole scratchpad."""
    if math.prod(layer.kernel) * min(layer.input.shape[3], config.cols) < SMALL_WINDOW:
        return True
    for part in layer.split():
        try:
            plan_pool(part, config, MemoryBudget.whole(config))
        except CompileError:
            return False
    return True

"""Search for blocks of columns of a fused layer with a product, whose rows pass block by block."""

from collections.abc import Iterator
from dataclasses import replace

from spec.config import NpuConfig
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.fused.blocks import RowBlocks, row_blocks
from sw.compiler.kernels.fused.cost_blocks import blocks_cost
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.fused.sizes import MAX_EXTENT, fits, on_chip_registers, sized
from sw.compiler.kernels.fused.tiles import FusedPlan
from sw.compiler.machine.costs import weight_cycles

MAX_BLOCKS = 256
"""Blocks of a row, at most."""


def plan_blocks(layer: FusedLayer, config: NpuConfig, budget: MemoryBudget) -> list[FusedPlan]:
    """The plans that fit, with their cycles: for each width of a block and number of buffers of
    the right operand that with the most rows.
    """
    rows = row_blocks(layer)
    if rows is None:
        return []
    out = []
    for width in _widths(layer.shape[-1], config.cols):
        count = -(-layer.shape[-1] // width)
        # With one buffer more than blocks the next image can begin; two bring blocks again and
        # again.
        for rights in {count + 1, count, min(count, 3), 2}:
            for plan in _with_rows(rows, config, budget, width, rights):
                cycles, traffic = blocks_cost(rows, config, plan)
                out.append(replace(plan, cycles=cycles, traffic=traffic))
    return out


def _widths(size: int, cols: int) -> Iterator[int]:
    """Columns of blocks: whole vectors, of which rows have as equal a number as can be."""
    vectors, last = -(-size // cols), 0
    for count in range(2, min(vectors, MAX_BLOCKS) + 1):
        width = -(-vectors // count)
        if width != last:
            last = width
            yield width * cols


def _with_rows(
    rows: RowBlocks, config: NpuConfig, budget: MemoryBudget, width: int, rights: int
) -> Iterator[FusedPlan]:
    """Plans with as many rows as fit, and with whole folds of them."""

    def plan(n: int) -> FusedPlan:
        return _sized(rows, config, budget, n, width, rights)

    low, high = 0, min(rows.layer.shape[-2], MAX_EXTENT)
    while low < high:
        middle = (low + high + 1) // 2
        ok = fits(plan(middle), config, budget)
        low, high = (middle, high) if ok else (low, middle - 1)
    fold = weight_cycles(config)
    for n in {low, low - low % fold, low - low % config.cols} - {0}:
        yield plan(n)


def _sized(
    rows: RowBlocks, config: NpuConfig, budget: MemoryBudget, n: int, width: int, rights: int
) -> FusedPlan:
    layer = rows.layer
    assert layer.product is not None
    tile = (*(1 for _ in layer.shape[:-2]), n, width)
    plan = sized(layer, config, tile, 2, True, on_chip_registers(layer, budget))
    blocks, word = -(-layer.shape[-1] // width), config.word_bytes
    left, right = (-(-size // word) * word for size in layer.product.nbytes(tile))
    return replace(
        plan,
        nbytes=tuple(
            size * blocks if i in rows.partial else size for i, size in enumerate(plan.nbytes)
        ),
        operands=2 * left + rights * right,
        blocks=blocks,
        rights=rights,
    )

"""Tile search of fused elementwise layers, with and without registers in the accumulator."""

import math
from dataclasses import replace

from spec.config import NpuConfig
from spec.fields import field_of
from spec.isa import Opcode
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.fused.cost import fused_cost
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.fused.tiles import FusedPlan

PIECES = (4, 8, 16)
"""Tiles that a layer is cut into, if not too small, so that load, compute and store overlap."""

MAX_EXTENT = field_of(Opcode.VECTOR, "loop.count").maximum
"""Most elements along a dimension of a tile: a loop counts them."""


def plan_fused(layer: FusedLayer, config: NpuConfig, budget: MemoryBudget) -> FusedPlan:
    """The cheapest tiles that fit, twice if possible; `CompileError` if none fits."""
    found = []
    for acc in _places(layer):
        # Two buffers overlap loads with steps; one is for layers that would not fit otherwise.
        for count in (2, 1):
            fitting = [
                plan
                for pieces in PIECES
                if (plan := _largest(layer, config, budget, count, pieces, acc))
            ]
            found += [_costed(layer, config, plan) for plan in fitting]
            if fitting:
                break
    if found:
        return min(found, key=lambda plan: plan.cycles)
    raise CompileError(
        f"no tile of {list(layer.shape)} fits in {budget.buffer_bytes} bytes of scratchpad",
        node=layer.name,
        source=layer.source,
        hint="use a configuration with a larger scratchpad",
    )


def _places(layer: FusedLayer) -> tuple[bool, ...]:
    """Whether registers may lie in the accumulator, and whether they must."""
    if layer.product is not None:
        return (True,)
    return (True, False) if any(r.acc for r in layer.registers) else (False,)


def _on_chip(layer: FusedLayer, budget: MemoryBudget) -> frozenset[int]:
    """The registers whose tensors lie on chip."""
    sources = {i for i, s in enumerate(layer.sources) if s.tensor in budget.held}
    return frozenset(sources | {r.register for r in layer.results if r.view.tensor in budget.held})


def _sized(
    layer: FusedLayer,
    config: NpuConfig,
    tile: tuple[int, ...],
    count: int,
    acc: bool,
    on_chip: frozenset[int],
) -> FusedPlan:
    word = config.word_bytes
    moved = {*range(len(layer.sources)), *(r.register for r in layer.results)}
    product, operands = layer.product, 0
    if product is not None:
        moved.add(product.register)
        operands = sum(2 * -(-n // word) * word for n in product.nbytes(tile))
    # In the accumulator a row of few elements takes a whole vector, and a step of its own; in the
    # scratchpad such rows follow each other and are computed as one.
    wide = tile[-1] >= config.cols or product is not None
    held = [acc and r.acc and wide for r in layer.registers]
    pairs = list(zip(layer.registers, held, strict=True))
    slots = tuple(count if i in moved else 1 for i in range(len(pairs)))
    return FusedPlan(
        tile=tile,
        nbytes=tuple(
            0 if h or i in on_chip else word * _padded(-(-r.nbytes(tile) // word), n, config)
            for i, ((r, h), n) in enumerate(zip(pairs, slots, strict=True))
        ),
        slots=slots,
        vectors=tuple(r.vectors(tile, config.cols) if h else 0 for r, h in pairs),
        operands=operands,
        held=on_chip,
    )


def _padded(words: int, slots: int, config: NpuConfig) -> int:
    """Words of a buffer such that its neighbour begins in other banks: steps read A and B in the
    same cycles.
    """
    banks = config.banks
    for more in range(banks):
        apart = slots * (words + more)
        if 0 < config.bank_of(apart) <= banks // 2:
            return words + more
    return words


def _largest(
    layer: FusedLayer, config: NpuConfig, budget: MemoryBudget, count: int, pieces: int, acc: bool
) -> FusedPlan | None:
    """A tile that grows from the innermost dimension outwards until the budget is used up."""
    tile = [size if d in layer.whole else 1 for d, size in enumerate(layer.shape)]
    # Each step waits for the one before: tiles of fewer vectors would mostly wait.
    target = max(math.prod(layer.shape) // pieces, 64 * config.cols)
    on_chip = _on_chip(layer, budget)

    def fits(d: int, n: int) -> bool:
        grown = (*tile[:d], n, *tile[d + 1 :])
        plan = _sized(layer, config, grown, count, acc, on_chip)
        # A product beside it leaves it the last bank.
        vectors = config.acc_bank if budget.shares_acc else config.acc_vectors
        fit = plan.spad_bytes <= budget.buffer_bytes and plan.acc_vectors <= vectors
        return fit and math.prod(grown) <= MAX_EXTENT * config.cols // 2

    if not fits(0, tile[0]):
        return None
    for d in reversed(range(len(tile))):
        if d in layer.whole or (layer.product is not None and d < len(tile) - 2):
            continue
        # Bytes grow with the extent: halving finds the largest that fits.
        low, high = 1, min(layer.shape[d], MAX_EXTENT)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(d, middle) else (low, middle - 1)
        enough = -(-target // math.prod(tile))
        n = min(low, max(enough, config.cols if d == len(tile) - 1 else 1))
        # Whole vectors: a remainder would cost a step of few lanes in every tile.
        if n < layer.shape[d] and n > config.cols:
            n -= n % config.cols
        tile[d] = n
        if n < layer.shape[d]:
            break
    return _sized(layer, config, tuple(tile), count, acc, on_chip)


def _costed(layer: FusedLayer, config: NpuConfig, plan: FusedPlan) -> FusedPlan:
    cycles, traffic = fused_cost(layer, config, plan)
    return replace(plan, cycles=cycles, traffic=traffic)

"""What tiles of fused elementwise layers take on chip, and whether that fits."""

import math

from spec.config import NpuConfig
from spec.fields import field_of
from spec.isa import Opcode
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.fused.tiles import FusedPlan

MAX_EXTENT = field_of(Opcode.VECTOR, "loop.count").maximum
"""Most elements along a dimension of a tile: a loop counts them."""


def on_chip_registers(layer: FusedLayer, budget: MemoryBudget) -> frozenset[int]:
    """The registers whose tensors lie on chip."""
    sources = {i for i, s in enumerate(layer.sources) if s.tensor in budget.held}
    return frozenset(sources | {r.register for r in layer.results if r.view.tensor in budget.held})


def sized(
    layer: FusedLayer,
    config: NpuConfig,
    tile: tuple[int, ...],
    count: int,
    acc: bool,
    on_chip: frozenset[int],
    abreast: int = 1,
) -> FusedPlan:
    """The plan of tiles of these extents, without its cycles. `count`: buffers of what is loaded,
    stored or computed by the array, for each of the tiles `abreast`; `acc`: registers may lie in
    the accumulator.
    """
    word = config.word_bytes
    moved = {*range(len(layer.sources)), *(r.register for r in layer.results)}
    product, operands = layer.product, 0
    if product is not None:
        moved.add(product.register)
        operands = sum(2 * abreast * -(-n // word) * word for n in product.nbytes(tile))
    # In the accumulator a row of few elements takes a whole vector, and a step of its own; in the
    # scratchpad such rows follow each other and are computed as one.
    wide = tile[-1] >= config.cols or product is not None
    held = [acc and r.acc and wide for r in layer.registers]
    pairs = list(zip(layer.registers, held, strict=True))
    slots = tuple(abreast * (count if i in moved else 1) for i in range(len(pairs)))
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
        rights=2 * abreast,
        abreast=abreast,
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


def fits(plan: FusedPlan, config: NpuConfig, budget: MemoryBudget) -> bool:
    """Whether the buffers of a plan fit in a budget, and a tile in the loops of an instruction."""
    vectors = config.acc_vectors
    if budget.shares_acc:
        # A product beside it leaves it the upper half, or those that take turns the last bank.
        vectors = config.acc_half if budget.lower_half else config.acc_bank
    fit = plan.spad_bytes <= budget.buffer_bytes and plan.acc_vectors <= vectors
    return fit and math.prod(plan.tile) <= MAX_EXTENT * config.cols // 2

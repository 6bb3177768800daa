"""Layers of different engines that do not need one another run at the same time.

A fused layer keeps the vector engine busy and leaves the matrix engine idle, but for a product of
its own that it may begin with. A product that nobody before the layer's end waits for, such as that
of the keys beside the rotation of the queries, or of the values beside a softmax, is put behind it;
both then get half of the scratchpad and banks of the accumulator of their own, and list scheduling
mixes their instructions. So does a depthwise layer, such as an average of pixels in another branch,
with a product before which it could be computed as well.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from spec.config import NpuConfig
from spec.isa import Engine
from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.kernels.budget import MemoryBudget, Overlap
from sw.compiler.kernels.views import View
from sw.compiler.placement.residency import Cost, Residency

REACH = 8
"""Layers before a fused one among which a product is looked for."""

WORTH = 4000
"""Vectors from which a fused layer is worth a product beside it."""

GAIN = 0.95
"""The pair must take at most this part of what its layers take one after the other."""


def move_products_behind(program: LayerProgram, config: NpuConfig) -> LayerProgram:
    """The layers in another order: behind each long fused one a product that does not need it."""
    layers = list(program.layers)
    for fused in [x for x in layers if _is_long(x, config)]:
        i = layers.index(fused)
        # A product that can run beside it comes next already.
        if _pairs(layers[i : i + 2], config):
            continue
        for j in range(i - 1, max(-1, i - 1 - REACH), -1):
            if layers[j].engine is Engine.MATRIX and independent(layers[j], layers[j + 1 : i + 1]):
                if j == i - 1 and not fused.product_op:
                    # It is the neighbour already. A product of the layer's own goes first.
                    break
                layers.insert(i, layers.pop(j))
                break
    return replace(program, layers=tuple(layers))


def run_concurrently(
    program: LayerProgram, residency: Residency, config: NpuConfig, cost: Cost
) -> Residency:
    """With the budgets of neighbours changed that can run at the same time."""
    budgets = list(residency.budgets)
    for i, pair in enumerate(pairwise(program.layers)):
        before = budgets[i : i + 2]
        how = _together(pair, before, config)
        if how is Overlap.NONE:
            continue
        after = [replace(b, overlap=how, shares_acc=True) for b in before]
        alone, together = _costs(cost, pair, before), _costs(cost, pair, after)
        if alone and together and max(together) < GAIN * sum(alone):
            budgets[i : i + 2] = after
    return replace(residency, budgets=tuple(budgets))


def _together(pair: Sequence[Layer], budgets: Sequence[MemoryBudget], config: NpuConfig) -> Overlap:
    """How two neighbours can run at the same time; a layer does so in one way only."""
    if any(budget.overlap is not Overlap.NONE for budget in budgets):
        return Overlap.NONE
    engines = {layer.engine for layer in pair}
    if engines == {Engine.MATRIX, Engine.DEPTHWISE} and independent(pair[0], pair[1:]):
        return Overlap.BESIDE
    shared = any(budget.shares_acc for budget in budgets)
    return Overlap.CONCURRENT if _pairs(pair, config) and not shared else Overlap.NONE


def _costs(cost: Cost, layers: Sequence[Layer], budgets: Sequence[MemoryBudget]) -> list[int]:
    """The cycles of each layer; [] if one does not fit."""
    found = [cost(layer, budget) for layer, budget in zip(layers, budgets, strict=True)]
    return [c for c in found if c is not None] if None not in found else []


def _pairs(layers: Sequence[Layer], config: NpuConfig) -> bool:
    """Whether these are a long fused layer and a product that need nothing of one another."""
    products = [layer for layer in layers if layer.engine is Engine.MATRIX]
    if len(products) != 1 or not any(_is_long(layer, config) for layer in layers):
        return False
    first, second = layers
    return independent(first, [second])


def _is_long(layer: Layer, config: NpuConfig) -> bool:
    """Whether it leaves the array idle for so long that a product beside it is worth it."""
    return layer.idle_array_vectors(config) >= WORTH


def independent(layer: Layer, others: Sequence[Layer]) -> bool:
    """Whether `layer` may as well run after `others`, or while they do."""
    # There is one TABLE: layers that load it in turn would wait for each other.
    tables = layer.uses_table and any(other.uses_table for other in others)
    return not tables and not any(
        _meet(layer.outputs, (*other.inputs, *other.outputs)) or _meet(layer.inputs, other.outputs)
        for other in others
    )


def _meet(some: Sequence[View], others: Sequence[View]) -> bool:
    """Whether some views may have bytes in common."""
    return any(a.tensor == b.tensor and not a.beside(b) for a in some for b in others)

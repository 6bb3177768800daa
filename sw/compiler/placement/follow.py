"""Products and fused elementwise layers that follow one another tile by tile.

A norm behind a product can begin with the product's first rows, and a product behind a norm with
the norm's. Both then get banks of the accumulator and a part of the scratchpad of their own, the
product computes all columns of a tile before it takes the next, and list scheduling mixes their
instructions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from spec.config import NpuConfig
from spec.isa import Engine
from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import Layer, LayerProgram, Plan
from sw.compiler.kernels.budget import MemoryBudget, Overlap, followed_tile
from sw.compiler.placement.residency import Residency

Plans = Callable[[Layer, MemoryBudget], Plan]
"""The best plan of a layer in a budget; `CompileError` if none fits."""

GAIN = 0.95
"""The pair must take at most this part of what its layers take one after the other."""

BUS = 0.6
"""Share of the cycles of the bus that the pair may take if it moves more bytes than before: what
other layers load ahead would wait, and tiles of few rows that read weights all the time keep the
other layer from the scratchpad."""


def follow_tiles(
    program: LayerProgram, residency: Residency, config: NpuConfig, plan: Plans
) -> Residency:
    """With the budgets of neighbours changed of which one can follow the other in tiles."""
    budgets = list(residency.budgets)
    for i, pair in enumerate(pairwise(program.layers)):
        before = budgets[i : i + 2]
        # A layer overlaps in one way only.
        free = all(budget.overlap in (Overlap.NONE, Overlap.TILES) for budget in before)
        tiles = _tiles(*pair, config) if free else 1
        if tiles == 1:
            continue
        after = [replace(b, overlap=Overlap.TILES, shares_acc=True) for b in before]
        alone, together = _planned(plan, pair, before), _planned(plan, pair, after)
        if alone and together and _pays(alone, together, tiles, config):
            budgets[i : i + 2] = after
    return replace(residency, budgets=tuple(budgets))


def _pays(alone: Sequence[Plan], together: Sequence[Plan], tiles: int, config: NpuConfig) -> bool:
    """Whether plans of layers that run together are better than `alone`."""
    first, second = sorted(plan.cycles for plan in together)
    before, after = (sum(plan.traffic for plan in plans) for plans in (alone, together))
    if after > max(before, BUS * second * config.bus_bytes):
        return False
    # One begins behind the first tile of the other.
    return second + first / tiles < GAIN * sum(plan.cycles for plan in alone)


def _planned(plan: Plans, layers: Sequence[Layer], budgets: Sequence[MemoryBudget]) -> list[Plan]:
    """The plans of the layers; [] if one does not fit."""
    try:
        return [plan(layer, budget) for layer, budget in zip(layers, budgets, strict=True)]
    except CompileError:
        return []


def _tiles(writer: Layer, reader: Layer, config: NpuConfig) -> int:
    """Tiles in which a product and a layer that keeps the array free follow each other; or 1."""
    made = {view.tensor for view in writer.outputs}
    if not made & {view.tensor for view in reader.inputs}:
        return 1
    # There is one TABLE: layers that load it in turn would wait for each other.
    if writer.uses_table and reader.uses_table:
        return 1
    if {writer.engine, reader.engine} != {Engine.MATRIX, Engine.VECTOR}:
        return 1
    fused, product = sorted((writer, reader), key=lambda layer: layer.engine is Engine.MATRIX)
    if fused.free_array_vectors(config.cols) == 0:
        return 1
    n, h, w, _ = product.output.shape
    return -(-n * h * w // followed_tile(n * h * w, config))

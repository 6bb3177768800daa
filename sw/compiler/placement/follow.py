"""Products and fused elementwise layers that follow one another tile by tile.

A norm behind a product can begin with the product's first rows, and a product behind a norm with
the norm's. Both then get banks of the accumulator and a part of the scratchpad of their own, the
product computes all columns of a tile before it takes the next, and list scheduling mixes their
instructions. Between them there may be copies from or to the chip, such as those that bring pixels
into the order of windows.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from spec.config import NpuConfig
from spec.isa import Engine
from sw.compiler.errors import CompileError
from sw.compiler.kernels.base import Layer, LayerProgram, Plan
from sw.compiler.kernels.budget import FOLLOWED_TILES, MemoryBudget, Overlap, followed_tile
from sw.compiler.kernels.move.layer import MoveLayer
from sw.compiler.placement.residency import Residency

Plans = Callable[[Layer, MemoryBudget], Plan]
"""The best plan of a layer in a budget; `CompileError` if none fits."""

GAIN = 0.95
"""The pair must take at most this part of what its layers take one after the other."""

LOSS = 1.15
"""How much slower the fused layer may become by itself: in tiles of few rows it loads parameters
all the time, and waits for them behind the product's weights."""

BUS = 0.6
"""Share of the cycles of the bus that the pair may take if it moves more bytes than before: what
other layers load ahead would wait, and tiles of few rows that read weights all the time keep the
other layer from the scratchpad."""

LONG = 2
"""But the pair may take all of it where neither layer takes more than so many times the other's
cycles: it is over soon."""


def follow_tiles(
    program: LayerProgram, residency: Residency, config: NpuConfig, plan: Plans
) -> Residency:
    """With the budgets of neighbours changed of which one can follow the other in tiles."""
    budgets = list(residency.budgets)
    for i, j in _neighbours(program.layers, residency):
        pair, before = (program.layers[i], program.layers[j]), (budgets[i], budgets[j])
        # A layer overlaps in one way only.
        free = all(budget.overlap in (Overlap.NONE, Overlap.TILES) for budget in before)
        if not free or not can_follow(*pair, config, program.layers[i + 1 : j]):
            continue
        fused, product = sorted((0, 1), key=lambda k: pair[k].engine is Engine.MATRIX)
        alone = _planned(plan, pair, before)
        best = GAIN * sum(p.cycles for p in alone)
        for tiles in _counts(pair[product], before[product], config):
            after = [
                replace(b, overlap=Overlap.TILES, shares_acc=True, tiles=tiles) for b in before
            ]
            together = _planned(plan, pair, after)
            if not alone or not together:
                continue
            slower = together[fused].cycles > LOSS * alone[fused].cycles
            cycles = _together(alone, together, tiles, config)
            if cycles < best and not slower:
                best, (budgets[i], budgets[j]) = cycles, after
        if budgets[j].overlap is Overlap.TILES:
            for k in range(i + 1, j):
                budgets[k] = replace(budgets[k], overlap=Overlap.TILES)
    return replace(residency, budgets=tuple(budgets))


def _neighbours(layers: Sequence[Layer], residency: Residency) -> Iterator[tuple[int, int]]:
    """Numbers of layers that follow one another, or with copies between them that take no buffers:
    from or to a tensor on chip.
    """
    before: int | None = None
    for i, layer in enumerate(layers):
        sides = [view.tensor in residency.address for view in (*layer.inputs, *layer.outputs)]
        if isinstance(layer, MoveLayer) and any(sides):
            continue
        if before is not None:
            yield before, i
        before = i


def _counts(product: Layer, budget: MemoryBudget, config: NpuConfig) -> list[int]:
    """The tiles that a product may be cut into: several, or as many as it is already."""
    if budget.overlap is Overlap.TILES:
        return [budget.tiles]
    n, h, w, _ = product.output.shape
    sizes = [followed_tile(n * h * w, tiles, config) for tiles in FOLLOWED_TILES]
    return [count for size in dict.fromkeys(sizes) if (count := -(-n * h * w // size)) > 1]


def _together(
    alone: Sequence[Plan], together: Sequence[Plan], tiles: int, config: NpuConfig
) -> float:
    """Cycles of layers that run together; infinite if they keep others from the bus."""
    first, second = sorted(plan.cycles for plan in together)
    before, after = (sum(plan.traffic for plan in plans) for plans in (alone, together))
    share = BUS if second > LONG * first else 1.0
    if after > max(before, share * second * config.bus_bytes):
        return math.inf
    # One begins behind the first tile of the other.
    return second + first / tiles


def _planned(plan: Plans, layers: Sequence[Layer], budgets: Sequence[MemoryBudget]) -> list[Plan]:
    """The plans of the layers; [] if one does not fit."""
    try:
        return [plan(layer, budget) for layer, budget in zip(layers, budgets, strict=True)]
    except CompileError:
        return []


def can_follow(
    writer: Layer, reader: Layer, config: NpuConfig, copies: Sequence[Layer] = ()
) -> bool:
    """Whether these are a product and a layer that keeps the array free, and one needs the other's
    result. copies: layers between them, which may bring it there.
    """
    made = {view.tensor for view in writer.outputs}
    for copy in copies:
        if made & {view.tensor for view in copy.inputs}:
            made |= {view.tensor for view in copy.outputs}
    if not made & {view.tensor for view in reader.inputs}:
        return False
    # There is one TABLE: layers that load it in turn would wait for each other.
    if writer.uses_table and reader.uses_table:
        return False
    if {writer.engine, reader.engine} != {Engine.MATRIX, Engine.VECTOR}:
        return False
    fused = reader if writer.engine is Engine.MATRIX else writer
    return fused.free_array_vectors(config.cols) > 0

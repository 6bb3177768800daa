"""Products and chains that do not need one another run at the same time.

A chain (MapLayer) keeps the vector engine busy and leaves the matrix engine idle, unless it begins
with a product of its own. A product that nobody before the chain's end waits for, such as that of
the keys beside the rotation of the queries, is put behind the chain; both then get half of the
scratchpad and banks of the accumulator of their own, and `interleave` mixes them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from spec.config import NpuConfig
from sw.compiler.kernels.fused.layer import MapLayer
from sw.compiler.kernels.layers import ConvLayer, Layer, LayerProgram
from sw.compiler.placement.residency import ABREAST, Cost, Residency, Room

REACH = 8
"""Layers before a chain among which a product is looked for."""

WORTH = 4000
"""Vectors from which a chain is worth a product beside it."""

GAIN = 0.95
"""The pair must take at most this part of what its layers take one after the other."""


def delay_products(program: LayerProgram, config: NpuConfig) -> LayerProgram:
    """The layers in another order: behind each long chain a product that does not need it."""
    layers = list(program.layers)
    for chain in [x for x in layers if _is_long(x, config)]:
        i = layers.index(chain)
        if _pairs(layers[i : i + 2], config):
            continue
        for j in range(i - 1, max(-1, i - 1 - REACH), -1):
            if isinstance(layers[j], ConvLayer) and _free(layers[j], layers[j + 1 : i + 1]):
                if j == i - 1:
                    break
                layers.insert(i, layers.pop(j))
                break
    return replace(program, layers=tuple(layers))


def let_overlap(program: LayerProgram, residency: Residency, config: NpuConfig, cost: Cost) -> None:
    """Change the rooms of neighbours that can run at the same time."""
    rooms = residency.rooms
    for i, pair in enumerate(pairwise(program.layers)):
        before = rooms[i : i + 2]
        if not _pairs(pair, config) or any(room.concurrent for room in before):
            continue
        after = [replace(room, parts=ABREAST, beside=True) for room in before]
        alone, beside = _costs(cost, pair, before), _costs(cost, pair, after)
        if alone and beside and max(beside) < GAIN * sum(alone):
            rooms[i : i + 2] = after


def _costs(cost: Cost, layers: Sequence[Layer], rooms: Sequence[Room]) -> list[int]:
    """The cycles of each layer; [] if one does not fit."""
    found = [cost(layer, room) for layer, room in zip(layers, rooms, strict=True)]
    return [c for c in found if c is not None] if None not in found else []


def _pairs(layers: Sequence[Layer], config: NpuConfig) -> bool:
    """Whether these are a long chain and a product that need nothing of one another."""
    products = [layer for layer in layers if isinstance(layer, ConvLayer)]
    if len(products) != 1 or not any(_is_long(layer, config) for layer in layers):
        return False
    first, second = layers
    return _free(first, [second])


def _is_long(layer: Layer, config: NpuConfig) -> bool:
    """Whether it is a chain that is worth a product beside it."""
    if not isinstance(layer, MapLayer) or layer.product is not None:
        return False
    return math.prod(layer.shape) * len(layer.steps) // config.cols >= WORTH


def _free(layer: Layer, others: Sequence[Layer]) -> bool:
    """Whether `layer` may as well run after `others`, or while they do."""
    mine = {view.tensor for view in (*layer.inputs, *layer.outputs)}
    writes = {view.tensor for view in layer.outputs}
    tables = _looks_up(layer) and any(_looks_up(other) for other in others)
    return not tables and not any(
        writes & {view.tensor for view in other.inputs}
        or mine & {view.tensor for view in other.outputs}
        for other in others
    )


def _looks_up(layer: Layer) -> bool:
    """Whether it needs the TABLE."""
    if isinstance(layer, ConvLayer):
        return any(p.table is not None for p in layer.epilogue.passes)
    return isinstance(layer, MapLayer) and bool(layer.tables)

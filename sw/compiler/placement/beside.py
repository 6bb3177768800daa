"""Depthwise layers beside a product before which they could be computed as well.

A depthwise layer of another branch, such as an average of pixels, comes where the branches join,
and the array stands still meanwhile. Behind an earlier product both work at the same time; but its
result then stays for longer. So the timeline compares the orders.
"""

from collections.abc import Sequence
from dataclasses import replace

from spec.config import NpuConfig
from spec.isa import Engine
from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.placement.overlap import REACH, independent
from sw.compiler.placement.predict import Predict, TooLong, predicted
from sw.compiler.placement.residency import Cost

GAIN = 0.99
"""Another order must take at most this part of the cycles."""

TRIALS = 3
"""Orders that are compared for a layer, of those that could hide most of it."""

BEHIND = 2
"""Layers behind it that are predicted as well: they read the result where it lies."""


def move_depthwise_beside(
    program: LayerProgram, config: NpuConfig, cost: Cost, predict: Predict
) -> LayerProgram:
    """The layers in another order: depthwise ones behind a product that hides them."""
    layers = list(program.layers)
    try:
        for depthwise in [x for x in layers if x.engine is Engine.DEPTHWISE]:
            i = layers.index(depthwise)
            places = _places(layers, i, config, cost)
            if not places:
                continue
            # What the layer reads lies on chip, too, from where it is made.
            made = [k for k in range(i) if layers[k].output.tensor == depthwise.inputs[0].tensor]
            first, last = max([*made, max(0, min(places) - REACH)]), i + 1 + BEHIND
            orders = {at: _moved(layers, i, at) for at in (i, *places)}
            cycles = {
                at: predicted(predict, program, order[first:last]) for at, order in orders.items()
            }
            best = min(places, key=cycles.__getitem__)
            if cycles[best] < GAIN * cycles[i]:
                layers = orders[best]
    except TooLong:
        pass
    return replace(program, layers=tuple(layers))


def _places(layers: Sequence[Layer], i: int, config: NpuConfig, cost: Cost) -> list[int]:
    """Numbers that layer `i` could have: behind the products that hide most of it."""
    whole, hidden = MemoryBudget.whole(config), {}
    own = cost(layers[i], whole) or 0
    for j in range(i - 1, max(-1, i - 1 - REACH), -1):
        if not independent(layers[i], layers[j : j + 1]):
            break
        if layers[j].engine is Engine.MATRIX and j < i - 1:
            hidden[j + 1] = min(own, cost(layers[j], whole) or 0)
    return sorted(hidden, key=lambda at: -hidden[at])[:TRIALS]


def _moved(layers: Sequence[Layer], i: int, at: int) -> list[Layer]:
    """The layers with number `i` as number `at` before it."""
    return [*layers[:at], layers[i], *layers[at:i], *layers[i + 1 :]]

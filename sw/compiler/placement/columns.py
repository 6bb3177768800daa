"""Products of large weights cut in two by columns, where a fused layer follows or goes before.

Layers that follow one another tile by tile read the product's weights once a tile. Where these are
more than stay on chip, that keeps the bus from all others. So only some columns follow: as many as
keep the array busy while the other layer runs. The rest is a product of its own, whose weights are
read once.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from spec.config import NpuConfig
from spec.isa import Engine
from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.placement.follow import can_follow
from sw.compiler.placement.overlap import WORTH
from sw.compiler.placement.predict import Predict, TooLong, predicted
from sw.compiler.placement.residency import Cost

FOLLOWED, FOLLOWING = (1.65, 1.5), (0.75,)
"""Cycles of the columns that go before the fused layer, and of those behind it, for each of its
own: it is slower beside a product. Behind it, the array has work left from before. The first that
pays is taken: more columns leave the bus more time."""

LARGE = 0.5
"""Part of the scratchpad from which on weights are large."""

MOST = 0.6
"""Share of the columns up to which a cut is tried."""

HIDDEN = 0.2
"""Part of the fused layer's cycles that a cut must save."""

Around = tuple[list[Layer], list[Layer]]
"""The layers before a pair and behind it that could follow, or go before, one of it as well."""


def cut_columns(
    program: LayerProgram, config: NpuConfig, cost: Cost, predict: Predict
) -> LayerProgram:
    """The layers with products beside long fused ones cut in two, where that is faster."""
    search = _Search(program, config, cost, predict)
    layers = list(program.layers)
    i = 0
    while i + 1 < len(layers):
        found = search.cut(layers[i : i + 2], _around(layers, i, config))
        layers[i : i + 2] = found
        # The second layer, or its last part, is looked at with the next one.
        i += len(found) - 1
    return replace(program, layers=tuple(layers))


@dataclass(slots=True)
class _Search:
    """Cuts pairs of `program`; those that look alike are cut alike. `known`: where, of each."""

    program: LayerProgram
    config: NpuConfig
    cost: Cost
    predict: Predict
    known: dict[Hashable, int] = field(default_factory=dict)

    def cut(self, pair: list[Layer], around: Around) -> list[Layer]:
        """The pair with its product in two parts, or as it is."""
        writer, reader = pair
        if not can_follow(writer, reader, self.config):
            return pair
        all_layers = [*around[0], *pair, *around[1]]
        key = len(around[0]), *(layer.likeness for layer in all_layers)
        if key not in self.known:
            self.known[key] = self._columns(pair, around)
        return _cut(pair, self.known[key])

    def _columns(self, pair: list[Layer], around: Around) -> int:
        """How many columns run beside the fused layer; 0: the product is not cut."""
        product = _product(pair)
        weights = product.product_weights
        if weights is None or weights.nbytes <= LARGE * self.config.spad_bytes:
            return 0
        if product.memory_views:
            # Parameters that come at run time lie in memory as the whole product wants them.
            return 0
        fused = pair[1 - pair.index(product)]
        whole = MemoryBudget.whole(self.config)
        alone, beside = self.cost(product, whole), self.cost(fused, whole)
        if fused.free_array_vectors(self.config.cols) < WORTH or not alone or not beside:
            return 0
        channels, cols = product.output.shape[3], self.config.cols
        factors = FOLLOWED if product is pair[0] else FOLLOWING
        many = (math.ceil(channels * f * beside / alone / cols) * cols for f in factors)
        few = [some for some in dict.fromkeys(many) if some <= MOST * channels]
        return self._first_that_pays(pair, around, few, HIDDEN * beside) if few else 0

    def _first_that_pays(
        self, pair: list[Layer], around: Around, columns: Sequence[int], least: float
    ) -> int:
        """Of numbers of columns, the first that saves at least so many cycles; 0: none does."""
        before, behind = around

        def cycles(some: int) -> float:
            layers = [*before, *_cut(pair, some), *behind]
            return predicted(self.predict, self.program, layers)

        try:
            now = cycles(0)
            return next((some for some in columns if now - cycles(some) >= least), 0)
        except TooLong:
            return 0


def _around(layers: Sequence[Layer], i: int, config: NpuConfig) -> Around:
    """What a cut of the layers `i` and `i` + 1 could take from their neighbours, or they from it.

    Others are not worth their prediction: long attention has a hundred thousand instructions.
    """
    before = [x for x in layers[max(0, i - 1) : i] if can_follow(x, layers[i], config)]
    behind = [x for x in layers[i + 2 : i + 3] if can_follow(layers[i + 1], x, config)]
    return before, behind


def _product(pair: Sequence[Layer]) -> Layer:
    return next(layer for layer in pair if layer.engine is Engine.MATRIX)


def _cut(pair: list[Layer], some: int) -> list[Layer]:
    """The product's last columns next to a layer behind it, or its first ones to one before it."""
    if not some:
        return pair
    product = _product(pair)
    channels = product.output.shape[3]
    at = channels - some if product is pair[0] else some
    parts = [product.columns(slice(0, at)), product.columns(slice(at, channels))]
    return [*parts, pair[1]] if product is pair[0] else [pair[0], *parts]

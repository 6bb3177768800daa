"""A fused layer and a product behind it that both look up tables, computed slab of rows by slab.

A norm looks up its root, and so does the product behind it a GELU. There is one TABLE, so that the
product cannot follow the norm tile by tile (`follow.py`). Cut into slabs of rows, each slab of
either layer is a layer of its own, which loads its TABLE. The norm is a slab ahead: its lookups of
a slab are over before the product's of the slab before begin, and the array has the next slab's
rows when it has ended one.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from spec.config import NpuConfig
from spec.isa import Engine
from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.kernels.budget import LONG_FOLD, MemoryBudget, Overlap
from sw.compiler.lower.products.common_weights import name_common_weights
from sw.compiler.machine.costs import weight_cycles
from sw.compiler.placement.predict import Predict, TooLong, predicted
from sw.compiler.placement.residency import Cost, Residency

GAIN = 0.97
"""Layers in slabs must take at most this part of what they take one after the other."""

SLABS = (4, 2)
"""Into how many slabs two layers may be cut."""


def cut_slabs(
    program: LayerProgram, config: NpuConfig, cost: Cost, predict: Predict
) -> LayerProgram:
    """The layers with pairs of them cut into slabs of rows."""
    search = _Search(program, config, cost, predict)
    layers: list[Layer] = []
    in_turn: list[int] = []
    in_slabs: list[int] = []
    i = 0
    while i < len(program.layers):
        pair = list(program.layers[i : i + 2])
        count = 1
        if not {i, i + 1} & program.in_turn:
            around = program.layers[i - 1 : i] if i else (), program.layers[i + 2 : i + 3]
            count = search.slabs(pair, around)
        if count > 1:
            found = _cut(pair, count)
            in_slabs += range(len(layers), len(layers) + len(found))
            i += 2
        else:
            found = pair[:1]
            if i in program.in_turn:
                in_turn.append(len(layers))
            i += 1
        layers += found
    return replace(
        program,
        layers=tuple(layers),
        in_turn=frozenset(in_turn),
        in_slabs=frozenset(in_slabs),
    )


def mix_slabs(program: LayerProgram, residency: Residency) -> Residency:
    """With the budgets changed of the layers in slabs: product and fused layer side by side."""
    budgets = list(residency.budgets)
    for i in program.in_slabs:
        budgets[i] = replace(budgets[i], overlap=Overlap.TILES, shares_acc=True, one_tile=True)
    return replace(residency, budgets=tuple(budgets))


@dataclass(slots=True)
class _Search:
    """Cuts pairs of `program`; those that look alike are cut alike. `known`: slabs of each."""

    program: LayerProgram
    config: NpuConfig
    cost: Cost
    predict: Predict
    known: dict[Hashable, int] = field(default_factory=dict)

    def slabs(self, pair: Sequence[Layer], around: tuple[Iterable[Layer], Iterable[Layer]]) -> int:
        """Into how many slabs the pair is cut; 1: it is not."""
        if not _can_be_cut(pair, self.config):
            return 1
        before, behind = list(around[0]), list(around[1])
        key = len(before), *(layer.likeness for layer in (*before, *pair, *behind))
        if key not in self.known:
            self.known[key] = self._best(pair, before, behind)
        return self.known[key]

    def _best(self, pair: Sequence[Layer], before: Sequence[Layer], behind: Sequence[Layer]) -> int:
        rows, least = pair[0].rows, LONG_FOLD * weight_cycles(self.config)
        counts = [n for n in SLABS if rows % n == 0 and rows // n >= least]
        if not counts or not self._can_pay(pair):
            return 1

        def cycles(count: int) -> float:
            cut = _cut(pair, count)
            some = [*before, *cut, *behind]
            places = range(len(before), len(before) + len(cut)) if count > 1 else ()
            named = name_common_weights(replace(self.program, layers=tuple(some)))
            return predicted(self.predict, named, named.layers, in_slabs=places)

        try:
            found = {n: cycles(n) for n in (1, *counts)}
        except TooLong:
            return 1
        best = min(counts, key=found.__getitem__)
        return best if found[best] <= GAIN * found[1] else 1

    def _can_pay(self, pair: Sequence[Layer]) -> bool:
        """Whether it would pay if one engine never waited."""
        fused, product = pair
        whole = MemoryBudget.whole(self.config)
        alone, times = self.cost(fused, whole), product.engine_cycles(self.config)
        if alone is None or times is None:
            return False
        together = max(times.array, alone + times.vector)
        return together <= GAIN * (alone + max(times.array, times.vector))


def _can_be_cut(pair: Sequence[Layer], config: NpuConfig) -> bool:
    """Whether these are a fused layer and a product of its rows, and both look up tables."""
    if len(pair) < 2:
        return False
    fused, product = pair
    engines = (fused.engine, product.engine)
    if engines != (Engine.VECTOR, Engine.MATRIX) or not fused.free_array_vectors(config.cols):
        return False
    made = {view.tensor for view in fused.outputs}
    read = {view.tensor for view in product.inputs[:1]}
    alike = fused.rows == product.rows > 1
    return alike and fused.uses_table and product.uses_table and bool(made & read)


def _cut(pair: Sequence[Layer], count: int) -> list[Layer]:
    """The slabs in their order, those of the first layer one ahead."""
    if count == 1:
        return list(pair)
    size = pair[0].rows // count
    parts = [slice(k * size, (k + 1) * size) for k in range(count)]
    first, second = ([layer.some_rows(part) for part in parts] for layer in pair)
    mixed = [first[0]]
    for ahead, layer in zip(first[1:], second, strict=False):
        mixed += [ahead, layer]
    return [*mixed, second[-1]]

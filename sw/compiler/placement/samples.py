"""Parts of a batch in turn, where the epilogue of a product takes longer than the product.

A residual sum costs the vector engine several cycles a vector, so that behind a product of few
input channels the array waits. Other samples have work for it: the layers from the one behind such
a product to the next are computed part by part of the batch. While the vector engine finishes the
sums of a part, the array computes the first products of the next one. Those have banks of the
accumulator of their own, and list scheduling mixes the instructions of all engines.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from spec.config import NpuConfig
from sw.compiler.kernels.base import EngineCycles, Layer, LayerProgram
from sw.compiler.kernels.budget import Overlap
from sw.compiler.placement.predict import Predict, TooLong, predicted
from sw.compiler.placement.residency import Residency

GAIN = 0.97
"""Layers that take turns must take at most this part of what they take one after the other."""

PARTS = (4, 3, 2)
"""Into how many parts a batch may be cut."""

MOST_SAMPLES = 8
"""Samples of a part: programs of parts that mix are not stored once."""

LONGEST = 5
"""Most layers that take turns: all of them are under way at once."""


def take_turns(program: LayerProgram, config: NpuConfig, predict: Predict) -> LayerProgram:
    """The layers with groups of them cut into parts of the batch, part by part."""
    search = _Search(program, config, predict)
    layers: list[Layer] = []
    in_turn: list[int] = []
    for group in _groups(program.layers, config):
        cut = search.cut(group)
        if len(cut) > len(group):
            in_turn += range(len(layers), len(layers) + len(cut))
        layers += cut
    return replace(program, layers=tuple(layers), in_turn=frozenset(in_turn))


def mix_turns(program: LayerProgram, residency: Residency, config: NpuConfig) -> Residency:
    """With the budgets changed of the layers that take turns."""
    budgets = list(residency.budgets)
    for i in program.in_turn:
        found = program.layers[i].engine_cycles(config)
        budgets[i] = replace(
            budgets[i],
            overlap=Overlap.TURNS,
            shares_acc=True,
            other_banks=found is not None and _waits(found),
        )
    return replace(residency, budgets=tuple(budgets))


def _groups(layers: Sequence[Layer], config: NpuConfig) -> Iterator[list[Layer]]:
    """All layers in order: those up to one with a long epilogue together, others by themselves."""
    group: list[Layer] = []
    for layer in layers:
        found = layer.engine_cycles(config)
        usable = found is not None and not layer.uses_table
        if group and (not usable or _samples(layer) != _samples(group[0])):
            yield from ([each] for each in group)
            group = []
        if found is None or not usable:
            yield [layer]
            continue
        group.append(layer)
        if _waits(found):
            yield from ([each] for each in group[:-LONGEST])
            yield group[-LONGEST:]
            group = []
    yield from ([each] for each in group)


def _waits(found: EngineCycles) -> bool:
    """Whether the array waits for the vector engine."""
    return found.vector > found.array


def _samples(layer: Layer) -> int:
    return layer.output.shape[0]


@dataclass(slots=True)
class _Search:
    """Cuts groups of `program`; those that look alike are cut alike. `known`: parts of each."""

    program: LayerProgram
    config: NpuConfig
    predict: Predict
    known: dict[Hashable, int] = field(default_factory=dict)

    def cut(self, group: list[Layer]) -> list[Layer]:
        """The layers of each part, part by part; `group` itself where that is not worth it."""
        key = tuple(layer.likeness for layer in group)
        if key not in self.known:
            self.known[key] = self._parts(group)
        return _cut(group, self.known[key])

    def _parts(self, group: list[Layer]) -> int:
        samples = _samples(group[0])
        counts = [n for n in PARTS if samples % n == 0 and samples // n <= MOST_SAMPLES]
        if len(group) < 2 or not counts or not self._can_pay(group):
            return 1
        try:
            cycles = {n: self._cycles(group, n) for n in (1, *counts)}
        except TooLong:
            return 1
        best = min(counts, key=cycles.__getitem__)
        return best if cycles[best] <= GAIN * cycles[1] else 1

    def _can_pay(self, group: Sequence[Layer]) -> bool:
        """Whether it would pay if one engine never waited."""
        times = [found for layer in group if (found := layer.engine_cycles(self.config))]
        together = max(sum(t.array for t in times), sum(t.vector for t in times))
        return together <= GAIN * sum(max(t.array, t.vector) for t in times)

    def _cycles(self, group: list[Layer], parts: int) -> float:
        layers = _cut(group, parts)
        in_turn = range(len(layers)) if parts > 1 else ()
        return predicted(self.predict, self.program, layers, in_turn)


def _cut(group: list[Layer], parts: int) -> list[Layer]:
    if parts == 1:
        return group
    return [layer.samples(i, parts) for i in range(parts) for layer in group]

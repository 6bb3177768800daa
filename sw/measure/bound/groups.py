"""Layers that run together, as one row.

A cycle is charged to the layer of the oldest instruction that is not done. A layer whose products
are made while an older one is still at work is charged less than its bound: both then are one
group, and so are the parts of one product. Where the array and the depthwise engine work at the
same time, two layers that do are a group, and may take less than the sum of their bounds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sw.measure.bound.layers import LayerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that follow one another in the program and run together."""

    layers: tuple[LayerFacts, ...]

    @property
    def name(self) -> str:
        first, last = self.layers[0].name, self.layers[-1].name
        return first if len(self.layers) == 1 else f"{first} … {last}"

    @property
    def cycles(self) -> float:
        return sum(layer.cycles for layer in self.layers)

    @property
    def bound(self) -> float:
        return sum(layer.bound for layer in self.layers)

    @property
    def loss(self) -> float:
        """Cycles above the bound."""
        return self.cycles - self.bound

    @property
    def worst(self) -> LayerFacts:
        """The layer that is furthest above its bound."""
        return max(self.layers, key=lambda layer: layer.cycles - layer.bound)

    @property
    def share(self) -> float | None:
        return self.bound / self.cycles if self.cycles else None

    @property
    def busy(self) -> dict[str, float]:
        """Cycles of each engine."""
        total: dict[str, float] = {}
        for layer in self.layers:
            for engine, cycles in layer.busy.items():
                total[engine] = total.get(engine, 0.0) + cycles
        return total


def grouped(layers: Iterable[LayerFacts]) -> list[Group]:
    """All layers in groups."""
    groups: list[list[LayerFacts]] = []
    for layer in layers:
        if groups and (_short(groups[-1]) or _parts(groups[-1][-1], layer)):
            groups[-1].append(layer)
        else:
            groups.append([layer])
    if len(groups) > 1 and _short(groups[-1]):
        last = groups.pop()
        groups[-1] += last
    return [Group(layers=tuple(group)) for group in groups]


def _short(group: Sequence[LayerFacts]) -> bool:
    """Whether a group is charged less than its bound, and no second engine explains that."""
    kinds = {x.kind == "depthwise" for x in group if x.product}
    return len(kinds) < 2 and sum(x.cycles for x in group) < sum(x.bound for x in group)


def _parts(first: LayerFacts, second: LayerFacts) -> bool:
    """Whether both are parts of one product."""
    if not (first.product and second.product) or "." not in second.name:
        return False
    return first.name.rpartition(".")[0] == second.name.rpartition(".")[0]

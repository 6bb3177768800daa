"""Stages of equal predicted length: the longest one says how often a sample comes out."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from spec.config import NpuConfig
from spec.program import Image
from sw.compiler.cut.places import cut_places, part
from sw.compiler.errors import CompileError
from sw.compiler.pipeline import compile_graph
from sw.compiler.tosa.graph import Graph

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStage:
    """A part of a network with its program and the cycles that it is predicted to take."""

    graph: Graph
    image: Image
    cycles: int


class _Parts:
    """Parts of a graph from one place to another, each compiled once."""

    def __init__(self, graph: Graph, config: NpuConfig, places: list[str], name: str) -> None:
        self._graph, self._config, self._name = graph, config, name
        self._places = places
        self._known: dict[tuple[int, int], NetworkStage] = {}

    @property
    def count(self) -> int:
        """Parts between neighbouring places."""
        return len(self._places) + 1

    def stage(self, first: int, end: int) -> NetworkStage:
        """The parts `first` to `end` - 1 as one."""
        key = (first, end)
        if key not in self._known:
            inputs = self._graph.inputs if first == 0 else [self._places[first - 1]]
            last = end == self.count
            outputs = self._graph.outputs if last else [self._places[end - 1]]
            graph = part(self._graph, inputs, outputs, f"{self._name}_{first}_{end}")
            image = compile_graph(graph, self._config, name=graph.name)
            cycles = int(image.info["predicted_cycles"])
            self._known[key] = NetworkStage(graph=graph, image=image, cycles=cycles)
        return self._known[key]


def cut_network(
    graph: Graph,
    config: NpuConfig,
    stages: int,
    *,
    name: str = "",
    say: Say = lambda _: None,
) -> list[NetworkStage]:
    """Cut `graph` into `stages` parts of nearly equal length, each a program of `config`.

    The parts between neighbouring places are compiled by themselves. The cut whose longest sum of
    predicted cycles is the smallest is where the search begins. It then moves single cuts as long
    as the longest stage, compiled as one program, becomes shorter. `CompileError` where the graph
    has too few places that a single tensor passes.
    """
    name = name or graph.name
    if stages < 1:
        raise CompileError(f"{name}: {stages} stages: must be 1 or more")
    places = cut_places(graph) if stages > 1 else []
    if len(places) < stages - 1:
        raise CompileError(
            f"{name} cannot be cut into {stages} stages: a single tensor passes it in "
            f"{len(places)} places, {stages - 1} are needed",
            hint=f"use {len(places) + 1} NPUs or fewer, or partition batch",
        )
    parts = _Parts(graph, config, places, name)
    if stages == 1:
        return [parts.stage(0, 1)]
    say(f"{name}: compiling its {parts.count} parts…")
    costs = [parts.stage(i, i + 1).cycles for i in range(parts.count)]
    bounds = _even(costs, stages)
    say(f"{name}: compiling {stages} stages…")
    bounds = _improved(parts, bounds)
    return [parts.stage(a, b) for a, b in itertools.pairwise(bounds)]


def _even(costs: list[int], stages: int) -> list[int]:
    """Bounds of the division into consecutive groups whose largest sum is the smallest."""
    sums = [0]
    for cost in costs:
        sums.append(sums[-1] + cost)
    count = len(costs)
    best = {(0, 0): (0, [0])}
    for number in range(1, stages + 1):
        for end in range(number, count + 1):
            options = [
                (max(best[number - 1, at][0], sums[end] - sums[at]), best[number - 1, at][1])
                for at in range(number - 1, end)
                if (number - 1, at) in best
            ]
            longest, bounds = min(options, key=lambda option: option[0])
            best[number, end] = (longest, [*bounds, end])
    return best[stages, count][1]


def _improved(parts: _Parts, bounds: list[int]) -> list[int]:
    """Move one bound at a time by one place, as long as the longest stage becomes shorter."""

    def longest(some: list[int]) -> int:
        return max(parts.stage(a, b).cycles for a, b in itertools.pairwise(some))

    best = longest(bounds)
    better = True
    while better:
        better = False
        lengths = [parts.stage(a, b).cycles for a, b in itertools.pairwise(bounds)]
        worst = lengths.index(best)
        # The longest stage gives its first or its last part to its neighbour.
        for at, step in ((worst, 1), (worst + 1, -1)):
            moved = [*bounds[:at], bounds[at] + step, *bounds[at + 1 :]]
            inner = 0 < at < len(bounds) - 1
            if inner and moved == sorted(set(moved)) and longest(moved) < best:
                bounds, best, better = moved, longest(moved), True
                break
    return bounds

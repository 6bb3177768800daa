"""The graph of a program's layers, laid out from top to bottom.

A layer's rank is the longest way to it from an input. Edges that skip ranks get a place in each
rank between, so that they run beside the layers there. Within a rank the order follows the places
of the neighbours (barycentres), swept down and up a few times.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sw.compiler.kernels.base import Layer

Edge = tuple[int, int]
SWEEPS = 4
MOST_PLACES = 20_000
"""Places on edges that skip ranks; beyond, such edges are straight lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """column, rank: of each layer, from 0. edges: layers, and the columns in each rank between."""

    columns: list[float]
    ranks: list[int]
    edges: list[tuple[int, int, list[float]]]


def layer_edges(layers: Sequence[Layer]) -> list[Edge]:
    """(writer, reader) for every tensor that a layer reads and others before it wrote."""
    writers: dict[str, list[int]] = defaultdict(list)
    found: dict[Edge, None] = {}
    for i, layer in enumerate(layers):
        for view in layer.inputs:
            found.update(dict.fromkeys((writer, i) for writer in writers[view.tensor]))
        for name in dict.fromkeys(view.tensor for view in layer.outputs):
            writers[name].append(i)
    return list(found)


@dataclass(slots=True)
class _Grid:
    """Layers and places of edges by rank. Places have numbers behind those of the layers."""

    rows: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    up: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    down: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def join(self, upper: int, lower: int) -> None:
        self.down[upper].append(lower)
        self.up[lower].append(upper)


def layout(count: int, edges: Sequence[Edge]) -> Layout:
    """Places for `count` layers; each edge leads from a lower number to a higher one."""
    ranks = [0] * count
    for writer, reader in sorted(edges, key=lambda edge: edge[1]):
        ranks[reader] = max(ranks[reader], ranks[writer] + 1)
    grid = _Grid()
    for i, rank in enumerate(ranks):
        grid.rows[rank].append(i)
    straight = sum(ranks[b] - ranks[a] - 1 for a, b in edges) > MOST_PLACES
    chains: list[list[int]] = []
    following = count
    for writer, reader in edges:
        chain: list[int] = []
        for rank in range(ranks[writer] + 1, 0 if straight else ranks[reader]):
            grid.rows[rank].append(following)
            chain.append(following)
            following += 1
        chains.append(chain)
        way = [writer, *chain, reader]
        for upper, lower in pairwise(way):
            grid.join(upper, lower)
    columns = _columns(grid)
    return Layout(
        columns=[columns[i] for i in range(count)],
        ranks=ranks,
        edges=[
            (writer, reader, [columns[place] for place in chain])
            for (writer, reader), chain in zip(edges, chains, strict=True)
        ],
    )


def _columns(grid: _Grid) -> dict[int, float]:
    """The column of everything in the grid; each row is centred."""
    column: dict[int, float] = {}
    for row in grid.rows.values():
        _place(row, column)
    ranks = sorted(grid.rows)
    for sweep in range(SWEEPS):
        upwards = sweep % 2 == 1
        near = grid.down if upwards else grid.up
        for rank in reversed(ranks) if upwards else ranks:
            row = grid.rows[rank]
            want = {
                node: sum(column[n] for n in near[node]) / len(near[node])
                if near[node]
                else column[node]
                for node in row
            }
            row.sort(key=lambda node: (want[node], node))
            _place(row, column)
    return column


def _place(row: Sequence[int], column: dict[int, float]) -> None:
    for k, node in enumerate(row):
        column[node] = k - (len(row) - 1) / 2

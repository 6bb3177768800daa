"""What the recognizers of groups ask about operations."""

import math
from dataclasses import dataclass

from sw.frontends.stablehlo.graph import Graph
from sw.frontends.stablehlo.records import Op


class Matcher:
    """A graph with the makers of its values. It is asked before anything is replaced."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.makers, self.uses = graph, graph.makers(), graph.uses()

    def made(self, value: int, *kinds: str) -> Op | None:
        """The operation that makes a value, if it is of one of the kinds."""
        op = self.makers.get(value)
        return op if op is not None and op.kind in kinds else None

    def pairs(self, value: int, kind: str) -> list[tuple[int, int]]:
        """The operands of the operation that makes a value, in both orders if it commutes."""
        op = self.made(value, kind)
        if op is None or len(op.operands) != 2:
            return []
        a, b = op.operands
        return [(a, b), (b, a)] if kind in ("add", "multiply", "maximum") else [(a, b)]

    def reduced(self, value: int, kind: str, reducer: str = "") -> "Reduced | None":
        """The reduction of which a value is the result, maybe with dimensions of size 1 again."""
        shape = self.graph.shape(value)
        while (op := self.made(value, "reshape", "broadcast_in_dim")) is not None:
            if math.prod(self.graph.shape(op.operands[0])) != math.prod(shape):
                return None
            value = op.operands[0]
        op = self.made(value, kind)
        if op is None or (reducer and op.attributes.get("reducer") != reducer):
            return None
        source = op.operands[0]
        dims = tuple(int(d) for d in op.attributes["dimensions"])
        size = self.graph.shape(source)
        kept = tuple(1 if d in dims else n for d, n in enumerate(size))
        if shape not in (kept, tuple(n for d, n in enumerate(size) if d not in dims)):
            return None
        return Reduced(source=source, dims=dims, is_kept=shape == kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """A reduction of `source`. is_kept: its dimensions are of size 1, and not gone."""

    source: int
    dims: tuple[int, ...]
    is_kept: bool

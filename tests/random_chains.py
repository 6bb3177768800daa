"""Random graphs of elementwise operators and reductions that share tensors."""

import numpy as np
from compiler_graphs import rescale, zero_point

from sw.compiler.tosa.graph import Graph

Rng = np.random.Generator
_INT32 = ("ADD", "SUB", "MAXIMUM", "MINIMUM", "BITWISE_XOR", "ARITHMETIC_RIGHT_SHIFT", "MUL")
_REDUCTIONS = ("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN")


class _Net:
    def __init__(self, rng: Rng) -> None:
        self.rng, self.graph = rng, Graph(name="chain")
        rank = int(rng.integers(1, 5))
        self.shape = tuple(int(v) for v in rng.choice([1, 2, 3, 4, 8, 17, 24], rank))
        self.values: list[str] = []
        self.narrow: list[str] = []
        for i in range(3):
            self.values.append(self.graph.add_input(f"x{i}", self._part(), "int32"))

    def _part(self) -> tuple[int, ...]:
        return tuple(n if self.rng.integers(3) else 1 for n in self.shape)

    def _pick(self) -> str:
        recent = self.rng.integers(4) > 0
        return self.values[-1] if recent else str(self.rng.choice(self.values))

    def _small(self, x: str) -> str:
        """Values below 2^7, so that products and shifts stay in range."""
        return rescale(self.graph, x, 2.0**-24, int(self.rng.integers(-5, 6)), "int8")

    def _by_channel(self, x: str) -> str:
        """RESCALE with a multiplier for each channel, perhaps after a bias."""
        g, channels = self.graph, self.graph.tensors[x].shape[-1]
        if self.rng.integers(2):
            bias = self.rng.integers(-(1 << 20), 1 << 20, channels)
            shape = (*[1] * (len(self.shape) - 1), channels)
            x = g.add_op("ADD", [x, g.add_constant("bias", bias.reshape(shape), "int32")])
        return rescale(g, x, list(self.rng.uniform(0.1, 0.9, channels)), 0, "int32")

    def _constant(self, kind: int) -> str:
        """One small or one large number, or one for each channel: random, or all neutral."""
        rng, rank = self.rng, len(self.shape)
        if kind == 3:
            neutral = np.full((*[1] * (rank - 1), self.shape[-1]), rng.integers(-1, 2))
            return self.graph.add_constant("c", neutral, "int32")
        if kind < 2:
            value = rng.integers(-100, 100) if kind else rng.integers(-(1 << 30), 1 << 30)
            return self.graph.add_constant("c", np.full((1,) * rank, value), "int32")
        values = rng.integers(-(1 << 20), 1 << 20, self.shape[-1])
        return self.graph.add_constant("c", values.reshape(*[1] * (rank - 1), -1), "int32")

    def _scaled(self, x: str) -> str:
        """A factor and an offset for each channel, either of which may be 0 or 1, and a RESCALE."""
        g, rng = self.graph, self.rng
        small = g.add_op("CAST", [self._small(x)], out_dtype="int32")
        out = g.add_op("MUL", [small, self._constant(2 + int(rng.integers(2))), zero_point(g, 0)])
        out = g.add_op("ADD", [out, self._constant(2 + int(rng.integers(2)))])
        return rescale(g, out, 2.0 ** -int(rng.integers(1, 20)), 0, "int32")

    def grow(self) -> None:
        g, rng = self.graph, self.rng
        x, y = self._pick(), self._pick()
        kind = int(rng.integers(10))
        if kind == 0:
            reduction = str(rng.choice(_REDUCTIONS))
            out = g.add_op(reduction, [x], {"axis": int(rng.integers(len(self.shape)))})
        elif kind == 1:
            narrow = self._small(x)
            table = g.add_constant("table", rng.integers(-128, 128, 256), "int8")
            narrow = g.add_op("CLAMP", [narrow], {"min_val": -90, "max_val": 100})
            out = g.add_op("CAST", [g.add_op("TABLE", [narrow, table])], out_dtype="int32")
        elif kind == 2:
            chosen = g.add_op("GREATER", [x, y])
            out = g.add_op("SELECT", [chosen, y, self._pick()])
        elif kind == 3:
            out = g.add_op("CLZ", [x])
        elif kind == 6:
            out = self._by_channel(x)
        elif kind == 7:
            constant = self._constant(int(rng.integers(4)))
            operator = str(rng.choice(["ADD", "SUB", "MAXIMUM", "MINIMUM", "BITWISE_AND"]))
            operands = [x, constant] if rng.integers(3) else [constant, x]
            out = g.add_op(operator, operands)
        elif kind == 9:
            out = self._scaled(x)
        elif kind == 8:
            dtype = str(rng.choice(["int8", "int16"]))
            narrow = rescale(g, x, 2.0 ** -int(rng.integers(3, 20)), 0, dtype)
            self.narrow.append(narrow)
            if dtype == "int16" and rng.integers(2):
                table = g.add_constant("table", rng.integers(-3000, 3000, 513), "int16")
                out = g.add_op("TABLE", [narrow, table])
            else:
                out = g.add_op("CAST", [narrow], out_dtype="int32")
        else:
            operator = str(rng.choice(_INT32))
            operands = [x, y]
            if operator == "MUL":
                small = [g.add_op("CAST", [self._small(v)], out_dtype="int32") for v in (x, y)]
                operands = [*small, zero_point(g, 0)]
            if operator == "ARITHMETIC_RIGHT_SHIFT":
                shift = g.add_constant("by", np.full((1,) * len(self.shape), 3), "int32")
                operands = [x, shift]
            out = g.add_op(operator, operands)
        self.values.append(out)


def random_chain(seed: int) -> Graph:
    """Up to 12 groups of operators; the last value and perhaps another are outputs."""
    rng = np.random.default_rng(seed)
    net = _Net(rng)
    for _ in range(int(rng.integers(2, 13))):
        net.grow()
    g = net.graph
    others = [v for v in (*net.values[3:-1], *net.narrow) if rng.integers(6) == 0]
    g.outputs = [*others, net.values[-1]]
    g.verify()
    return g

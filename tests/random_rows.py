"""Random graphs of a product of two activations and steps on its rows."""

import numpy as np
from compiler_graphs import rescale, zero_point

from spec.sequences import softmax
from spec.sequences.softmax import attention_weights
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.sequences import emit

_REDUCTIONS = ("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN")
_MASKS = ((1, 1, 1), (1, 0, 1), (0, 1, 0), (0, 0, 1))
"""By dimension whether a second operand of the rows has all elements there, or one."""


def _product(g: Graph, sizes: tuple[int, int, int, int], turned: bool) -> str:
    """q · kᵀ of `sizes`: images, rows, columns, depth; `turned`: k as it lies in memory."""
    images, rows, columns, depth = sizes
    a = g.add_input("a", (images, rows, depth), "int8")
    if turned:
        b = g.add_input("b", (images, columns, depth), "int8")
        b = g.add_op("TRANSPOSE", [b], {"perms": (0, 2, 1)})
    else:
        b = g.add_input("b", (images, depth, columns), "int8")
    return g.add_op("MATMUL", [a, b, zero_point(g, 3), zero_point(g, -2)])


def attention(
    sizes: tuple[int, int, int, int], *, late: bool = True, mask: bool = False, turned: bool = False
) -> Graph:
    """Softmax of q · kᵀ; `late`: its weights and the factors of its rows instead."""
    g = Graph(name="attention")
    x = _product(g, sizes, turned)
    images, rows, columns, depth = sizes
    shape, scale = (images, rows, columns), 6 / (5500 * depth**0.5)
    inputs = [x, g.add_input("mask", (1, 1, columns), "int32")] if mask else [x]
    sequence = softmax(shape, scale, mask=mask)
    if late:
        sequence, _ = attention_weights(shape, scale, mask=mask)
    g.outputs = emit(g, sequence, inputs, name="softmax")
    g.verify()
    return g


class _Rows:
    """Grows a graph: `wide` values have all columns, `narrow` ones have one element a row."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.graph = rng, Graph(name="rows")
        images, rows = int(rng.integers(1, 4)), int(rng.integers(2, 40))
        columns, depth = int(rng.integers(17, 150)), int(rng.integers(12, 30))
        self.shape = (images, rows, columns)
        turned = bool(rng.integers(2))
        self.wide = [_product(self.graph, (images, rows, columns, depth), turned)]
        self.narrow: list[str] = []
        self.results: list[str] = []

    def _pick(self, values: list[str]) -> str:
        return values[-1] if self.rng.integers(3) else str(self.rng.choice(values))

    def _byte(self, x: str) -> str:
        return rescale(self.graph, x, 2.0 ** -int(self.rng.integers(8, 16)), 0, "int8")

    def _operand(self) -> str:
        """Another tensor in memory."""
        spans = _MASKS[int(self.rng.integers(len(_MASKS)))]
        shape = tuple(n if s else 1 for n, s in zip(self.shape, spans, strict=True))
        name = f"m{len(self.graph.inputs)}"
        return self.graph.add_input(name, shape, "int32")

    def _widened(self, x: str) -> str:
        """An int8 copy of a value, which may be a result, as int32 again."""
        narrow = self._byte(x)
        if self.rng.integers(2):
            table = self.graph.add_constant("t", self.rng.integers(-128, 128, 256), "int8")
            narrow = self.graph.add_op("TABLE", [narrow, table])
        self.results.append(narrow)
        return self.graph.add_op("CAST", [narrow], out_dtype="int32")

    def grow(self) -> None:
        """One more operator, or a few."""
        g, rng = self.graph, self.rng
        kind, x = int(rng.integers(8)), self._pick(self.wide)
        if kind < 2:
            reduction = str(rng.choice(_REDUCTIONS))
            self.narrow.append(g.add_op(reduction, [x], {"axis": 2}))
        elif kind < 4 and self.narrow:
            operands = [x, self._pick(self.narrow)]
            operator = str(rng.choice(["ADD", "SUB", "MAXIMUM", "MINIMUM", "MUL"]))
            if operator == "MUL":
                small = [g.add_op("CAST", [self._byte(v)], out_dtype="int32") for v in operands]
                operands = [*small, zero_point(g, 0)]
            self.wide.append(g.add_op(operator, operands))
        elif kind == 4 and len(self.narrow) > 1:
            pair = [self._pick(self.narrow), str(rng.choice(self.narrow))]
            self.narrow.append(g.add_op(str(rng.choice(["ADD", "SUB", "MAXIMUM"])), pair))
        elif kind == 5:
            self.wide.append(self._widened(x))
        elif kind == 6:
            self.wide.append(g.add_op("SUB", [x, self._operand()]))
        elif self.narrow:
            self.narrow.append(g.add_op("CLZ", [g.add_op("ABS", [self._pick(self.narrow)])]))


def random_rows(seed: int) -> Graph:
    """Up to 12 groups of operators on the rows of a product; up to three outputs."""
    rng = np.random.default_rng(seed)
    net = _Rows(rng)
    for _ in range(int(rng.integers(3, 13))):
        net.grow()
    g = net.graph
    others = [v for v in (*net.results, *net.narrow) if rng.integers(4) == 0]
    last = rescale(g, net.wide[-1], 2.0 ** -int(rng.integers(6, 14)), 0, "int8")
    g.outputs = list(dict.fromkeys([last, *others[:2]]))
    g.verify()
    return g

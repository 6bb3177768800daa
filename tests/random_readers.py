"""Random networks whose tensors have several readers: as int16 by sums, as int8 by products."""

import numpy as np
from compiler_graphs import rescale, zero_point

from sw.compiler.tosa.graph import Graph

Rng = np.random.Generator


class _Net:
    """`values`: int16 tensors of rank 4 that later operators read."""

    def __init__(self, rng: Rng) -> None:
        self.rng, self.graph = rng, Graph(name="readers")
        height, width = (int(v) for v in rng.integers(2, 8, 2))
        channels = int(rng.choice([3, 8, 16, 20, 33]))
        x = self.graph.add_input("x", (1, height, width, channels), "int16")
        self.values = [x]

    def run(self, operators: int) -> Graph:
        for _ in range(operators):
            made = getattr(self, f"_{self.rng.choice(OPERATORS)}")(self._pick())
            self.values.append(made)
        read = {name for op in self.graph.ops for name in op.inputs}
        self.graph.outputs = [name for name in self.values[1:] if name not in read]
        return self.graph

    def _pick(self) -> str:
        recent = self.rng.integers(3) > 0
        return self.values[-1] if recent else str(self.rng.choice(self.values))

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].shape

    def _like(self, x: str) -> str:
        same = [y for y in self.values if self._shape(y) == self._shape(x)]
        return str(self.rng.choice(same))

    def _narrow(self, x: str) -> str:
        """The int8 copy; one that is there already as often as not."""
        for op in self.graph.ops:
            known = op.kind == "RESCALE" and op.inputs[0] == x
            if known and self.graph.tensors[op.outputs[0]].dtype == "int8" and self.rng.integers(2):
                return op.outputs[0]
        return rescale(self.graph, x, 2.0**-8 * float(self.rng.uniform(0.7, 1.6)), 3)

    def _scales(self, x: str, scale: float) -> float | list[float]:
        channels = self._shape(x)[3]
        return list(self.rng.uniform(0.5, 1.5, channels) * scale) if channels > 1 else scale

    def _clamped(self, x: str) -> str:
        if self.rng.integers(2):
            return x
        return self.graph.add_op("CLAMP", [x], {"min_val": 0, "max_val": 30000})

    def _conv(self, x: str, out: int = 0) -> str:
        g, rng = self.graph, self.rng
        narrow, c, out = self._narrow(x), self._shape(x)[3], out or int(rng.choice([4, 16, 20]))
        k = int(rng.choice([1, 3]))
        weight = g.add_constant("w", rng.integers(-100, 101, (out, k, k, c)), "int8")
        bias = g.add_constant("bias", rng.integers(-3000, 3000, out), "int32")
        pad = (k // 2,) * 4
        y = g.add_op(
            "CONV2D", [narrow, weight, bias, zero_point(g, 3), zero_point(g, 0)], {"pad": pad}
        )
        return self._clamped(rescale(g, y, self._scales(y, 0.4 / (k * c**0.5)), 0, "int16"))

    def _depthwise(self, x: str) -> str:
        g, rng = self.graph, self.rng
        narrow, c = self._narrow(x), self._shape(x)[3]
        weight = g.add_constant("w", rng.integers(-100, 101, (3, 3, c, 1)), "int8")
        bias = g.add_constant("bias", rng.integers(-3000, 3000, c), "int32")
        y = g.add_op(
            "DEPTHWISE_CONV2D",
            [narrow, weight, bias, zero_point(g, 3), zero_point(g, 0)],
            {"pad": (1, 1, 1, 1)},
        )
        return self._clamped(rescale(g, y, self._scales(y, 0.1), 0, "int16"))

    def _groups(self, x: str) -> str:
        """Convolutions side by side, which a CONCAT joins; perhaps what follows it, too."""
        out = int(self.rng.choice([4, 8, 17]))
        parts = [self._conv(x, out) for _ in range(int(self.rng.integers(2, 4)))]
        joined = self.graph.add_op("CONCAT", parts, {"axis": 3})
        kind = int(self.rng.integers(3))
        self.values += [joined] if self.rng.integers(2) else [joined, parts[0]]
        if kind == 0:
            scales = self._scales(joined, 0.9)
            return self._clamped(rescale(self.graph, joined, scales, 0, "int16"))
        return self._pool(joined) if kind == 1 else self._sum_of(joined, self._like(joined))

    def _concat(self, x: str) -> str:
        axis = int(self.rng.integers(1, 4))
        return self.graph.add_op("CONCAT", [x, self._like(x)], {"axis": axis})

    def _slice(self, x: str) -> str:
        g, shape = self.graph, list(self._shape(x))
        axis = int(self.rng.integers(1, 4))
        start = [0] * 4
        start[axis] = int(self.rng.integers(shape[axis]))
        shape[axis] -= start[axis]
        operands = [g.add_constant("start", start, "shape"), g.add_constant("size", shape, "shape")]
        return g.add_op("SLICE", [x, *operands])

    def _sum(self, x: str) -> str:
        return self._sum_of(x, self._like(x))

    def _sum_of(self, x: str, y: str) -> str:
        g, rng = self.graph, self.rng
        a, b = (rescale(g, n, float(rng.choice([1.0, 4.0, 0.7])), 0, "int32") for n in (x, y))
        return self._clamped(rescale(g, g.add_op("ADD", [a, b]), 0.3, 0, "int16"))

    def _scale(self, x: str) -> str:
        return self._clamped(rescale(self.graph, x, float(self.rng.uniform(0.4, 1.2)), 0, "int16"))

    def _table(self, x: str) -> str:
        g = self.graph
        data = self.rng.integers(-128, 128, 256)
        y = g.add_op("TABLE", [self._narrow(x), g.add_constant("t", data, "int8")])
        return rescale(g, y, 100.0, 0, "int16")

    def _transpose(self, x: str) -> str:
        perms = tuple(int(p) for p in self.rng.permutation([1, 2, 3]))
        return self.graph.add_op("TRANSPOSE", [x], {"perms": (0, *perms)})

    def _mean(self, x: str) -> str:
        """The mean of the whole plane, as a scale for each channel."""
        g, (_, h, w, _) = self.graph, self._shape(x)
        zeros = [zero_point(g, 0, "int16") for _ in range(2)]
        mean = g.add_op(
            "AVG_POOL2D", [x, *zeros], {"kernel": (h, w), "stride": (1, 1), "pad": (0, 0, 0, 0)}
        )
        wide = [g.add_op("CAST", [n], out_dtype="int32") for n in (x, mean)]
        y = g.add_op("MUL", [*wide, g.add_constant("s", [0], "int8")])
        return rescale(g, y, 2.0**-14, 0, "int16")

    def _pool(self, x: str) -> str:
        if min(self._shape(x)[1:3]) < 2:
            return self._scale(x)
        attributes = {"kernel": (2, 2), "stride": (1, 1), "pad": (0, 0, 0, 0)}
        return self.graph.add_op("MAX_POOL2D", [x], attributes)


OPERATORS = [
    *("conv", "conv", "depthwise", "groups", "groups", "concat", "slice"),
    *("sum", "sum", "scale", "table", "transpose", "mean", "pool"),
]


def random_readers(seed: int, operators: int = 9) -> Graph:
    """A network of about so many operators."""
    return _Net(np.random.default_rng(seed)).run(operators)

"""Graphs whose operators all belong to the layer of one product."""

import numpy as np
from compiler_graphs import rescale, zero_point

from sw.compiler.tosa.graph import Graph


def products(g: Graph, kind: str, rows: int, depth: int, channels: int) -> str:
    """An int32 CONV2D 1 x 1 or 3 x 3, DEPTHWISE_CONV2D, TRANSPOSE_CONV2D or MATMUL."""
    rng = np.random.default_rng(1)
    if kind == "matmul":
        a = g.add_input("a", (2, rows, depth))
        b = g.add_input("b", (2, depth, channels))
        return g.add_op("MATMUL", [a, b, zero_point(g, -7), zero_point(g, 2)])
    if kind == "depthwise":
        return depthwise(g, rows, channels)
    if kind == "transposed":
        return transposed(g, rows, depth, channels)
    k = 3 if kind == "conv" else 1
    x = g.add_input("x", (1, rows, 2, depth))
    weight = g.add_constant("w", rng.integers(-127, 128, (channels, k, k, depth)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, channels), "int32")
    pad = (k // 2,) * 4
    operands = [x, weight, bias, zero_point(g, 5), zero_point(g, 0)]
    return g.add_op("CONV2D", operands, {"pad": pad, "stride": (1, 1)})


def depthwise(g: Graph, rows: int, channels: int) -> str:
    """A 3 x 3 kernel."""
    rng = np.random.default_rng(2)
    x = g.add_input("x", (1, rows, 2, channels))
    weight = g.add_constant("w", rng.integers(-127, 128, (3, 3, channels, 1)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, channels), "int32")
    operands = [x, weight, bias, zero_point(g, 5), zero_point(g, 0)]
    return g.add_op("DEPTHWISE_CONV2D", operands, {"pad": (1, 1, 1, 1), "stride": (1, 1)})


def transposed(g: Graph, rows: int, depth: int, channels: int) -> str:
    """A 3 x 2 kernel with stride 2 down and 1 to the right."""
    rng = np.random.default_rng(3)
    x = g.add_input("x", (1, rows, 2, depth))
    weight = g.add_constant("w", rng.integers(-127, 128, (channels, 3, 2, depth)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, channels), "int32")
    operands = [x, weight, bias, zero_point(g, 5), zero_point(g, 0)]
    return g.add_op("TRANSPOSE_CONV2D", operands, {"out_pad": (0, 0, 0, 0), "stride": (2, 1)})


def scales(g: Graph, x: str, low: float, many: bool) -> float | list[float]:
    n = g.tensors[x].shape[-1]
    return [low * (1 + i % 7 / 5) for i in range(n)] if many and n > 1 else low


def gelu(g: Graph, x: str) -> str:
    """RESCALE to int16, interpolated TABLE, RESCALE to int8: per channel both."""
    t = np.linspace(-5, 5, 513)
    entries = np.rint(t / (1 + np.exp(-1.7 * t)) * 6000).astype(np.int16)
    y = rescale(g, x, scales(g, x, 0.4, True), 0, "int16")
    y = g.add_op("TABLE", [y, g.add_constant("gelu", entries, "int16")])
    return rescale(g, y, scales(g, y, 0.00003, True), -100)


def by_row(kind: str, *, bias: bool, reshaped: bool, dtype: str = "int8") -> Graph:
    """A product times one int32 a row, plus a constant per channel, RESCALE per channel."""
    g = Graph()
    lead = (2, 11) if kind == "matmul" else (1, 11, 2)
    lead = (1, *lead) if reshaped else lead
    rows = g.add_op("ABS", [g.add_input("rows", (*lead, 1), "int32")])
    y, shape = products(g, kind, 11, 20, 37), (*lead, 37)
    if reshaped:
        y = g.add_op("RESHAPE", [y, g.add_constant("shape", shape, "shape")])
    shift = g.add_constant("shift", [13], "int8")
    y = g.add_op("MUL", [y, rows, shift])
    if bias:
        at = (*(1 for _ in shape[:-1]), shape[-1])
        steps = np.random.default_rng(3).integers(-1 << 20, 1 << 20, at)
        y = g.add_op("ADD", [g.add_constant("more", steps, "int32"), y])
    g.outputs = [rescale(g, y, scales(g, y, 0.0001, True), 0, dtype)]
    return g


def residual(*, reshaped: bool, turned: bool = False, reads: int = 1) -> Graph:
    """RESCALE(product) + RESCALE(r) as int32, and a RESCALE to int16, in a shape of rank 3."""
    g = Graph()
    y = products(g, "pointwise", 12, 20, 24)
    r_shape = g.tensors[y].shape
    if reshaped:
        r_shape = (1, 24, 24)
        y = g.add_op("RESHAPE", [y, g.add_constant("shape", r_shape, "shape")])
    r = g.add_input("r", r_shape, "int16")
    a = rescale(g, y, scales(g, y, 700.0, True), 0, "int32")
    b = rescale(g, r, 77.0, 0, "int32")
    total = g.add_op("ADD", [b, a] if turned else [a, b])
    g.outputs = [rescale(g, total, 0.002, 0, "int16")]
    if reads > 1:
        g.outputs.append(a)
    return g

"""Graphs of attention: heads split and joined by RESHAPE and TRANSPOSE around two MATMULs."""

import numpy as np
from compiler_graphs import rescale, zero_point

from spec.sequences import softmax
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.sequences import emit


def shaped(g: Graph, x: str, *shape: int) -> str:
    return g.add_op("RESHAPE", [x, g.add_constant("shape", shape, "shape")])


def permuted(g: Graph, x: str, *perms: int) -> str:
    return g.add_op("TRANSPOSE", [x], {"perms": perms})


def product(g: Graph, a: str, b: str, scale: float, zps: tuple[int, int]) -> str:
    operands = [a, b, zero_point(g, zps[0]), zero_point(g, zps[1])]
    return rescale(g, g.add_op("MATMUL", operands), scale, 3)


def attention(
    rng: np.random.Generator, batch: int, heads: int, rows: int, keys: int, size: int
) -> Graph:
    """Scores and context of `heads`, without a softmax between; all in [batch, rows, channels]."""
    g = Graph(name="attention")
    wide = heads * size
    zps = [int(v) for v in rng.integers(-9, 10, 4)]
    q, k, v = (
        shaped(g, g.add_input(name, (batch, n, wide)), batch, n, heads, size)
        for name, n in (("q", rows), ("k", keys), ("v", keys))
    )
    q = shaped(g, permuted(g, q, 0, 2, 1, 3), batch * heads, rows, size)
    if rng.integers(2):
        k = shaped(g, permuted(g, k, 0, 2, 3, 1), batch * heads, size, keys)
    else:
        k = shaped(g, permuted(g, k, 0, 2, 1, 3), batch * heads, keys, size)
        k = permuted(g, k, 0, 2, 1)
    v = shaped(g, permuted(g, v, 0, 2, 1, 3), batch * heads, keys, size)
    scores = product(g, q, k, 1 / (70 * size**0.5), (zps[0], zps[1]))
    out = product(g, scores, v, 1 / (70 * keys**0.5), (zps[2], zps[3]))
    out = permuted(g, shaped(g, out, batch, heads, rows, size), 0, 2, 1, 3)
    g.outputs = [shaped(g, out, batch, rows, wide)]
    g.verify()
    return g


def self_attention(windows: int, heads: int, rows: int, size: int, wide: int) -> Graph:
    """softmax(q·kᵀ)·v of windows of rows; one product of x has queries, keys and values in it."""
    g, rng = Graph(name="self_attention"), np.random.default_rng(4)
    channels = 3 * heads * size
    x = g.add_input("x", (1, windows * rows, 1, wide))
    weight = g.add_constant("w", rng.integers(-127, 128, (channels, 1, 1, wide)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, channels), "int32")
    y = g.add_op("CONV2D", [x, weight, bias, zero_point(g, 0), zero_point(g, 0)])
    y = shaped(g, rescale(g, y, 1 / (70 * wide**0.5)), windows, rows, 3, heads, size)
    parts = []
    for i in range(3):
        start = g.add_constant("start", (0, 0, i, 0, 0), "shape")
        extent = g.add_constant("size", (windows, rows, 1, heads, size), "shape")
        part = shaped(g, g.add_op("SLICE", [y, start, extent]), windows, rows, heads, size)
        parts.append(permuted(g, part, 0, 2, 3, 1) if i == 1 else permuted(g, part, 0, 2, 1, 3))
    each = windows * heads
    q, v = (shaped(g, part, each, rows, size) for part in parts[::2])
    k = shaped(g, parts[1], each, size, rows)
    scores = g.add_op("MATMUL", [q, k, zero_point(g, 0), zero_point(g, 0)])
    (p,) = emit(g, softmax((each, rows, rows), 1e-3), [scores], name="softmax")
    out = g.add_op("MATMUL", [p, v, zero_point(g, -128), zero_point(g, 0)])
    g.outputs = [rescale(g, out, 0.003)]
    g.verify()
    return g

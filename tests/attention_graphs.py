"""Graphs of attention: heads split and joined by RESHAPE and TRANSPOSE around two MATMULs."""

import numpy as np
from compiler_graphs import rescale, zero_point

from sw.compiler.tosa.graph import Graph


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

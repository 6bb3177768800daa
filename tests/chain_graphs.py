"""Graphs that become one chain: norms, softmax of a product."""

import numpy as np
from compiler_graphs import rescale, zero_point

from spec.sequences import layer_norm, softmax
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.sequences import emit


def norm(rows: int, size: int) -> Graph:
    """Layer norm to int16, and the same to int8 with a scale for each channel."""
    g, rng = Graph(name="norm"), np.random.default_rng(0)
    x = g.add_input("x", (1, rows, size), "int16")
    gamma, beta = rng.uniform(0.5, 1.5, size), rng.normal(size=size)
    (y,) = emit(g, layer_norm((1, rows, size), 1e-3, 1e-5, gamma, beta, 1e-3), [x], name="norm")
    g.outputs = [y, rescale(g, y, list(rng.uniform(0.01, 0.03, size)), 0, "int8")]
    g.verify()
    return g


def scores(rows: int, keys: int, depth: int, *, mask: bool) -> Graph:
    """Softmax of the product of six images, two by three; `mask`: added for each of the two."""
    g = Graph(name="scores")
    a, b = g.add_input("a", (6, rows, depth), "int8"), g.add_input("b", (6, depth, keys), "int8")
    x = g.add_op("MATMUL", [a, b, zero_point(g, 3), zero_point(g, -2)])
    shape = (2, 3, rows, keys)
    x = g.add_op("RESHAPE", [x, g.add_constant("shape", shape, "shape")])
    inputs = [x, g.add_input("mask", (2, 1, 1, keys), "int32")] if mask else [x]
    g.outputs = emit(g, softmax(shape, 1e-3, mask=mask), inputs, name="softmax")
    g.verify()
    return g

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


def norms_in_a_row(rows: int, size: int) -> Graph:
    """A norm of what a norm makes, in more operators than most chains have."""
    g, rng = Graph(name="norms"), np.random.default_rng(0)
    x = g.add_input("x", (1, rows, size), "int16")
    for i in range(2):
        x = rescale(g, _norm(g, rng, x, f"norm{i}"), 200.0, 0, "int16", 3)
    g.outputs = [x]
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


def norms_and_products(rows: int, size: int, wide: int) -> Graph:
    """Norm, product, RESCALE, norm, product: each follows the one before row by row."""
    g, rng = Graph(name="block"), np.random.default_rng(rows)
    x = g.add_input("x", (1, rows, size), "int16")
    for i, outer in enumerate((wide, size)):
        x = _norm(g, rng, x, f"norm{i}")
        x = _product(g, rng, x, outer)
    g.outputs = [x]
    g.verify()
    return g


def products_around_a_norm(rows: int, size: int, wide: int, *, given: bool = False) -> Graph:
    """Product of `wide` to `size` channels, whose bias may be `given` as an input, norm, product
    back.
    """
    g, rng = Graph(name="around"), np.random.default_rng(rows)
    x = g.add_input("x", (1, rows, wide), "int8")
    bias = g.add_input("given", (size,), "int32") if given else ""
    x = _norm(g, rng, _product(g, rng, x, size, bias), "norm")
    g.outputs = [_product(g, rng, x, wide)]
    g.verify()
    return g


def _norm(g: Graph, rng: np.random.Generator, x: str, name: str) -> str:
    """Layer norm of int16 to int8."""
    shape = g.tensors[x].shape
    gamma, beta = rng.uniform(0.5, 1.5, shape[-1]), rng.normal(size=shape[-1])
    (y,) = emit(g, layer_norm(shape, 1e-3, 1e-5, gamma, beta, 1e-3), [x], name=name)
    return rescale(g, y, 0.02, 3, "int8")


def _product(g: Graph, rng: np.random.Generator, x: str, outer: int, bias: str = "") -> str:
    """Product of int8 to `outer` channels of int16; without `bias` it has a constant one."""
    _, rows, inner = g.tensors[x].shape
    x = g.add_op("RESHAPE", [x, g.add_constant("shape", (1, rows, 1, inner), "shape")])
    weight = g.add_constant("w", rng.integers(-100, 101, (outer, 1, 1, inner)), "int8")
    bias = bias or g.add_constant("bias", rng.integers(-3000, 3000, outer), "int32")
    x = g.add_op("CONV2D", [x, weight, bias, zero_point(g, 3), zero_point(g, 0)])
    x = rescale(g, x, 0.01, 0, "int16")
    return g.add_op("RESHAPE", [x, g.add_constant("shape", (1, rows, outer), "shape")])

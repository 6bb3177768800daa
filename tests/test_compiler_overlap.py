"""Chains and products that do not need one another: order, places, and the same bits."""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point

from spec import PRESETS, preset
from spec.sequences import softmax
from sw.compiler.layers import ConvLayer
from sw.compiler.map_layer import MapLayer
from sw.compiler.pipeline import Compilation, run_stages
from sw.compiler.sequences import emit
from sw.compiler.tosa import Graph


def linear(g: Graph, x: str, channels: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    c = g.tensors[x].shape[-1]
    weight = g.add_constant("w", rng.integers(-127, 128, (channels, 1, 1, c)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, channels), "int32")
    y = g.add_op("CONV2D", [x, weight, bias, zero_point(g, 0), zero_point(g, 0)])
    return rescale(g, y, 0.004)


def attention(rows: int, size: int) -> Graph:
    """softmax(q·wᵀ) · v, v computed before the scores as PyTorch does."""
    g = Graph()
    x = g.add_input("x", (1, rows, 1, size))
    w = g.add_input("w", (1, size, rows))
    q, v = linear(g, x, size, 1), linear(g, x, size, 2)

    def matrix(name: str, shape: tuple[int, ...]) -> str:
        return g.add_op("RESHAPE", [name, g.add_constant("shape", shape, "shape")])

    zero = zero_point(g, 0)
    scores = g.add_op("MATMUL", [matrix(q, (1, rows, size)), w, zero, zero])
    (p,) = emit(g, softmax((1, rows, rows), 0.0001), [scores], name="softmax")
    values = matrix(v, (1, rows, size))
    out = g.add_op("MATMUL", [p, values, zero_point(g, -128), zero])
    g.outputs = [rescale(g, out, 0.003)]
    return g


def names(c: Compilation) -> list[str]:
    return [type(layer).__name__ for layer in c.layers.layers]


def test_values_are_computed_beside_the_softmax_of_the_scores() -> None:
    c = run_stages(attention(128, 256), preset("default"))
    assert names(c) == ["ConvLayer", "ConvLayer", "MapLayer", "ConvLayer", "ConvLayer"]
    assert [room.parts for room in c.residency.rooms] == [1, 1, 2, 2, 1]
    # They really mix: nodes of the product lie between those of the chain, on other engines.
    layers = [node.layer for node in c.draft.nodes]
    first, last = layers.index(2), len(layers) - 1 - layers[::-1].index(2)
    assert layers[first:last].count(3) > 5
    assert sum(c.predicted) < sum(plan.cycles for plan in c.plans)


def test_a_short_chain_leaves_the_order_alone() -> None:
    c = run_stages(attention(16, 32), preset("default"))
    assert [room.parts for room in c.residency.rooms] == [1] * len(c.layers.layers)


@pytest.mark.parametrize("config", list(PRESETS))
def test_overlapping_layers_are_exact(config: str) -> None:
    g = attention(96, 64)
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) == 96 * 64


def test_a_chain_and_a_product_that_needs_it_stay_apart() -> None:
    g = Graph()
    x = g.add_input("x", (1, 300, 1, 64))
    y = g.add_op("CLZ", [g.add_op("CAST", [x], out_dtype="int32")])
    y = g.add_op("CAST", [g.add_op("ABS", [y])], out_dtype="int8")
    g.outputs = [linear(g, y, 64, 1)]
    c = run_stages(g, preset("default"))
    assert isinstance(c.layers.layers[0], MapLayer) and isinstance(c.layers.layers[1], ConvLayer)
    assert [room.parts for room in c.residency.rooms] == [1, 1]

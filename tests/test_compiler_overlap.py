"""Chains and products that do not need one another: order, places, and the same bits."""

import numpy as np
import pytest
from attention_graphs import self_attention
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point

from spec import PRESETS, preset
from spec.isa import Engine
from spec.sequences import softmax
from sw.compiler.compilation import Compilation
from sw.compiler.kernels.budget import Overlap
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.layers import ConvLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.sequences import emit


def linear(g: Graph, x: str, channels: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    c = g.tensors[x].shape[-1]
    weight = g.add_constant("w", rng.integers(-127, 128, (channels, 1, 1, c)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, channels), "int32")
    y = g.add_op("CONV2D", [x, weight, bias, zero_point(g, 0), zero_point(g, 0)])
    return rescale(g, y, 0.004)


def mixture(rows: int, size: int) -> Graph:
    """softmax(s) · v: v is computed before the softmax, which does not need it."""
    g = Graph()
    scores = g.add_input("s", (1, rows, rows), "int32")
    x = g.add_input("x", (1, rows, 1, size))
    v = linear(g, linear(g, x, size, 1), size, 2)
    (p,) = emit(g, softmax((1, rows, rows), 1e-8), [scores], name="softmax")
    values = g.add_op("RESHAPE", [v, g.add_constant("shape", (1, rows, size), "shape")])
    out = g.add_op("MATMUL", [p, values, zero_point(g, -128), zero_point(g, 0)])
    g.outputs = [rescale(g, out, 0.003)]
    return g


def names(c: Compilation) -> list[str]:
    return [type(layer).__name__ for layer in c.layers.layers]


def test_a_product_is_computed_beside_a_chain_that_does_not_need_it() -> None:
    c = run_stages(mixture(128, 256), preset("default"))
    assert names(c) == ["ConvLayer", "ConvLayer", "FusedLayer", "ConvLayer"]
    assert [budget.overlap.parts for budget in c.residency.budgets] == [1, 2, 2, 1]
    # They really mix: nodes of the product lie between those of the chain, on other engines.
    layers = [node.layer for node in c.program.instructions]
    first, last = layers.index(2), len(layers) - 1 - layers[::-1].index(2)
    assert layers[first:last].count(1) > 5
    assert sum(c.predicted) < sum(plan.cycles for plan in c.plans)


def test_a_product_that_comes_earlier_is_put_behind_the_chain() -> None:
    """The product that the chain reads lies between them."""
    g = Graph()
    x = g.add_input("x", (1, 128, 1, 256))
    v, s = linear(g, x, 256, 1), linear(g, x, 128, 2)
    wide = rescale(g, s, 1000.0, 0, "int32")
    (p,) = emit(g, softmax((1, 128, 1, 128), 1e-5), [wide], name="softmax")
    g.outputs = [v, p]
    c = run_stages(g, preset("default"))
    assert names(c) == ["ConvLayer", "FusedLayer", "ConvLayer"]
    assert c.layers.layers[2].output.tensor == v
    assert [budget.overlap.parts for budget in c.residency.budgets] == [1, 2, 2]
    assert_compiles_exactly(g, preset("default"), random_inputs(g))


def test_a_short_chain_leaves_the_order_alone() -> None:
    c = run_stages(mixture(16, 32), preset("default"))
    assert [budget.overlap.parts for budget in c.residency.budgets] == [1] * len(c.layers.layers)


@pytest.mark.parametrize("config", [c.name for c in PRESETS.values() if c.lane_reductions])
def test_overlapping_layers_are_exact(config: str) -> None:
    g = mixture(96, 64)
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) == 96 * 64


def test_a_product_that_needs_a_chain_follows_it() -> None:
    g = Graph()
    x = g.add_input("x", (1, 300, 1, 64))
    y = g.add_op("CLZ", [g.add_op("CAST", [x], out_dtype="int32")])
    y = g.add_op("CAST", [g.add_op("ABS", [y])], out_dtype="int8")
    g.outputs = [linear(g, y, 64, 1)]
    c = run_stages(g, preset("default"))
    assert isinstance(c.layers.layers[0], FusedLayer) and isinstance(c.layers.layers[1], ConvLayer)
    assert [budget.overlap for budget in c.residency.budgets] == [Overlap.TILES] * 2


def test_values_are_computed_beside_the_softmax_of_an_attention() -> None:
    """Although it has a product of its own: that goes first, and theirs fills the gaps."""
    c = run_stages(self_attention(8, 3, 36, 16, 48), preset("default"))
    chain = names(c).index("FusedLayer")
    values = chain + 1
    assert c.layers.layers[values].name == "conv2d_part_4"
    assert [b.overlap for b in c.residency.budgets[chain : values + 1]] == [Overlap.CONCURRENT] * 2
    products = [x.layer for x in c.program.instructions if x.engine is Engine.MATRIX]
    mixed = products[products.index(chain) : len(products) - products[::-1].index(chain)]
    assert mixed.count(values) > 5
    # Its epilogue does not wait for the end of the softmax.
    assert c.predicted[values] < c.plans[values].cycles


@pytest.mark.parametrize("config", [c.name for c in PRESETS.values() if c.lane_reductions])
def test_values_beside_a_softmax_are_exact(config: str) -> None:
    g = self_attention(4, 3, 20, 16, 48)
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) == 12 * 20 * 16

"""A product of heads and samples becomes one for each head, where that saves copies."""

from collections import Counter

import numpy as np
import pytest
from attention_graphs import permuted, shaped
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point

from spec import preset
from sw.compiler.kernels.layers import ConvLayer, MoveLayer
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph

ROWS, SIZE = 24, 16


def context(samples: int, heads: int, *, factor: bool = False, rows: int = ROWS) -> Graph:
    """Weights times values [samples, rows, heads · size]; perhaps times a factor of each row."""
    g = Graph(name="context")
    p = g.add_input("p", (samples * heads, rows, rows))
    v = g.add_input("v", (samples, rows, heads * SIZE))
    v = permuted(g, shaped(g, v, samples, rows, heads, SIZE), 0, 2, 1, 3)
    v = shaped(g, v, samples * heads, rows, SIZE)
    y = g.add_op("MATMUL", [p, v, zero_point(g, -128), zero_point(g, 2)])
    if factor:
        each = g.add_input("f", (samples * heads, rows, 1), "int16")
        wide = g.add_op("CAST", [each], out_dtype="int32")
        y = g.add_op("MUL", [y, wide, g.add_constant("by", [13], "int8")])
    y = rescale(g, y, 1 / (90 * rows**0.5), 3)
    y = permuted(g, shaped(g, y, samples, heads, rows, SIZE), 0, 2, 1, 3)
    g.outputs = [shaped(g, y, samples, rows, heads * SIZE)]
    g.verify()
    return g


def kinds(g: Graph) -> Counter[str]:
    after = run_passes(g, preset("default"))
    inputs = random_inputs(g, 2)
    want, got = run_graph(g, inputs), run_graph(after, inputs)
    assert all(np.array_equal(want[n], got[n]) for n in want)
    return Counter(op.kind for op in after.ops)


@pytest.mark.parametrize("factor", [False, True])
def test_heads_are_read_and_written_where_they_lie(factor: bool) -> None:
    g = context(6, 3, factor=factor)
    found = kinds(g)
    assert (found["MATMUL"], found["TRANSPOSE"]) == (3, 0)
    layers = run_stages(g, preset("default")).layers.layers
    assert not any(isinstance(layer, MoveLayer) for layer in layers)
    assert sum(isinstance(layer, ConvLayer) for layer in layers) == 3


@pytest.mark.parametrize("name", ["tiny", "odd", "micro", "default"])
@pytest.mark.parametrize("factor", [False, True])
def test_they_are_exact(name: str, factor: bool) -> None:
    g = context(4, 5, factor=factor)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g)) > 0


@pytest.mark.parametrize(
    ("g", "why"),
    [
        (context(1, 4), "heads of one sample are equal steps"),
        (context(4, 1), "samples of one head are, too"),
        (context(2, 8, rows=4), "copies of a few bytes"),
    ],
)
def test_one_product_stays(g: Graph, why: str) -> None:
    assert kinds(g)["MATMUL"] == 1, why

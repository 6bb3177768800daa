"""TRANSPOSEs around matrix products: read and written in place, exactly."""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_model import Machine
from spec import preset
from sw.compiler.interpreter import run_graph
from sw.compiler.layers import ConvLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa import Graph

presets = st.sampled_from(["tiny", "rect", "odd", "default"])
seeds = st.integers(0, 1 << 30)


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


@given(
    name=presets,
    seed=seeds,
    sizes=st.tuples(*[st.integers(1, n) for n in (2, 4, 40, 40, 40)]),
)
@settings(max_examples=25, deadline=None)
def test_attention_of_any_shape_is_exact(name: str, seed: int, sizes: tuple[int, ...]) -> None:
    g = attention(np.random.default_rng(seed), *sizes)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g, seed)) > 0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["tiny", "rect", "odd", "default"])
def test_no_operand_of_attention_is_moved(name: str, seed: int) -> None:
    """Sizes of several tiles: the weights are loaded in parts, and ramped."""
    g = attention(np.random.default_rng(seed), 1, 3, 128, 96, 64)
    made = run_stages(g, preset(name))
    assert [type(layer) for layer in made.layers.layers] == [ConvLayer] * 2
    inputs = random_inputs(g, seed)
    got, want = Machine(preset(name)).run(made.image, inputs), run_graph(g, inputs)
    for key, array in want.items():
        np.testing.assert_array_equal(got[key], array)

"""TRANSPOSEs around matrix products: read and written in place, exactly."""

import numpy as np
import pytest
from attention_graphs import attention, permuted, product, shaped
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_model import Machine
from spec import preset
from sw.compiler.kernels.layers import ConvLayer, MoveLayer, TransposeLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph

presets = st.sampled_from(["tiny", "small", "rect", "odd", "default", "large"])
seeds = st.integers(0, 1 << 30)


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


def test_keys_of_several_images_are_copied_in_runs() -> None:
    """Images and heads are not one stride: queries and keys are copied by channels, while the
    product with the values is one of each head.
    """
    g = attention(np.random.default_rng(0), 2, 3, 16, 24, 32)
    made = run_stages(g, preset("default"))
    moves = [layer for layer in made.layers.layers if isinstance(layer, MoveLayer)]
    assert len(moves) == 2
    for move in moves:
        assert move.source_shape[-1] == 32 and move.source_strides[-1] == 1
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


@pytest.mark.parametrize("name", ["tiny", "small", "odd", "default"])
@pytest.mark.parametrize(("batch", "heads"), [(2, 3), (1, 3), (4, 1)])
def test_scores_of_several_images_are_read_where_they_lie(
    name: str, batch: int, heads: int
) -> None:
    """Images and heads are dimensions of their own in a layer of product and softmax."""
    g = Graph(name="scores")
    q, k = (
        permuted(
            g, shaped(g, g.add_input(n, (batch, 24, heads * 32)), batch, 24, heads, 32), *perms
        )
        for n, perms in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)))
    )
    q, k = shaped(g, q, batch * heads, 24, 32), shaped(g, k, batch * heads, 32, 24)
    operands = [q, k, zero_point(g, 3), zero_point(g, -2)]
    y = shaped(g, g.add_op("MATMUL", operands), batch, heads, 24, 24)
    most = g.add_op("REDUCE_MAX", [y], {"axis": 3})
    g.outputs = [rescale(g, g.add_op("SUB", [y, most]), 2.0**-10, 100)]
    config = preset(name)
    if config.cols <= 24 and config.transposed_weights:
        layers = run_stages(g, config).layers.layers
        assert not any(isinstance(layer, MoveLayer) for layer in layers)
    assert_compiles_exactly(g, config, random_inputs(g, 3))


def test_what_others_read_too_is_transposed_in_memory() -> None:
    g = Graph(name="shared")
    x, y = g.add_input("x", (2, 20, 24)), g.add_input("y", (2, 8, 20))
    both = permuted(g, x, 0, 2, 1)
    out = product(g, y, permuted(g, both, 0, 2, 1), 0.01, (1, -2))
    g.outputs = [out, both]
    made = run_stages(g, preset("tiny"))
    assert [type(layer) for layer in made.layers.layers].count(TransposeLayer) == 1
    assert assert_compiles_exactly(g, preset("tiny"), random_inputs(g)) > 0


def test_without_transposed_weights_columns_are_gathered() -> None:
    config = preset("tiny").with_settings({"transposed_weights": "false"})
    g = attention(np.random.default_rng(3), 1, 2, 12, 20, 8)
    made = run_stages(g, config)
    layers = made.layers.layers
    assert sum(isinstance(layer, MoveLayer) for layer in layers) == 1
    assert not any(layer.transposed for layer in layers if isinstance(layer, ConvLayer))
    assert assert_compiles_exactly(g, config, random_inputs(g)) > 0


@given(name=presets, seed=seeds, perms=st.permutations(range(3)))
@settings(max_examples=15, deadline=None)
def test_elementwise_results_are_written_permuted(name: str, seed: int, perms: list[int]) -> None:
    """A chain, and a product with a sum behind it, before a TRANSPOSE that is an output."""
    rng = np.random.default_rng(seed)
    n, h, k, w = (int(v) for v in rng.integers(1, (4, 12, 12, 24)))
    g = Graph(name="written")
    a, b = g.add_input("a", (n, h, k)), g.add_input("b", (n, k, w))
    out = product(g, a, b, 0.01, (0, 0))
    factor = g.add_op("REDUCE_MAX", [g.add_input("f", (n, h, w), "int32")], {"axis": 2})
    many = g.add_op("SUB", [g.add_input("s", (n, h, w), "int32"), factor])
    g.outputs = [permuted(g, out, *perms), permuted(g, many, *perms)]
    g.verify()
    assert assert_compiles_exactly(g, preset(name), random_inputs(g, seed)) > 0

"""TRANSPOSEs around matrix products: read and written in place, exactly."""

import numpy as np
import pytest
from attention_graphs import attention
from compiler_graphs import assert_compiles_exactly, random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_model import Machine
from spec import preset
from sw.compiler.interpreter import run_graph
from sw.compiler.layers import ConvLayer
from sw.compiler.pipeline import run_stages

presets = st.sampled_from(["tiny", "rect", "odd", "default"])
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

"""Elementwise operators of int8 in a row are one TABLE."""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, conv, random_inputs, rescale

from spec import preset
from sw.compiler.kernels.layers import ConvLayer
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph

DEFAULT = preset("default")


def table(g: Graph, x: str, seed: int) -> str:
    data = np.random.default_rng(seed).integers(-128, 128, 256)
    return g.add_op("TABLE", [x, g.add_constant("t", data, "int8")])


def clamp(g: Graph, x: str) -> str:
    return g.add_op("CLAMP", [x], {"min_val": -70, "max_val": 90})


def chain(x: str, g: Graph) -> str:
    y = rescale(g, table(g, clamp(g, rescale(g, x, 0.7, 3, izp=-4)), 1), 1.3, 9, izp=2)
    return clamp(g, table(g, y, 2))


def kinds(g: Graph) -> list[str]:
    return [op.kind for op in run_passes(g, DEFAULT).ops]


@pytest.mark.parametrize("config", ["default", "tiny", "odd", "micro"])
def test_a_chain_of_int8_is_one_table(config: str) -> None:
    g = Graph(name="chain")
    g.outputs = [chain(g.add_input("x", (3, 7, 21)), g)]
    assert kinds(g) == ["TABLE"]
    assert_compiles_exactly(g, preset(config), random_inputs(g))


def test_what_follows_a_product_is_its_epilogue() -> None:
    g = Graph(name="product")
    y = conv(g, g.add_input("x", (1, 6, 7, 16)), 20, 1)
    g.outputs = [chain(y, g)]
    (layer,) = run_stages(g, DEFAULT).layers.layers
    assert isinstance(layer, ConvLayer) and len(layer.epilogue.passes) == 1
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


def test_one_step_and_its_clamp_stay() -> None:
    g = Graph(name="step")
    g.outputs = [clamp(g, rescale(g, g.add_input("x", (3, 9)), 0.7, 3))]
    assert kinds(g) == ["RESCALE", "CLAMP"]
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


def test_what_others_read_is_still_there() -> None:
    """A chain begins behind a tensor of several readers, or ends at an output."""
    g = Graph(name="readers")
    x = g.add_input("x", (2, 5, 17))
    y = table(g, rescale(g, x, 0.7, 3), 1)
    g.outputs = [rescale(g, y, 1.2), table(g, rescale(g, y, 0.9), 4), y]
    assert kinds(g) == ["TABLE", "RESCALE", "TABLE"]
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


def test_scales_of_channels_and_wider_types_are_no_table() -> None:
    g = Graph(name="others")
    y = rescale(g, g.add_input("x", (2, 5, 4)), [0.5, 0.6, 0.7, 0.8], 3)
    y = rescale(g, table(g, y, 1), 90.0, 0, "int16")
    g.outputs = [rescale(g, y, 0.01)]
    assert kinds(g) == ["RESCALE", "TABLE", "RESCALE", "RESCALE"]
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))

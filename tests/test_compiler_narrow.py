"""Constants of int32 that few bits hold: stored so, and read so by the layer that adds them."""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point

from spec import preset
from sw.compiler.kernels.layers import ConvLayer, ElementwiseLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph

DEFAULT = preset("default")
TYPES = [(127, "int8"), (128, "int16"), (32767, "int16"), (32768, "int32")]
BYTES = {"int8": 1, "int16": 2, "int32": 4}


def table(g: Graph, shape: tuple[int, ...], most: int) -> str:
    data = np.random.default_rng(1).integers(-most, most + 1, shape)
    data.reshape(-1)[:2] = -most, most
    return g.add_constant("c", data, "int32")


@pytest.mark.parametrize(("most", "dtype"), TYPES)
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MAXIMUM", "MUL"])
def test_the_fewest_bits_are_stored(kind: str, most: int, dtype: str) -> None:
    g = Graph(name="constant")
    operands = [g.add_input("x", (1, 4, 36, 36), "int32"), table(g, (1, 1, 36, 36), most)]
    if kind == "MUL":
        operands.append(g.add_constant("shift", [0], "int8"))
    y = g.add_op(kind, operands)
    g.outputs = [rescale(g, y, 2.0**-14 / (most if kind == "MUL" else 1))]
    stored = len(run_stages(g, DEFAULT).image.constants)
    wanted = BYTES[dtype] * 36 * 36
    assert wanted <= stored < wanted + 600
    for config in ("default", "tiny", "odd"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))


@pytest.mark.parametrize(("most", "dtype"), TYPES)
def test_a_product_adds_them_in_its_epilogue(most: int, dtype: str) -> None:
    """As positions are added to patches."""
    g = Graph(name="positions")
    x = g.add_input("x", (1, 16, 16, 32))
    weight = np.random.default_rng(0).integers(-100, 100, (32, 1, 1, 32))
    operands = [x, g.add_constant("weight", weight, "int8"), g.add_constant("bias", [0], "int32")]
    y = g.add_op("CONV2D", [*operands, zero_point(g, 0), zero_point(g, 0)])
    y = g.add_op("ADD", [rescale(g, y, 0.5, 0, "int32"), table(g, (1, 16, 16, 32), most)])
    g.outputs = [rescale(g, y, 2.0**-14)]
    (layer,) = run_stages(g, DEFAULT).layers.layers
    assert isinstance(layer, ConvLayer) and layer.inputs[-1].dtype == dtype
    for config in ("default", "tiny", "odd"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))


def test_both_layers_that_read_a_constant_read_it_narrow() -> None:
    g = Graph(name="both")
    x, c = g.add_input("x", (1, 8, 8, 16), "int32"), table(g, (1, 8, 8, 16), 100)
    sums = [g.add_op(kind, [x, c]) for kind in ("ADD", "SUB")]
    g.outputs = [rescale(g, y, 2.0**-14) for y in sums]
    done = run_stages(g, DEFAULT)
    layers = done.layers.layers
    assert all(isinstance(layer, ElementwiseLayer) for layer in layers)
    assert {layer.inputs[1].tensor for layer in layers} == {"c_int8"}
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


def test_without_folding_a_constant_stays() -> None:
    g = Graph(name="constant")
    x, c = g.add_input("x", (1, 8, 8, 16), "int32"), table(g, (1, 8, 8, 16), 100)
    g.outputs = [rescale(g, g.add_op("ADD", [x, c]), 2.0**-14)]
    assert len(run_stages(g, DEFAULT, fold=False).image.constants) >= 4 * 8 * 8 * 16
    assert_compiles_exactly(g, DEFAULT, random_inputs(g), fold=False)

"""RESCALEs move before what only moves elements, or chooses the largest of them."""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, conv, random_inputs, rescale, zero_point

from spec import preset
from sw.compiler.kernels.layers import ConvLayer, PoolLayer
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph

DEFAULT = preset("default")
POOL = {"kernel": (3, 2), "stride": (2, 2), "pad": (1, 1, 0, 0)}


def wide(size: int = 11) -> tuple[Graph, str]:
    """A convolution to int16."""
    g = Graph(name="wide")
    y = conv(g, g.add_input("x", (1, size, 8, 16)), 20, 1)
    return g, rescale(g, y, 90.0, 0, "int16", 5)


def kinds(g: Graph) -> list[str]:
    return [op.kind for op in run_passes(g, DEFAULT).ops]


def test_maxima_are_of_the_narrow_elements() -> None:
    g, y = wide()
    y = g.add_op("MAX_POOL2D", [y], POOL)
    g.outputs = [rescale(g, y, 0.01, -9)]
    assert kinds(g)[-2:] == ["RESCALE", "MAX_POOL2D"]
    assert [type(layer) for layer in run_stages(g, DEFAULT).layers.layers] == [ConvLayer, PoolLayer]
    for config in ("default", "tiny", "odd"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))


def test_views_between_are_no_hindrance_and_a_cut_of_little_neither() -> None:
    g, y = wide(11)
    y = g.add_op("RESHAPE", [y, g.add_constant("s", [1, 1, 88, 20], "shape")])
    cut = [
        g.add_constant("start", [0] * 4, "shape"),
        g.add_constant("size", [1, 1, 86, 20], "shape"),
    ]
    y = g.add_op("SLICE", [y, *cut])
    y = g.add_op("MAX_POOL2D", [y], {"kernel": (1, 2), "stride": (1, 2), "pad": (0, 0, 0, 0)})
    g.outputs = [rescale(g, y, 0.01)]
    assert [type(layer) for layer in run_stages(g, DEFAULT).layers.layers] == [ConvLayer, PoolLayer]
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


@pytest.mark.parametrize("mode", ["NEAREST", "BILINEAR"])
def test_pixels_that_are_repeated_are_rescaled_once(mode: str) -> None:
    g = Graph(name="upsample")
    y = conv(g, g.add_input("x", (1, 4, 5, 16)), 16, 1)
    wanted = [g.add_constant(n, v, "shape") for n, v in (("s", [2, 1, 2, 1]), ("o", [0, 0]))]
    border = g.add_constant("b", [1, 1], "shape")
    if mode == "BILINEAR":
        wanted, border = [g.add_constant("s", [4, 2, 4, 2], "shape"), wanted[1]], wanted[1]
    kind = "int8" if mode == "NEAREST" else "int32"
    y = g.add_op("RESIZE", [y, *wanted, border], {"mode": mode}, out_dtype=kind)
    g.outputs = [rescale(g, y, 0.1, 4)]
    order = [k for k in kinds(g) if k in ("RESIZE", "RESCALE")]
    assert (order[-1] == "RESIZE") == (mode == "NEAREST")
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


@pytest.mark.parametrize("why", ["two readers", "channels", "an output"])
def test_a_rescale_stays_where_it_matters(why: str) -> None:
    g, y = wide()
    pooled = g.add_op("MAX_POOL2D", [y], POOL)
    scales = list(np.linspace(0.005, 0.02, 20)) if why == "channels" else 0.01
    g.outputs = [rescale(g, pooled, scales, -9)]
    if why == "two readers":
        g.outputs.append(rescale(g, pooled, 0.02))
    if why == "an output":
        g.outputs.append(pooled)
    assert kinds(g).index("MAX_POOL2D") < len(kinds(g)) - 1
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


def test_a_pool_follows_the_layer_that_makes_its_operand() -> None:
    """In tiles, so that only the last is computed behind it."""
    g = Graph(name="follow")
    y = conv(g, g.add_input("x", (1, 64, 64, 16)), 16, 3, pad=1)
    g.outputs = [
        conv(g, g.add_op("MAX_POOL2D", [y], {**POOL, "kernel": (2, 2), "pad": (0, 0, 0, 0)}), 16, 1)
    ]
    c = run_stages(g, DEFAULT)
    pool = next(i for i, x in enumerate(c.layers.layers) if isinstance(x, PoolLayer))
    assert y in c.residency.address and c.plans[pool].th <= 6
    assert c.predicted[pool] < 0.5 * c.plans[pool].cycles


def transposed(kernel: int, channels: int) -> Graph:
    g = Graph(name="transposed")
    rng = np.random.default_rng(kernel)
    weight = rng.integers(-100, 101, (channels, kernel, kernel, 16))
    operands = [g.add_input("x", (1, 7, 6, 16)), g.add_constant("w", weight, "int8")]
    bias = g.add_constant("b", rng.integers(-900, 900, channels), "int32")
    zeros = [zero_point(g, 3), zero_point(g, 0)]
    pads = {"stride": (2, 2), "out_pad": (-1, 0, -1, 0)}
    g.outputs = [rescale(g, g.add_op("TRANSPOSE_CONV2D", [*operands, bias, *zeros], pads), 0.003)]
    return g


@pytest.mark.parametrize(("kernel", "channels", "products"), [(3, 32, 4), (2, 16, 4), (4, 2, 1)])
def test_phases_of_a_transposed_convolution(kernel: int, channels: int, products: int) -> None:
    """Four products of their own, or one and its copies where few channels would fill no column."""
    g = transposed(kernel, channels)
    made = [isinstance(layer, ConvLayer) for layer in run_stages(g, DEFAULT).layers.layers]
    assert sum(made) == products and all(made) == (products > 1)
    for config in ("default", "tiny", "odd", "micro"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))

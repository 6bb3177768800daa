"""Neighbouring pixels of a convolution to few channels that are computed as one."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs, rescale, zero_point

from spec import preset
from sw.compiler.passes import run_passes
from sw.compiler.tosa.bound import graph_bound
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.compiler.tosa.macs import graph_macs

Pair = tuple[int, int]


def convolution(
    image: Pair,
    channels: int,
    outputs: int,
    kernel: Pair,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    pad: tuple[int, int, int, int] = (1, 1, 1, 1),
    weight_zp: int = 0,
    one_bias: bool = False,
    scale: float | list[float] = 0.002,
) -> Graph:
    """A convolution, its RESCALE (a scale by channel, or one) and a CLAMP."""
    g, rng = Graph(name="head"), np.random.default_rng(channels * 100 + outputs)
    x = g.add_input("x", (1, *image, channels), zero_point=3)
    values = rng.integers(-127, 128, (outputs, *kernel, channels))
    weight = g.add_constant("weight", values, "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, 1 if one_bias else outputs), "int32")
    y = g.add_op(
        "CONV2D",
        [x, weight, bias, zero_point(g, 3), zero_point(g, weight_zp)],
        {"pad": pad, "stride": stride, "dilation": dilation},
    )
    y = rescale(g, y, scale, -7)
    g.outputs = [g.add_op("CLAMP", [y], {"min_val": -90, "max_val": 100})]
    return g


def weights(g: Graph, name: str) -> tuple[int, ...]:
    """Of the convolution that is left."""
    after = run_passes(g, preset(name))
    (shape,) = (after.tensors[op.inputs[1]].shape for op in after.ops if op.kind == "CONV2D")
    return shape


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        # Four pixels of three channels fill twelve of sixteen columns.
        ({"image": (12, 12), "channels": 32, "outputs": 3, "kernel": (3, 3)}, (12, 3, 6, 32)),
        # Nine columns have the divisors three and nine.
        ({"image": (9, 9), "channels": 16, "outputs": 5, "kernel": (3, 3)}, (15, 3, 5, 16)),
        # An image of one column has neighbours above and below.
        (
            {
                "image": (160, 1),
                "channels": 16,
                "outputs": 2,
                "kernel": (5, 1),
                "pad": (2, 2, 0, 0),
            },
            (16, 12, 1, 16),
        ),
        # Every fourth pixel, of windows with every second: one window with every second.
        (
            {
                "image": (40, 33),
                "channels": 32,
                "outputs": 4,
                "kernel": (5, 5),
                "stride": (1, 4),
                "dilation": (1, 2),
                "pad": (2, 2, 2, 2),
            },
            (16, 5, 11, 32),
        ),
        # Columns are full; windows do not overlap; no grid of dilated windows; a prime width.
        ({"image": (8, 8), "channels": 16, "outputs": 16, "kernel": (3, 3)}, (16, 3, 3, 16)),
        (
            {"image": (8, 8), "channels": 32, "outputs": 4, "kernel": (1, 1), "pad": (0, 0, 0, 0)},
            (4, 1, 1, 32),
        ),
        (
            {
                "image": (8, 8),
                "channels": 16,
                "outputs": 4,
                "kernel": (3, 3),
                "dilation": (2, 2),
                "pad": (2, 2, 2, 2),
            },
            (4, 3, 3, 16),
        ),
        ({"image": (13, 13), "channels": 16, "outputs": 4, "kernel": (3, 3)}, (4, 3, 3, 16)),
    ],
)
def test_as_many_pixels_as_save_cycles_are_one(how: dict[str, Any], shape: Any) -> None:
    assert weights(convolution(**how), "default") == shape


@pytest.mark.parametrize("name", ["default", "tiny", "odd"])
@pytest.mark.parametrize(
    "how",
    [
        {"image": (12, 12), "channels": 32, "outputs": 3, "kernel": (3, 3)},
        {"image": (6, 9), "channels": 5, "outputs": 2, "kernel": (3, 3), "weight_zp": -3},
        {"image": (8, 8), "channels": 9, "outputs": 1, "kernel": (5, 7), "pad": (2, 2, 3, 3)},
        {
            "image": (9, 17),
            "channels": 8,
            "outputs": 2,
            "kernel": (3, 5),
            "stride": (2, 2),
            "pad": (1, 1, 2, 2),
            "one_bias": True,
        },
        {
            "image": (12, 12),
            "channels": 8,
            "outputs": 3,
            "kernel": (3, 3),
            "scale": [0.001, 0.002, 0.003],
        },
        {
            "image": (24, 1),
            "channels": 8,
            "outputs": 2,
            "kernel": (5, 1),
            "pad": (2, 2, 0, 0),
            "scale": [0.004, 0.001],
        },
        # The only scale of the only channel.
        {
            "image": (8, 8),
            "channels": 2,
            "outputs": 1,
            "kernel": (7, 7),
            "pad": (3, 3, 3, 3),
            "scale": [0.004],
        },
    ],
)
def test_results_macs_and_bound_stay(name: str, how: dict[str, Any]) -> None:
    g, config = convolution(**how), preset(name)
    after = run_passes(g, config)
    assert graph_macs(after) == graph_macs(g)
    assert graph_bound(after, config) == graph_bound(g, config)
    inputs = random_inputs(g)
    want = run_graph(g, inputs)[g.outputs[0]]
    assert np.array_equal(run_graph(after, inputs)[after.outputs[0]], want)
    assert_compiles_exactly(g, config, inputs)


def test_a_result_that_others_read_keeps_its_name_and_shape() -> None:
    g = convolution((12, 12), 32, 3, (3, 3))
    product = next(op.outputs[0] for op in g.ops if op.kind == "CONV2D")
    g.outputs.append(product)
    after = run_passes(g, preset("default"))
    assert after.outputs == g.outputs
    assert after.tensors[product].shape == (1, 12, 12, 3)
    inputs = random_inputs(g)
    want, got = run_graph(g, inputs), run_graph(after, inputs)
    assert all(np.array_equal(got[name], want[name]) for name in g.outputs)

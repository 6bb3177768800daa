"""Passes over the TOSA graph: what follows a product comes to stand behind it."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import random_inputs, rescale, zero_point

from spec import preset
from sw.compiler.kernels.layers import ConvLayer
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph


def linear(channels: int = 24) -> tuple[Graph, str]:
    """A 1x1 convolution to int32 and the RESHAPE behind it."""
    g = Graph(name="linear")
    x = g.add_input("x", (1, 10, 1, 16))
    rng = np.random.default_rng(4)
    weight = g.add_constant("weight", rng.integers(-100, 101, (channels, 1, 1, 16)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, channels), "int32")
    y = g.add_op("CONV2D", [x, weight, bias, zero_point(g, 3), zero_point(g, 0)])
    return g, g.add_op("RESHAPE", [y, g.add_constant("shape", [1, 5, 2 * channels], "shape")])


def kinds(g: Graph) -> list[str]:
    return [op.kind for op in run_passes(g, preset("default")).ops]


def exact(g: Graph) -> None:
    inputs: dict[str, Any] = random_inputs(g)
    before, after = run_graph(g, inputs), run_graph(run_passes(g, preset("default")), inputs)
    assert all(np.array_equal(before[k], after[k]) for k in before)


def test_what_follows_a_product_goes_before_its_reshape() -> None:
    g, y = linear()
    y = g.add_op("CLAMP", [rescale(g, y, 0.01, 3)], {"min_val": -5, "max_val": 90})
    g.outputs = [y]
    assert kinds(g) == ["CONV2D", "RESCALE", "CLAMP", "RESHAPE"]
    exact(g)
    (layer,) = run_stages(g, preset("tiny")).layers.layers
    assert isinstance(layer, ConvLayer) and layer.ops == ("CONV2D", "RESCALE", "CLAMP")


@pytest.mark.parametrize("why", ["another channel", "two readers", "an output"])
def test_a_reshape_stays_where_it_matters(why: str) -> None:
    g, y = linear()
    scales = [0.01 + i / 1e4 for i in range(48)] if why == "another channel" else 0.01
    z = rescale(g, y, scales, 0)
    g.outputs = [z]
    if why == "two readers":
        g.outputs.append(g.add_op("ABS", [y]))
    if why == "an output":
        g.outputs.append(y)
    assert kinds(g)[:3] == ["CONV2D", "RESHAPE", "RESCALE"]
    exact(g)


def _padded(*between: str, rows: tuple[int, ...] = (0, 0, 1, 2, 0, 0), value: int = 5) -> Graph:
    """PAD of a sequence of int16, operators, and a convolution over it with zero point 3."""
    g = Graph(name="padded")
    x = g.add_input("x", (1, 10, 4), "int16")
    padding = g.add_constant("padding", list(rows), "shape")
    y = g.add_op("PAD", [x, padding, g.add_constant("fill", [value], "int16")])
    for kind in between:
        if kind == "RESCALE":
            y = rescale(g, y, 0.5, 0)
        elif kind == "CLAMP":
            y = g.add_op("CLAMP", [y], {"min_val": -9, "max_val": 90})
        else:
            shape = [1, 1, *g.tensors[y].shape[1:]]
            y = g.add_op("RESHAPE", [y, g.add_constant("shape", shape, "shape")])
    rng = np.random.default_rng(1)
    weight = g.add_constant("weight", rng.integers(-9, 10, (3, 1, 2, 4)), "int8")
    bias = g.add_constant("bias", [1, 2, 3], "int32")
    g.outputs = [g.add_op("CONV2D", [y, weight, bias, zero_point(g, 3), zero_point(g, 0)])]
    return g


def test_a_pad_folds_through_what_lies_before_the_convolution() -> None:
    # 5 · 0.5 rounds to the zero point 3.
    for between in (("RESCALE", "RESHAPE"), ("RESCALE", "CLAMP", "RESHAPE")):
        g = _padded(*between)
        assert kinds(g) == [*between, "CONV2D"]
        assert run_passes(g, preset("tiny")).ops[-1].attributes["pad"] == (0, 0, 1, 2)
        exact(g)


def test_a_pad_stays_where_its_value_or_its_place_is_another() -> None:
    for g in (
        _padded("RESCALE", "RESHAPE", value=4),
        _padded("RESCALE", "RESHAPE", rows=(0, 0, 1, 0, 0, 0), value=9),
    ):
        assert kinds(g)[0] == "PAD"
        exact(g)
    g = _padded("RESCALE", "RESHAPE")
    # Somebody else reads the padded tensor.
    g.outputs.append(g.add_op("ABS", [rescale(g, g.ops[1].outputs[0], 1.0, 0, "int32")]))
    assert "PAD" in kinds(g)
    exact(g)

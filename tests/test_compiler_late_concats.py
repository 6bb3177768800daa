"""CONCATs move behind what alone reads them, so that the layers before them compute it."""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, conv, random_inputs, rescale, zero_point

from spec import preset
from sw.compiler.kernels.layers import ConvLayer
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph

DEFAULT = preset("default")


def groups(axis: int = 3) -> tuple[Graph, str]:
    """Two convolutions to int16 and their CONCAT."""
    g = Graph(name="groups")
    x = g.add_input("x", (1, 5, 6, 16))
    parts = [rescale(g, conv(g, x, 20, 1, seed=seed), 90.0, 0, "int16", 5) for seed in (1, 2)]
    return g, g.add_op("CONCAT", parts, {"axis": axis})


@pytest.mark.parametrize("axis", [1, 3])
def test_a_rescale_of_joined_groups_is_part_of_their_layers(axis: int) -> None:
    g, joined = groups(axis)
    y = g.add_op("CLAMP", [rescale(g, joined, 0.01, 3)], {"min_val": -5, "max_val": 90})
    g.outputs = [y]
    layers = run_stages(g, DEFAULT).layers.layers
    assert [type(layer) for layer in layers] == [ConvLayer, ConvLayer]
    for config in ("default", "tiny", "micro"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))


@pytest.mark.parametrize("axis", [1, 3])
def test_scales_of_channels_are_cut_with_the_channels(axis: int) -> None:
    g, joined = groups(axis)
    channels = g.tensors[joined].shape[3]
    g.outputs = [rescale(g, joined, list(np.linspace(0.002, 0.02, channels)), -7)]
    assert len(run_stages(g, DEFAULT).layers.layers) == 2
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


@pytest.mark.parametrize("early", [False, True])
def test_a_sum_with_joined_groups_is_a_sum_behind_each(early: bool) -> None:
    """The other summand is read in slices, before its RESCALE if that is for this sum alone."""
    g = Graph(name="groups")
    x = g.add_input("x", (1, 5, 6, 16))
    joined = g.add_op("CONCAT", [conv(g, x, 20, 1, seed=seed) for seed in (1, 2)], {"axis": 3})
    y = g.add_input("y", (1, 5, 6, 40), "int16")
    other = rescale(g, y, 4.0, 0, "int32")
    total = g.add_op("ADD", [rescale(g, joined, 1024.0, 0, "int32", 5), other])
    g.outputs = [rescale(g, total, 0.1, 0, "int16")]
    if not early:
        g.outputs.append(g.add_op("ABS", [other]))
    layers = run_stages(g, DEFAULT).layers.layers
    assert [type(layer) for layer in layers[-2:]] == [ConvLayer, ConvLayer]
    assert all(layer.ops == ("CONV2D", "RESCALE", "ADD", "RESCALE") for layer in layers[-2:])
    assert len(layers) == (2 if early else 3)
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


def test_concats_in_concats_move_as_one() -> None:
    g, inner = groups()
    third = rescale(g, conv(g, "x", 9, 3, pad=1), 90.0, 0, "int16", 5)
    joined = g.add_op("CONCAT", [third, inner], {"axis": 3})
    g.outputs = [rescale(g, joined, 0.01)]
    assert [op.kind for op in run_passes(g, DEFAULT).ops].count("CONCAT") == 1
    assert len(run_stages(g, DEFAULT).layers.layers) == 3
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


@pytest.mark.parametrize("why", ["an output", "two readers", "inputs"])
def test_a_concat_stays_where_others_need_it(why: str) -> None:
    g, joined = groups()
    if why == "inputs":
        parts = [g.add_input(f"p{i}", (1, 5, 6, 8), "int16") for i in range(2)]
        joined = g.add_op("CONCAT", parts, {"axis": 3})
    g.outputs = [rescale(g, joined, 0.01)]
    if why == "an output":
        g.outputs.append(joined)
    if why == "two readers":
        g.outputs.append(rescale(g, joined, 0.02))
    kinds = [op.kind for op in run_passes(g, DEFAULT).ops]
    assert "RESCALE" in kinds[kinds.index("CONCAT") :]
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


def test_a_transpose_moves_narrow_elements() -> None:
    g = Graph(name="narrow")
    x = g.add_input("x", (1, 12, 20, 16), "int16")
    g.outputs = [rescale(g, g.add_op("TRANSPOSE", [x], {"perms": (0, 3, 1, 2)}), 0.01)]
    assert [op.kind for op in run_passes(g, DEFAULT).ops] == ["RESCALE", "TRANSPOSE"]
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


def test_what_a_folded_pad_leaves_is_no_reader() -> None:
    """CLAMP → PAD → RESCALE → CONV2D: the RESCALE is part of the layer before the PAD."""
    g = Graph(name="causal")
    y = rescale(g, conv(g, g.add_input("x", (1, 9, 4, 16)), 16, 1), 90.0, 0, "int16", 5)
    y = g.add_op("CLAMP", [y], {"min_val": 0, "max_val": 32767})
    y = g.add_op("RESHAPE", [y, g.add_constant("s", [1, 36, 16], "shape")])
    pads = g.add_constant("pads", [0, 0, 2, 0, 0, 0], "shape")
    y = g.add_op("PAD", [y, pads, zero_point(g, 0, "int16")])
    y = rescale(g, y, 0.01, 0)
    y = g.add_op("RESHAPE", [y, g.add_constant("s", [1, 1, 38, 16], "shape")])
    weight = np.random.default_rng(0).integers(-100, 101, (16, 1, 3, 16))
    operands = [g.add_constant("w", weight, "int8"), g.add_constant("b", [0] * 16, "int32")]
    y = g.add_op("CONV2D", [y, *operands, zero_point(g, 0), zero_point(g, 0)])
    g.outputs = [rescale(g, y, 0.001)]
    assert [type(layer) for layer in run_stages(g, DEFAULT).layers.layers] == [ConvLayer, ConvLayer]
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))

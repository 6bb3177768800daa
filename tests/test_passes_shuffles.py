"""Channel shuffles that convolutions read as they lie, and that nothing changes its values."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from compiler_graphs import channels, random_inputs, rescale, zero_point
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_model import Machine
from spec import preset
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.compiler.tosa.macs import graph_macs

H, W = 5, 6


def reshape(g: Graph, x: str, *shape: int) -> str:
    return g.add_op("RESHAPE", [x, g.add_constant("shape", list(shape), "shape")])


def shuffled(g: Graph, x: str, groups: int) -> str:
    """Channel i of group j becomes channel i * groups + j."""
    n, h, w, c = g.tensors[x].shape
    y = reshape(g, x, n, h, w, groups, c // groups)
    y = g.add_op("TRANSPOSE", [y], {"perms": (0, 1, 2, 4, 3)})
    return reshape(g, y, n, h, w, c)


def product(
    g: Graph, x: str, outputs: int, kernel: tuple[int, int] = (1, 1), **attributes: Any
) -> str:
    """A convolution, rescaled by channel to int8."""
    rng = np.random.default_rng(len(g.ops))
    c, (kh, kw) = g.tensors[x].shape[3], kernel
    weight = g.add_constant("weight", rng.integers(-100, 101, (outputs, kh, kw, c)), "int8")
    bias = g.add_constant("bias", rng.integers(-3000, 3000, outputs), "int32")
    pad = attributes.pop("pad", (0, 0, 0, 0))
    y = g.add_op(
        "CONV2D",
        [x, weight, bias, zero_point(g, 5), zero_point(g, attributes.pop("weight_zp", 0))],
        {"pad": pad, **attributes},
    )
    return rescale(g, y, 0.003, 5)


def depthwise(g: Graph, x: str, stride: int = 1, bias: int = 0) -> str:
    """A depthwise 3x3 convolution with scales of its channels."""
    rng, c = np.random.default_rng(len(g.ops)), g.tensors[x].shape[3]
    weight = g.add_constant("weight", rng.integers(-100, 101, (3, 3, c, 1)), "int8")
    biases = g.add_constant("bias", rng.integers(-3000, 3000, bias or c), "int32")
    h, w = g.tensors[x].shape[1:3]
    y = g.add_op(
        "DEPTHWISE_CONV2D",
        [x, weight, biases, zero_point(g, 5), zero_point(g, 0)],
        {"pad": (1, 1 - (h + 1) % stride, 1, 1 - (w + 1) % stride), "stride": (stride, stride)},
    )
    multiplier = g.add_constant("multiplier", rng.integers(1 << 30, (1 << 31) - 1, c), "int32")
    shift = g.add_constant("shift", rng.integers(37, 40, c), "int8")
    zero = g.add_constant("zero", [0], "int32")
    return g.add_op(
        "RESCALE",
        [y, multiplier, shift, zero, zero_point(g, 5)],
        {"scale32": True, "rounding_mode": "SINGLE_ROUND", "per_channel": True},
        out_dtype="int8",
    )


def checked(g: Graph, name: str = "default", *, golden: bool = True) -> Counter[str]:
    """How often each operator is left; values and multiplications stay."""
    g.verify()
    config = preset(name)
    after = run_passes(g, config)
    assert graph_macs(after) == graph_macs(g)
    inputs = random_inputs(g, 3)
    want, got = run_graph(g, inputs), run_graph(after, inputs)
    assert list(want) == list(got)
    assert all(np.array_equal(want[n], got[n]) for n in want)
    if golden:
        found = Machine(config).run(run_stages(g, config).image, inputs, check=True)
        assert all(np.array_equal(found[n], want[n]) for n in want)
    return Counter(op.kind for op in after.ops)


def begun(channels: int) -> tuple[Graph, str]:
    g = Graph(name="shuffle")
    return g, g.add_input("x", (1, H, W, channels), zero_point=5)


@pytest.mark.parametrize("name", ["default", "tiny"])
def test_a_product_reads_a_whole_shuffle_in_the_order_of_its_weights(name: str) -> None:
    g, x = begun(24)
    g.outputs = [product(g, shuffled(g, x, 3), 10)]
    kinds = checked(g, name)
    assert (kinds["TRANSPOSE"], kinds["RESHAPE"], kinds["CONV2D"]) == (0, 0, 1)


def test_a_product_reads_half_of_every_group_as_taps() -> None:
    g, x = begun(64)
    g.outputs = [product(g, channels(g, shuffled(g, x, 2), 32, 32), 10)]
    kinds = checked(g)
    assert (kinds["TRANSPOSE"], kinds["SLICE"]) == (0, 1)


def test_taps_that_leave_rows_of_the_array_empty_are_not_worth_it() -> None:
    g, x = begun(24)
    g.outputs = [product(g, channels(g, shuffled(g, x, 2), 12, 12), 10)]
    assert checked(g)["TRANSPOSE"] == 1


def test_what_other_operators_read_is_transposed_alone() -> None:
    g, x = begun(64)
    y = shuffled(g, x, 2)
    g.outputs = [product(g, channels(g, y, 32, 32), 10), rescale(g, channels(g, y, 0, 32), 0.7, 4)]
    after = run_passes(g, preset("default"))
    turns = [op for op in after.ops if op.kind == "TRANSPOSE"]
    assert [after.tensors[op.outputs[0]].size for op in turns] == [H * W * 32]
    checked(g)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("bias", [0, 1])
def test_a_shuffle_goes_behind_a_depthwise_convolution(stride: int, bias: int) -> None:
    g, x = begun(32)
    y = depthwise(g, shuffled(g, x, 2), stride, bias)
    g.outputs = [product(g, channels(g, y, 0, 32), 9), product(g, y, 7)]
    assert checked(g)["TRANSPOSE"] == 0


def test_a_shuffle_stays_before_a_depthwise_convolution_that_others_read() -> None:
    g, x = begun(32)
    y = depthwise(g, shuffled(g, x, 2))
    g.outputs = [product(g, y, 9), g.add_op("ABS", [g.add_op("CAST", [y], out_dtype="int32")])]
    assert checked(g)["TRANSPOSE"] == 1


def test_weights_of_run_time_are_left_alone() -> None:
    g, x = begun(16)
    w = g.add_input("w", (8, 1, 1, 16))
    bias = g.add_constant("bias", [0] * 8, "int32")
    zeros = [zero_point(g, 5), zero_point(g, 0)]
    y = g.add_op("CONV2D", [shuffled(g, x, 2), w, bias, *zeros], {})
    g.outputs = [rescale(g, y, 0.003, 5)]
    assert checked(g)["TRANSPOSE"] == 1


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Shuffles and parts of them, read by convolutions of any kernel and by others."""
    groups, each = draw(st.sampled_from([(2, 16), (2, 32), (3, 4), (4, 8), (2, 6), (3, 16)]))
    g, x = begun(groups * each)
    y = shuffled(g, x, draw(st.sampled_from([groups, groups, each])))
    whole = groups * each
    outs = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.sampled_from([whole, whole // 2, groups, each]))
        start = draw(st.sampled_from([0, whole - count, min(groups, whole - count), 1]))
        start = min(start, whole - count)
        z = y if count == whole else channels(g, y, start, count)
        kind = draw(st.sampled_from(["product", "product", "depthwise", "other", "clamp"]))
        if kind == "depthwise":
            z = depthwise(g, z, draw(st.sampled_from([1, 2])))
        elif kind == "clamp":
            z = g.add_op("CLAMP", [z], {"min_val": -50, "max_val": 60})
        if kind == "other":
            outs.append(rescale(g, z, 0.6, 2))
            continue
        kw, pad = draw(st.sampled_from([(1, 0), (1, 1), (3, 1), (3, 0), (2, 0)]))
        outs.append(
            product(
                g,
                z,
                draw(st.sampled_from([5, 16])),
                (draw(st.sampled_from([1, 2])), kw),
                pad=(0, 0, pad, pad),
                weight_zp=draw(st.sampled_from([0, 3])),
                dilation=(1, draw(st.sampled_from([1, 1, 2])) if kw < 3 or pad else 1),
            )
        )
    g.outputs = list(dict.fromkeys(outs))
    if draw(st.booleans()):
        g.outputs.append(y)
    return g


@given(g=networks(), name=st.sampled_from(["default", "tiny"]))
@settings(max_examples=40, deadline=None)
def test_networks_of_shuffles_keep_their_values(g: Graph, name: str) -> None:
    assert checked(g, name)


def test_a_shuffle_goes_behind_strided_windows_whoever_reads_them() -> None:
    """Then it moves a quarter of the elements."""
    g, x = begun(32)
    y = depthwise(g, shuffled(g, x, 2), stride=2)
    g.outputs = [rescale(g, y, 0.7, 4)]
    after = run_passes(g, preset("default"))
    (turn,) = (op for op in after.ops if op.kind == "TRANSPOSE")
    assert 3 * after.tensors[turn.outputs[0]].size < H * W * 32
    checked(g)

"""Compiled programs on the golden model, with hazard checks, against the graph interpreter."""

import math
from typing import Any

import numpy as np
import pytest
from compiler_graphs import (
    assert_compiles_exactly,
    conv,
    random_inputs,
    rescale,
    residual_net,
    zero_point,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from spec import PRESETS, preset
from spec.isa import Instruction, Opcode, Reduce
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.models.kernels import KernelError, kernel, kernel_names, parse_shape

CASES = [
    ("matmul", "1x1x1"),
    ("matmul", "3x65x17"),
    ("matmul", "17x33x65"),
    ("matmul", "65x17x3"),
    ("matmul", "64x64x64"),
    ("matmul", "m=5,k=300,n=9,batch=3"),
    ("fully_connected", "1x65x17"),
    ("fully_connected", "17x256x3"),
    ("conv2d", "h=5,w=5,c=3,oc=5"),
    ("conv2d", "h=9,w=7,c=17,oc=33,s=2"),
    ("conv2d", "n=2,h=8,w=8,c=20,oc=8,d=2"),
    ("conv2d", "h=9,w=11,c=4,oc=6,kh=1,kw=5,pad_top=0,pad_bottom=0,pad_left=4,pad_right=1"),
    ("conv2d", "h=8,w=8,c=65,oc=17,k=1,p=0,s=2"),
    ("conv2d", "h=6,w=6,c=8,oc=8,k=1,pad_right=2,p=0"),
    ("max_pool2d", "h=15,w=13,c=17,k=3,p=1"),
    ("max_pool2d", "n=2,h=8,w=8,c=3"),
    ("avg_pool2d", "h=15,w=13,c=17,k=3,p=1"),
    ("avg_pool2d", "h=7,w=7,c=65,k=7,s=1"),
    ("add", "h=7,w=5,c=17"),
    ("rescale", "h=5,w=5,c=33"),
    ("rescale", "c=17,in_bits=8,out_bits=16,per_channel=0"),
    ("rescale", "h=3,c=5,in_bits=16,out_bits=32,per_channel=1"),
]


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_kernel_is_exact_on_every_preset(name: str, shape: str, config: str) -> None:
    work = kernel(name, parse_shape(shape, name), seed=3)
    assert_compiles_exactly(work.graph, preset(config), work.inputs)


@pytest.mark.parametrize(
    ("name", "shape", "config"),
    [
        ("conv2d", "h=40,w=40,c=32,oc=8", "tiny"),
        ("conv2d", "h=9,w=130,c=4,oc=4", "tiny"),
        ("conv2d", "h=1,w=1100,c=3,oc=4,kh=1,pad_top=0,pad_bottom=0", "tiny"),
        ("conv2d", "h=12,w=12,c=300,oc=12", "tiny"),
        ("conv2d", "h=6,w=6,c=600,oc=20,k=5,p=2", "tiny"),
        ("matmul", "200x700x40", "tiny"),
        ("matmul", "4x4000x9", "tiny"),
        ("matmul", "9x16x1200", "tiny"),
        ("matmul", "300x20x300", "small"),
        ("max_pool2d", "h=60,w=60,c=24", "tiny"),
        ("avg_pool2d", "h=20,w=300,c=12,k=3,p=1", "tiny"),
        ("add", "h=60,w=60,c=17", "tiny"),
        ("rescale", "h=40,w=40,c=300", "tiny"),
    ],
)
def test_layers_larger_than_the_scratchpad_are_tiled(name: str, shape: str, config: str) -> None:
    work = kernel(name, parse_shape(shape, name), seed=4)
    assert sum(a.nbytes for a in work.inputs.values()) > 0
    assert_compiles_exactly(work.graph, preset(config), work.inputs)


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize("size", [16, 30])
def test_network_of_many_layers_is_exact(size: int, config: str) -> None:
    g = residual_net(size)
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) > 1000


@st.composite
def _workloads(draw: Any) -> tuple[str, dict[str, int], str]:
    def one(*values: int) -> int:
        return int(draw(st.sampled_from(values)))

    name = draw(st.sampled_from(kernel_names()))
    size = (1, 2, 3, 5, 8, 12, 16, 17, 31, 33, 65)
    if name in ("matmul", "fully_connected"):
        shape = {"m": one(*size), "k": one(*size, 200), "n": one(*size)}
        shape |= {"batch": one(1, 2)} if name == "matmul" else {}
    elif name in ("add", "rescale"):
        shape = {"h": one(*size), "w": one(*size), "c": one(*size)}
        if name == "rescale":
            shape |= {"in_bits": one(8, 16, 32), "out_bits": one(8, 16, 32)}
            shape |= {"per_channel": one(0, 1)}
    else:
        shape = {"n": one(1, 2), "h": one(3, 8, 17), "w": one(3, 9, 20), "c": one(*size)}
        shape |= {"kh": one(1, 2, 3), "kw": one(1, 2, 3)}
        shape |= {"stride_y": one(1, 2), "stride_x": one(1, 2, 3)}
        for side in ("pad_top", "pad_bottom", "pad_left", "pad_right"):
            shape[side] = one(0, 1, 2) if name.endswith("conv2d") else 0
        if name.endswith("conv2d"):
            shape |= {"dilation_y": one(1, 2), "dilation_x": one(1, 3)}
            shape |= {"oc": one(*size)} if name == "conv2d" else {"multiplier": one(1, 2)}
    return name, shape, draw(st.sampled_from(list(PRESETS)))


@given(_workloads())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_kernels_are_exact(case: tuple[str, dict[str, int], str]) -> None:
    name, shape, config = case
    try:
        work = kernel(name, shape, seed=1)
    except KernelError:  # a window that does not fit
        assume(False)
    assert_compiles_exactly(work.graph, preset(config), work.inputs)


def test_weight_zero_point_and_int32_output() -> None:
    g = Graph()
    x = g.add_input("x", (1, 6, 6, 5))
    rng = np.random.default_rng(0)
    weight = g.add_constant("w", rng.integers(-128, 128, (7, 2, 2, 5)), "int8")
    bias = g.add_constant("b", [-9], "int32")
    operands = [x, weight, bias, zero_point(g, -128), zero_point(g, 127)]
    g.outputs = [g.add_op("CONV2D", operands, {"pad": (1, 0, 0, 1)})]
    for config in ("tiny", "odd"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))


@pytest.mark.parametrize("config", ["tiny", "odd", "default"])
@pytest.mark.parametrize("kernel", [(1, 3), (2, 2), (3, 3), (4, 1), (5, 2)])
@pytest.mark.parametrize("stride", [1, 2])
def test_maxima_of_every_overhang(stride: int, kernel: tuple[int, int], config: str) -> None:
    g = Graph()
    x = g.add_input("x", (1, 9, 11, 18))
    for top in range(kernel[0]):
        for left in (0, kernel[1] - 1):
            ends = [
                next(p for p in range(k) if (s - 1 + before + p - (k - 1)) % stride == 0)
                if k > 1 or (s - 1 + before) % stride == 0
                else -1
                for k, s, before in zip(kernel, (9, 11), (top, left), strict=True)
            ]
            pad = (top, ends[0], left, ends[1])
            attributes = {"kernel": kernel, "stride": (stride, stride), "pad": pad}
            g.outputs.append(g.add_op("MAX_POOL2D", [x], attributes))
    assert_compiles_exactly(g, preset(config), random_inputs(g))


def test_maxima_take_a_step_for_two_elements_of_a_window_row() -> None:
    g = Graph()
    x = g.add_input("x", (1, 112, 112, 64))
    g.outputs = [
        g.add_op("MAX_POOL2D", [x], {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 0, 1, 0)})
    ]
    program = run_stages(g, preset("default")).instructions
    steps = [math.prod(loop["count"] for loop in i["loop"]) for i in program if _is_maximum(i)]
    # Of three elements the one in the middle is taken twice. Of two, in the first windows, where
    # nothing is loaded for the padding, one step takes both.
    whole = 3 * 2 * 56 * 56 * 64 // 16
    assert sum(steps) in (whole, whole - 3 * 56 * 64 // 16)


def _is_maximum(instruction: Instruction) -> bool:
    return instruction.opcode is Opcode.VECTOR and instruction["reduce"] == Reduce.MAX


def test_unsigned_rescales() -> None:
    g = Graph()
    x = g.add_input("x", (3, 9))
    pair = [g.add_constant("m", [3 << 28], "int32"), g.add_constant("s", [30], "int8")]
    into = g.add_op(
        "RESCALE",
        [x, *pair, zero_point(g, -56), zero_point(g, 4)],
        {"input_unsigned": True},
        out_dtype="int8",
    )
    back = g.add_op(
        "RESCALE",
        [into, *pair, zero_point(g, 4), zero_point(g, -100)],
        {"output_unsigned": True},
        out_dtype="int8",
    )
    g.outputs = [into, back]
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g))


def test_slices_reshapes_and_copies_of_inputs() -> None:
    g = Graph()
    x = g.add_input("x", (1, 9, 10, 12))
    start = g.add_constant("start", [0, 1, 2, 4], "shape")
    size = g.add_constant("size", [1, 7, 6, 8], "shape")
    cut = g.add_op("SLICE", [x, start, size])
    flat = g.add_op("RESHAPE", [cut, g.add_constant("shape", [1, 1, 42, 8], "shape")])
    same = g.add_op("IDENTITY", [x])
    g.outputs = [conv(g, cut, 6, 3, pad=1), conv(g, flat, 6, 1, seed=9), same, cut]
    for config in ("tiny", "rect"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))


def test_windows_over_some_channels_of_each_pixel() -> None:
    g = Graph()
    x = g.add_input("x", (1, 9, 10, 5))
    start = g.add_constant("start", [0, 0, 0, 2], "shape")
    cut = g.add_op("SLICE", [x, start, g.add_constant("size", [1, 9, 10, 3], "shape")])
    g.outputs = [conv(g, cut, 6, 3, pad=1, seed=5)]
    for config in ("tiny", "default"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))


def test_constant_operands_of_run_time_operators() -> None:
    g = Graph()
    x = g.add_input("x", (1, 5, 8))
    rng = np.random.default_rng(1)
    b = g.add_constant("B", rng.integers(-128, 128, (1, 8, 6)), "int8")
    product = g.add_op("MATMUL", [x, b, zero_point(g, 1), zero_point(g, 2)])
    offset = g.add_constant("offset", rng.integers(-9999, 9999, (1, 5, 6)), "int32")
    for kind in ("ADD", "SUB", "MAXIMUM", "MINIMUM"):
        g.outputs.append(rescale(g, g.add_op(kind, [product, offset]), 0.003, -3))
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g))


def test_product_rescaled_to_int32_feeds_an_addition() -> None:
    g = Graph()
    x = g.add_input("x", (1, 5, 5, 6))
    a = conv(g, x, 7, 3, pad=1, seed=1)
    weight = g.add_constant("w", np.ones((7, 1, 1, 6)), "int8")
    bias = g.add_constant("b", [4], "int32")
    acc = g.add_op("CONV2D", [x, weight, bias, zero_point(g, 1), zero_point(g, 0)])
    total = g.add_op("ADD", [rescale(g, acc, 3.5, 0, "int32"), rescale(g, a, 9.0, 0, "int32", 5)])
    g.outputs = [rescale(g, total, 0.02, 3)]
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g))


def test_one_tensor_read_by_several_layers_and_as_output() -> None:
    g = Graph()
    x = g.add_input("x", (1, 8, 8, 4))
    a = conv(g, x, 8, 3, pad=1)
    low = g.add_op("CLAMP", [a], {"min_val": 0, "max_val": 127})
    twice = rescale(g, g.add_op("ADD", [rescale(g, a, 256.0, 0, "int32", 5)] * 2), 0.002, 1)
    g.outputs = [a, low, twice]
    assert_compiles_exactly(g, preset("small"), random_inputs(g))

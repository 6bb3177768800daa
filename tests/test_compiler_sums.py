"""Residual sums in the epilogue: bit-identical to their unfused TOSA sequence."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import (
    assert_compiles_exactly,
    inverted_residuals,
    random_inputs,
    rescale,
    zero_point,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec import PRESETS, preset
from sw.compiler.kernels.layers import ConvLayer, DepthwiseLayer, ElementwiseLayer, Layer
from sw.compiler.lower.stage import lower
from sw.compiler.tosa.graph import Graph


def product(g: Graph, x: str, kind: str, oc: int, *, stride: int = 1, seed: int = 0) -> str:
    """An int32 product: CONV2D 1x1, CONV2D 3x3, or DEPTHWISE_CONV2D 3x3 (`oc` is x's then)."""
    rng = np.random.default_rng(seed)
    c = g.tensors[x].shape[3]
    k = 1 if kind == "pointwise" else 3
    shape = (k, k, c, 1) if kind == "depthwise" else (oc, k, k, c)
    weight = g.add_constant("weight", rng.integers(-127, 128, shape), "int8")
    bias = g.add_constant("bias", rng.integers(-9000, 9000, oc), "int32")
    _, h, w, _ = g.tensors[x].shape
    ends = [k // 2 - (size - 1 + 2 * (k // 2) - (k - 1)) % stride for size in (h, w)]
    pad = (k // 2, ends[0], k // 2, ends[1]) if k > 1 else (0, 0, 0, 0)
    operands = [x, weight, bias, zero_point(g, -5), zero_point(g, 0)]
    name = "DEPTHWISE_CONV2D" if kind == "depthwise" else "CONV2D"
    return g.add_op(name, operands, {"pad": pad, "stride": (stride, stride)})


def narrowed(g: Graph, acc: str, zp: int, seed: int, gain: float = 1.0) -> str:
    """RESCALE per channel to int8; `gain` above 1 saturates more and more."""
    rng = np.random.default_rng(seed)
    oc = g.tensors[acc].shape[3]
    scales = gain * rng.uniform(0.2, 1.0, oc) / 500
    return rescale(g, acc, [float(s) for s in scales], zp)


def summed(g: Graph, a: str, b: str, zps: tuple[int, int, int], shift: int, scale: float) -> str:
    """ADD of a << shift and b * scale * 2^shift, and its RESCALE to int8."""
    wide = [
        rescale(g, a, float(2**shift), 0, "int32", zps[0]),
        rescale(g, b, scale * 2**shift, 0, "int32", zps[1]),
    ]
    return rescale(g, g.add_op("ADD", wide), 0.7 / 2**shift, zps[2])


def layers_of(g: Graph) -> tuple[Layer, ...]:
    return lower(g, preset("default")).layers


def block(kind: str, h: int = 9, w: int = 7, c: int = 20, shift: int = 18) -> Graph:
    """x + product(x), bounded below."""
    g = Graph()
    x = g.add_input("x", (1, h, w, c))
    a = narrowed(g, product(g, x, kind, c), -11, 1)
    a = g.add_op("CLAMP", [a], {"min_val": -40, "max_val": 90})
    out = summed(g, a, x, (-11, 3, -100), shift, 0.83)
    g.outputs = [g.add_op("CLAMP", [out], {"min_val": -100, "max_val": 127})]
    return g


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize("kind", ["pointwise", "conv", "depthwise"])
def test_sum_is_part_of_the_product_and_exact(kind: str, config: str) -> None:
    g = block(kind)
    (layer,) = layers_of(g)
    assert isinstance(layer, DepthwiseLayer if kind == "depthwise" else ConvLayer)
    assert layer.residual is not None and layer.residual.shift_left == 18
    assert (layer.residual.low, layer.residual.high) == (-29, 101)
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) == 9 * 7 * 20


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize("kind", ["pointwise", "conv"])
def test_sum_of_a_single_channel(kind: str, config: str) -> None:
    g = block(kind, h=40, w=33, c=1)
    (layer,) = layers_of(g)
    assert isinstance(layer, ConvLayer) and layer.residual is not None
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) == 40 * 33


@st.composite
def _blocks(draw: Any) -> tuple[Graph, str]:
    def one(*values: Any) -> Any:
        return draw(st.sampled_from(values))

    g = Graph()
    kind, stride = one("pointwise", "conv", "depthwise"), one(1, 1, 2)
    c = one(4, 9, 17, 40)
    x = g.add_input("x", (one(1, 2), one(1, 7, 13), one(3, 9), c))
    zps = tuple(one(-128, -9, 0, 127) for _ in range(3))
    gain = one(0.3, 1.0, 30.0)
    oc = c if kind == "depthwise" else one(3, 16, 33)
    a = narrowed(g, product(g, x, kind, oc, stride=stride, seed=1), zps[0], 2, gain)
    if one(True, False):
        low = one(-128, -60, zps[0])
        a = g.add_op("CLAMP", [a], {"min_val": low, "max_val": max(low, one(0, 100))})
    # The other operand: a second product, or the block's own input, int8 or wider.
    other = one("product", "input", "int16", "int32")
    if other == "product":
        b = narrowed(g, product(g, x, "pointwise", oc, stride=stride, seed=3), zps[1], 4, gain)
    else:
        dtype = {"input": "int8"}.get(other, other)
        b = g.add_input("b", g.tensors[a].shape, dtype)
        zps = (zps[0], zps[1] if dtype == "int8" else 0, zps[2])
    shift = one(0, 1, 12, 20)
    scale = one(0.004, 0.7, 3.1) if other in ("input", "product") else 0.001
    wide = [rescale(g, a, float(2**shift), 0, "int32", zps[0])]
    wide.append(b if other == "int32" else rescale(g, b, scale * 2**shift, 0, "int32", zps[1]))
    total = g.add_op("ADD", wide[:: one(1, -1)])
    dtype = one("int8", "int16")
    gain = one(0.1, 0.9, 7.0) / 2**shift
    out = rescale(g, total, gain, zps[2] if dtype == "int8" else 0, dtype)
    if dtype == "int8" and one(True, False):
        out = g.add_op("TABLE", [out, g.add_constant("t", np.arange(-128, 128)[::-1], "int8")])
    g.outputs = [out]
    return g, one("tiny", "odd", "default")


@given(_blocks())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_sums_are_exact(case: tuple[Graph, str]) -> None:
    g, config = case
    assert any(getattr(layer, "residual", None) is not None for layer in layers_of(g))
    assert not any(isinstance(layer, ElementwiseLayer) for layer in layers_of(g))
    assert_compiles_exactly(g, preset(config), random_inputs(g))


def _unfused(g: Graph) -> None:
    """The graph has a layer of its own for the ADD, and is exact."""
    layers = layers_of(g)
    assert any(isinstance(layer, ElementwiseLayer) and "ADD" in layer.ops for layer in layers)
    assert all(getattr(layer, "residual", None) is None for layer in layers)
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g))


def _start() -> tuple[Graph, str, str]:
    g = Graph()
    x = g.add_input("x", (1, 5, 6, 9))
    return g, x, narrowed(g, product(g, x, "conv", 9), -11, 1)


def test_inexact_shift_is_not_fused() -> None:
    g, x, a = _start()
    wide = [rescale(g, a, 1.5 * 2**18, 0, "int32", -11), rescale(g, x, 2.0**18, 0, "int32", 3)]
    g.outputs = [rescale(g, g.add_op("ADD", wide), 2.0**-18, 5)]
    _unfused(g)


def test_shift_to_the_right_is_not_fused() -> None:
    g, x, a = _start()
    wide = [rescale(g, a, 0.5, 0, "int32", -11), rescale(g, x, 2.0**3, 0, "int32", 3)]
    g.outputs = [rescale(g, g.add_op("ADD", wide), 0.25, 5)]
    _unfused(g)


def test_other_zero_point_is_not_fused() -> None:
    g, x, a = _start()
    g.outputs = [summed(g, a, x, (-10, 3, 0), 18, 1.0)]
    _unfused(g)


def test_result_with_another_reader_is_not_fused() -> None:
    g, x, a = _start()
    g.outputs = [summed(g, a, x, (-11, 3, 0), 18, 1.0)]
    g.outputs.append(g.add_op("CLAMP", [a], {"min_val": 0, "max_val": 9}))
    _unfused(g)


def test_result_that_is_an_output_is_not_fused() -> None:
    g, x, a = _start()
    g.outputs = [summed(g, a, x, (-11, 3, 0), 18, 1.0), a]
    _unfused(g)


def test_sum_with_itself_is_not_fused() -> None:
    g, _, a = _start()
    wide = rescale(g, a, 2.0**18, 0, "int32", -11)
    g.outputs = [rescale(g, g.add_op("ADD", [wide, wide]), 2.0**-19, 5)]
    _unfused(g)


def test_table_between_product_and_sum_is_not_fused() -> None:
    g, x, a = _start()
    a = g.add_op("TABLE", [a, g.add_constant("t", np.arange(-128, 128)[::-1], "int8")])
    g.outputs = [summed(g, a, x, (-11, 3, 0), 18, 1.0)]
    _unfused(g)


def test_sum_rescaled_per_channel_is_not_fused() -> None:
    g, x, a = _start()
    wide = [rescale(g, a, 2.0**18, 0, "int32", -11), rescale(g, x, 2.0**18, 0, "int32", 3)]
    total = g.add_op("ADD", wide)
    g.outputs = [rescale(g, total, [0.1 * (i + 1) / 2**18 for i in range(9)], 5)]
    _unfused(g)


def test_sum_of_two_products_follows_the_later_one() -> None:
    g = Graph()
    x = g.add_input("x", (1, 7, 7, 12))
    a = narrowed(g, product(g, x, "conv", 20, seed=1), -11, 1)
    b = narrowed(g, product(g, x, "pointwise", 20, seed=2), 4, 2)
    wide = [rescale(g, t, 2.0**18, 0, "int32", zp) for t, zp in ((a, -11), (b, 4))]
    g.outputs = [rescale(g, g.add_op("ADD", wide), 2.0**-18, 5)]
    first, second = layers_of(g)
    assert isinstance(first, ConvLayer) and first.residual is None and first.kernel == (3, 3)
    assert isinstance(second, ConvLayer) and second.residual is not None
    assert second.residual.operand.view == first.output
    assert_compiles_exactly(g, preset("odd"), random_inputs(g))


def test_product_behind_a_sum_waits_for_the_sums_other_operand() -> None:
    """The other operand is computed between the product and the ADD, and by a later layer."""
    g = Graph()
    x = g.add_input("x", (1, 8, 8, 12))
    a = narrowed(g, product(g, x, "conv", 12, seed=1), -11, 1)
    b = g.add_op("MAX_POOL2D", [x], {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1)})
    g.outputs = [summed(g, a, b, (-11, 0, 2), 20, 0.9)]
    assert [type(layer).__name__ for layer in layers_of(g)] == ["PoolLayer", "ConvLayer"]
    for config in ("tiny", "default"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))


@pytest.mark.parametrize("config", ["tiny", "small", "default"])
@pytest.mark.parametrize("depth", [2, 3])
def test_residual_blocks_in_a_row(depth: int, config: str) -> None:
    g = inverted_residuals(14, 24, 72, depth)
    assert sum(getattr(layer, "residual", None) is not None for layer in layers_of(g)) == depth
    assert_compiles_exactly(g, preset(config), random_inputs(g))

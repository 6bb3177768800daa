"""Tensors that fused layers read or write stay on chip, between layers of every other kind."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, conv, random_inputs, rescale, zero_point
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec.config import preset
from sw.compiler.compilation import Compilation
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph


def _wide(g: Graph, x: str) -> str:
    return g.add_op("CAST", [x], out_dtype="int32")


def _product(g: Graph, x: str, y: str, scale: float, dtype: str) -> str:
    """RESCALE(x · y)."""
    shift = g.add_constant("shift", [0], "int8")
    return rescale(g, g.add_op("MUL", [_wide(g, x), _wide(g, y), shift]), scale, 0, dtype)


def _by_channel(g: Graph, x: str) -> str:
    """Times the maximum of each channel."""
    _, h, w, _ = g.tensors[x].shape
    pool = {"kernel": (h, w), "stride": (1, 1), "pad": (0,) * 4}
    return _product(g, x, g.add_op("MAX_POOL2D", [x], pool), 2.0**-7, "int8")


def _by_pixel(g: Graph, x: str) -> str:
    """Minus half the maximum of each pixel."""
    wide = _wide(g, x)
    return rescale(g, g.add_op("SUB", [wide, g.add_op("REDUCE_MAX", [wide], {"axis": 3})]), 0.5)


def _gate(g: Graph, x: str) -> str:
    """x · TABLE(x)."""
    rng = np.random.default_rng(3)
    table = g.add_constant("table", rng.integers(-128, 128, 256), "int8")
    return _product(g, x, g.add_op("TABLE", [x, table]), 2.0**-8, "int8")


def _column(g: Graph, x: str) -> str:
    """Times the maximum of each column."""
    rows = g.add_op("REDUCE_MAX", [x], {"axis": 1})
    return _product(g, x, rows, 2.0**-7, "int8")


def _turned(g: Graph, x: str) -> str:
    y = _by_pixel(g, x)
    return g.add_op("TRANSPOSE", [y], {"perms": (0, 2, 1, 3)})


def _convolved(g: Graph, x: str) -> str:
    return conv(g, x, 11 + g.tensors[x].shape[3] % 17, 3, pad=1)


def _by_depth(g: Graph, x: str) -> str:
    c = g.tensors[x].shape[3]
    weight = g.add_constant("w", np.random.default_rng(c).integers(-9, 9, (3, 3, c, 1)), "int8")
    operands = [x, weight, g.add_constant("b", np.zeros(c), "int32")]
    operands += [zero_point(g, 1), zero_point(g, 0)]
    y = g.add_op("DEPTHWISE_CONV2D", operands, {"pad": (1,) * 4, "stride": (1, 1)})
    return rescale(g, y, 0.02)


_STAGES = (_by_channel, _by_pixel, _gate, _column, _turned, _convolved, _by_depth)


@st.composite
def _networks(draw: Any) -> Graph:
    g = Graph(name="network")
    sizes = (draw(st.integers(1, 9)), draw(st.integers(1, 12)), draw(st.integers(1, 40)))
    x = g.add_input("x", (1, *sizes))
    for stage in draw(st.lists(st.sampled_from(_STAGES), min_size=2, max_size=5)):
        x = stage(g, x)
    g.outputs = [x]
    return g


@given(_networks(), st.sampled_from(["tiny", "odd", "rect", "small", "default"]))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_networks_with_fused_layers_on_chip_are_exact(g: Graph, config: str) -> None:
    assert_compiles_exactly(g, preset(config), random_inputs(g))


def _squeezed(config: str) -> tuple[Graph, Compilation]:
    g = Graph(name="squeezed")
    x = conv(g, g.add_input("x", (1, 9, 10, 20)), 40, 3, pad=1)
    g.outputs = [conv(g, _by_channel(g, x), 24, 1)]
    return g, run_stages(g, preset(config))


@pytest.mark.parametrize("config", ["tiny", "default"])
def test_what_a_fused_layer_scales_stays_on_chip(config: str) -> None:
    g, made = _squeezed(config)
    (fused,) = (x for x in made.layers.layers if isinstance(x, FusedLayer))
    tensors = {view.tensor for view in (*fused.inputs, *fused.outputs)}
    assert tensors <= set(made.residency.address)
    assert assert_compiles_exactly(g, preset(config), random_inputs(g)) > 0

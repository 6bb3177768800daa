"""Depthwise layers: golden model, with hazard checks, against the graph interpreter."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, depthwise, random_inputs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from spec import PRESETS, preset
from spec.isa import DType
from sw.compiler.errors import CompileError, GraphError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.depthwise.geometry import inputs_of, passes, units
from sw.compiler.kernels.depthwise.plan import plan_depthwise
from sw.compiler.kernels.depthwise.tiles import boxes
from sw.compiler.kernels.layers import DepthwiseLayer, Epilogue
from sw.compiler.kernels.views import dense
from sw.compiler.tosa.graph import Graph


def same(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Padding before and after so that ceil(size / stride) outputs come out exactly."""
    reach = (kernel - 1) * dilation
    total = (-(-size // stride) - 1) * stride + reach + 1 - size
    before = min(reach // 2, max(0, total))
    return before, max(0, total - before)


def network(n: int, h: int, w: int, c: int, k: int, s: int) -> Graph:
    """One depthwise layer with a square kernel and 'same' padding."""
    g = Graph()
    x = g.add_input("x", (n, h, w, c))
    pad = (*same(h, k, s), *same(w, k, s))
    g.outputs = [depthwise(g, x, (k, k), stride=(s, s), pad=pad)]
    return g


SHAPES = [
    (1, 5, 5, 1, 3, 1),
    (2, 9, 7, 17, 3, 2),
    (1, 25, 5, 64, 3, 1),
    (1, 7, 7, 200, 3, 1),
    (1, 14, 14, 48, 3, 2),
    (1, 12, 12, 24, 5, 2),
    (1, 11, 13, 20, 7, 1),
]


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize("shape", SHAPES)
def test_depthwise_is_exact_on_every_preset(shape: tuple[int, ...], config: str) -> None:
    g = network(*shape)
    assert_compiles_exactly(g, preset(config), random_inputs(g))


def _layer(shape: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int]) -> Any:
    n, h, w, c = shape
    oh, ow = ((s - 1) // t + 1 for s, t in zip((h, w), stride, strict=True))
    channel = np.full(c, 5, np.int64)
    return DepthwiseLayer(
        name="depthwise",
        output=dense("y", "int8", (n, oh, ow, c)),
        input=dense("x", "int8", (n, h, w, c)),
        epilogue=Epilogue(
            dtype=DType.I8, low=-128, high=127, multiplier=channel, shift=channel, bias=None
        ),
        weights=np.zeros((*kernel, c), np.int8),
        stride=stride,
        pad=(kernel[0] // 2, kernel[1] // 2),
    )


@given(
    st.sampled_from(list(PRESETS)),
    st.tuples(*[st.sampled_from(v) for v in ((1, 2), (1, 7, 30), (1, 9, 65), (1, 17, 100))]),
    st.tuples(st.sampled_from([1, 3, 10]), st.sampled_from([1, 2, 3, 7])),
    st.tuples(*[st.sampled_from([1, 2, 3])] * 2),
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([frozenset(), frozenset("x"), frozenset("xy")]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_output_and_tap_is_computed_once(
    name: str,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    taps: int,
    held: frozenset[str],
    row_order: bool,
) -> None:
    config = replace(preset(name), taps=taps)
    layer = _layer(shape, kernel, stride)
    budget = MemoryBudget(config.spad_bytes, held, row_order=row_order)
    plan = plan_depthwise(layer, config, budget)
    assert plan.spad_bytes <= budget.spad_bytes
    done = np.zeros(layer.output.shape, np.int64)
    rows = [(box.batch, box.y0) for box in boxes(layer, plan)]
    assert not row_order or rows == sorted(rows)
    for box in boxes(layer, plan):
        assert box.elements <= plan.out_bytes or "y" in held
        assert inputs_of(layer, box).elements <= plan.act_bytes or "x" in held
        for piece in units(box, config.cols, config.acc_bank):
            assert piece.vectors * -(-piece.channels // config.cols) <= config.acc_bank
            done[
                piece.batch,
                piece.y0 : piece.y1,
                piece.x0 : piece.x1,
                piece.c0 : piece.c1,
            ] += 1
    assert (done == 1).all()
    covered = np.zeros(kernel, np.int64)
    for p in passes(layer, taps):
        assert p.stride <= p.cols <= taps and p.rows <= 8
        covered[p.kh0 : p.kh1, p.kw0 : p.kw0 + p.cols] += 1
    assert (covered == 1).all()


@pytest.mark.parametrize(
    ("size", "channels", "stride"),
    [(112, 32, 1), (112, 96, 2), (56, 144, 1), (56, 144, 2), (28, 192, 1), (14, 384, 1)],
)
def test_estimates_are_near_the_engines_work(size: int, channels: int, stride: int) -> None:
    layer = _layer((1, size, size, channels), (3, 3), (stride, stride))
    plan = plan_depthwise(layer, preset("default"), MemoryBudget.whole(preset("default")))
    # Two columns are read at once where the stride is 2.
    work = (size // stride) ** 2 * channels // 16 * 3
    assert max(work, plan.traffic // 16 // 2) <= plan.cycles
    assert plan.cycles <= 1.02 * max(1.02 * work, plan.traffic / 16) + 1500


def test_kernel_that_fits_nowhere_is_an_error_with_a_hint() -> None:
    layer = _layer((1, 200, 200, 4), (180, 180), (1, 1))
    config = preset("tiny").with_settings({"spad_kib": "4"})
    with pytest.raises(CompileError, match="no tile of this layer fits in 4096 bytes"):
        plan_depthwise(layer, config, MemoryBudget.whole(config))


@st.composite
def _layers(draw: Any) -> tuple[Graph, str, dict[str, str]]:
    def one(*values: Any) -> Any:
        return draw(st.sampled_from(values))

    g = Graph()
    shape = (one(1, 2), one(1, 4, 9, 15), one(2, 5, 16), one(1, 3, 8, 17, 33))
    x = g.add_input("x", shape)
    stride, dilation = (one(1, 2, 3), one(1, 2, 3, 4)), (one(1, 1, 2), one(1, 1, 2, 3))
    kernel = (one(1, 2, 3, 5, 9), one(1, 2, 3, 4, 5, 9))
    pad = tuple(
        v
        for size, k, s, d in zip(shape[1:3], kernel, stride, dilation, strict=True)
        for v in same(size, k, s, d)
    )
    try:
        out = depthwise(
            g,
            x,
            kernel,
            stride=stride,
            dilation=dilation,
            pad=(pad[0], pad[1], pad[2], pad[3]),
            multiplier=one(1, 1, 1, 2, 5),
            zps=(one(-128, 0, 127), one(0, 0, -128)),
            seed=one(1, 2),
        )
    except GraphError:  # 'same' padding cannot make the size exact
        assume(False)
    g.outputs = [out]
    settings = {
        "taps": one("1", "2", "3", "3", "4", "8"),
        "depthwise": one("true", "true", "false"),
    }
    return g, one("tiny", "odd", "default"), settings


@given(_layers())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_depthwise_layers_are_exact(case: tuple[Graph, str, dict[str, str]]) -> None:
    g, config, options = case
    assert_compiles_exactly(g, preset(config).with_settings(options), random_inputs(g))

"""Windows at the limits of TOSA's level 8K: kernels of 8192, images of 65,537 columns."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.config import preset
from spec.isa import DType
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.depthwise.plan import plan_depthwise
from sw.compiler.kernels.layers import DepthwiseLayer, Epilogue
from sw.compiler.kernels.views import dense
from sw.compiler.kernels.windows import WindowAxis, pieces
from sw.compiler.tosa.graph import Graph


def _product(kind: str, shapes: tuple[tuple[int, ...], ...], oc: int, **attributes: Any) -> Graph:
    g = Graph(name=kind.lower())
    x, w = (g.add_input(n, s) for n, s in zip("xw", shapes, strict=True))
    zps = [g.add_constant("zp", [v], "int8") for v in (3, -2)]
    g.outputs = [g.add_op(kind, [x, w, g.add_input("b", (oc,), "int32"), *zps], attributes)]
    return g


def _pool(kind: str, shape: tuple[int, ...], **attributes: Any) -> Graph:
    g = Graph(name=kind.lower())
    operands = [g.add_input("x", shape)]
    if kind == "AVG_POOL2D":
        operands += [g.add_constant("zp", [v], "int8") for v in (3, -4)]
    g.outputs = [g.add_op(kind, operands, attributes)]
    return g


@pytest.mark.parametrize(
    ("kind", "shapes", "oc", "attributes"),
    [
        (
            "CONV2D",
            ((1, 3, 3, 2), (3, 8192, 2, 2)),
            3,
            {
                "stride": (8192, 4),
                "pad": (8189, 8192, 1, 2),
            },
        ),
        (
            "DEPTHWISE_CONV2D",
            ((1, 4, 4, 4), (1, 300, 4, 2)),
            8,
            {
                "stride": (8192, 300),
                "pad": (8188, 1, 296, 300),
                "dilation": (8192, 1),
            },
        ),
        (
            "CONV3D",
            ((1, 4, 2, 4, 4), (3, 2, 2, 8192, 4)),
            3,
            {"stride": (1, 1, 8192), "pad": (1, 0, 1, 0, 8188, 8192)},
        ),
        (
            "DEPTHWISE_CONV2D",
            ((1, 20_001, 2, 1), (3, 1, 1, 4)),
            4,
            {"stride": (2, 1), "pad": (0, 0, 0, 1), "dilation": (7, 1)},
        ),
        ("CONV2D", ((1, 2, 65_536, 1), (3, 2, 3, 1)), 3, {"stride": (1, 31), "pad": (0, 0, 1, 31)}),
        (
            "TRANSPOSE_CONV2D",
            ((1, 3, 2, 2), (2, 1, 300, 2)),
            2,
            {"stride": (1, 300), "out_pad": (0, 0, -299, -290)},
        ),
    ],
)
def test_products_at_the_limits_are_exact(
    kind: str, shapes: tuple[tuple[int, ...], ...], oc: int, attributes: dict[str, Any]
) -> None:
    g = _product(kind, shapes, oc, **attributes)
    assert assert_compiles_exactly(g, preset("tiny"), random_inputs(g)) > 0


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "pad"),
    [
        ((1, 5, 6, 3), (8192, 3), (8192, 4), (8191, 8188, 0, 1)),
        ((1, 3, 65_537, 1), (2, 3), (1, 2), (1, 0, 0, 0)),
    ],
)
@pytest.mark.parametrize("kind", ["AVG_POOL2D", "MAX_POOL2D"])
def test_pools_at_the_limits_are_exact(
    kind: str,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, ...],
) -> None:
    g = _pool(kind, shape, kernel=kernel, stride=stride, pad=pad)
    for name in ("tiny", "default"):
        assert_compiles_exactly(g, preset(name), random_inputs(g))


@given(
    size=st.integers(1, 70_000),
    kernel=st.sampled_from([1, 3, 257, 8192]),
    stride=st.sampled_from([1, 2, 100, 8192]),
    dilation=st.sampled_from([1, 7, 4096]),
    pad=st.integers(0, 9000),
    out=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_pieces_of_an_axis_read_what_the_whole_reads(
    size: int, kernel: int, stride: int, dilation: int, pad: int, out: int
) -> None:
    axis = WindowAxis(size=size, out=out, kernel=kernel, stride=stride, dilation=dilation, pad=pad)
    covered = []
    for part in pieces(axis):
        covered += range(part.o0, part.o1)
        for at in range(part.o0, part.o1):
            first = at * stride - pad
            whole = {(t, first + t * dilation) for t in range(*axis.taps(at))}
            start = (at - part.o0) * stride - part.pad
            inside = {
                (t + part.t0, start + t * dilation + part.i0)
                for t in range(part.t1 - part.t0)
                if 0 <= start + t * dilation < part.i1 - part.i0
            }
            assert inside == whole
    assert covered == list(range(out))


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "pad"),
    [
        ((1, 70, 75, 5), (64, 70), (3, 5), (0, 0, 0, 0)),
        ((2, 3, 2100, 3), (3, 2000), (2, 50), (1, 1, 25, 25)),
        ((1, 150, 150, 3), (150, 150), (1, 1), (0, 0, 0, 0)),
    ],
)
@pytest.mark.parametrize("kind", ["AVG_POOL2D", "MAX_POOL2D"])
def test_windows_larger_than_the_scratchpad_are_computed_in_parts(
    kind: str,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, ...],
) -> None:
    g = _pool(kind, shape, kernel=kernel, stride=stride, pad=pad)
    clamp = g.add_op("CLAMP", [g.outputs[0]], {"min_val": -9, "max_val": 60})
    g.outputs = [clamp]
    assert_compiles_exactly(g, preset("tiny"), random_inputs(g))


def test_tiles_of_a_tall_depthwise_layer_have_many_rows() -> None:
    layer = DepthwiseLayer(
        name="tall",
        output=dense("y", "int32", (1, 16_364, 3, 4)),
        input=dense("x", "int8", (1, 16_378, 2, 4)),
        epilogue=Epilogue(dtype=DType.I32, low=-(1 << 31), high=(1 << 31) - 1),
        weights=np.ones((3, 1, 4), np.int8),
        dilation=(7, 1),
    )
    tiny = preset("tiny")
    assert plan_depthwise(layer, tiny, MemoryBudget.whole(tiny)).th >= 64

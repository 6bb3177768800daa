"""Pools: maxima by rows, then by columns, and averages over padding, equal the specification."""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs, zero_point

from spec import preset
from sw.compiler.kernels.layers import MoveLayer, PoolLayer
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph

CONFIGS = ("tiny", "odd", "rect", "micro", "default")


def _max_pool(
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int, int, int],
    dtype: str = "int8",
) -> Graph:
    g = Graph(name="pool")
    x = g.add_input("x", shape, dtype)
    g.outputs = [
        g.add_op("MAX_POOL2D", [x], {"kernel": kernel, "stride": stride, "pad": pad}, name="pool")
    ]
    return g


def _random_axis(rng: np.random.Generator) -> tuple[int, int, int, int, int]:
    """Size, kernel, stride and padding on both sides of windows that fit exactly."""
    kernel, stride = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    before, after = (int(rng.integers(0, kernel)) for _ in range(2))
    outs = int(rng.integers(1, 9))
    size = (outs - 1) * stride + kernel - before - after
    return (size, kernel, stride, before, after) if size > 0 else _random_axis(rng)


@pytest.mark.parametrize("name", CONFIGS)
def test_random_maxima_are_exact(name: str) -> None:
    rng = np.random.default_rng(len(name))
    separate = 0
    for seed in range(12):
        (h, ky, sy, top, bottom), (w, kx, sx, left, right) = _random_axis(rng), _random_axis(rng)
        shape = (int(rng.integers(1, 3)), h, w, int(rng.integers(1, 40)))
        dtype = "int16" if seed % 4 == 3 else "int8"
        g = _max_pool(shape, (ky, kx), (sy, sx), (top, bottom, left, right), dtype)
        layers = run_stages(g, preset(name)).layers.layers
        separate += sum(isinstance(x, PoolLayer) and x.is_separate for x in layers)
        assert assert_compiles_exactly(g, preset(name), random_inputs(g, seed)) > 0
    assert 2 <= separate <= 10


def test_a_window_of_five_by_five_takes_ten_steps() -> None:
    g = _max_pool((1, 8, 8, 64), (5, 5), (1, 1), (2, 2, 2, 2))
    made = run_stages(g, preset("default"))
    assert sum(made.predicted) < 8 * 8 * 4 * 14


def _average(
    pads: tuple[int, ...], value: int, cut: int = 0, dtype: str = "int16", zp: int = 0
) -> Graph:
    """PAD, SLICE of `cut` elements fewer at the end, AVG_POOL2D of 3x3 windows."""
    g = Graph(name="average")
    x = g.add_input("x", (2, 6, 9, 21), dtype)
    padding = g.add_constant("padding", list(pads), "shape")
    y = g.add_op("PAD", [x, padding, g.add_constant("fill", [value], dtype)])
    if cut:
        n, h, w, c = g.tensors[y].shape
        begin = g.add_constant("begin", [0, 0, 0, 0], "shape")
        y = g.add_op("SLICE", [y, begin, g.add_constant("size", [n, h - cut, w - cut, c], "shape")])
    attributes = {"kernel": (3, 3), "stride": (1, 1), "pad": (0, 0, 0, 0)}
    zps = [zero_point(g, zp, dtype), zero_point(g, 0 if dtype == "int16" else 2, dtype)]
    g.outputs = [g.add_op("AVG_POOL2D", [y, *zps], attributes, name="pool")]
    return g


@pytest.mark.parametrize("name", CONFIGS)
def test_an_average_takes_the_pad_before_it(name: str) -> None:
    for g in (
        _average((0, 0, 1, 1, 1, 1, 0, 0), 0),
        _average((0, 0, 1, 1, 1, 1, 0, 0), 0, cut=1),
        _average((0, 0, 4, 0, 0, 5, 0, 0), 7, dtype="int8", zp=7),
    ):
        (layer,) = run_stages(g, preset(name)).layers.layers
        assert isinstance(layer, PoolLayer) and layer.counts_padding
        assert assert_compiles_exactly(g, preset(name), random_inputs(g, 1)) > 0


def test_another_pad_stays() -> None:
    for g in (
        _average((0, 0, 1, 1, 1, 1, 0, 0), 1),
        _average((0, 0, 1, 1, 1, 1, 0, 2), 0),
    ):
        made = run_stages(g, preset("tiny")).layers.layers
        assert any(isinstance(layer, MoveLayer) for layer in made)
        assert assert_compiles_exactly(g, preset("tiny"), random_inputs(g, 1)) > 0

"""RESIZE: every way in which it is lowered gives the bits of the specification."""

from collections.abc import Sequence

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly

from spec.config import NpuConfig, preset
from spec.numerics import scale_to_multiplier
from sw.compiler.kernels.layers import (
    ConvLayer,
    FusedLayer,
    GatherLayer,
    Layer,
    MoveLayer,
    ResizeLayer,
)
from sw.compiler.kernels.resize.axis import ResizeAxis
from sw.compiler.kernels.resize.tiles import ResizePlan
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph

CONFIGS = [preset(name) for name in ("tiny", "odd", "rect", "default")]
CONFIGS.append(preset("tiny").with_settings({"depthwise": "false"}))
CONFIGS.append(preset("tiny").with_settings({"taps": "1"}))


def _graph(
    shape: tuple[int, int, int, int],
    steps: Sequence[tuple[int, int, int, int]],
    mode: str = "BILINEAR",
    dtype: str = "int8",
    channels: int = 1,
) -> Graph:
    """RESIZE and, if BILINEAR, RESCALE. `steps`: numerator, denominator, offset and border of rows
    and of columns; `channels`: of the scales of the RESCALE.
    """
    g = Graph()
    rows, cols = steps
    operands = [
        g.add_input("x", shape, dtype),
        g.add_constant("scale", [*rows[:2], *cols[:2]], "shape"),
        g.add_constant("offset", [rows[2], cols[2]], "shape"),
        g.add_constant("border", [rows[3], cols[3]], "shape"),
    ]
    out = g.add_op("RESIZE", operands, {"mode": mode})
    if mode == "BILINEAR":
        pairs = [scale_to_multiplier(0.7 / (rows[0] * cols[0]) + i / 999) for i in range(channels)]
        out = g.add_op(
            "RESCALE",
            [
                out,
                g.add_constant("multiplier", [m for m, _ in pairs], "int32"),
                g.add_constant("shift", [s for _, s in pairs], "int8"),
                g.add_constant("in_zp", [0], "int32"),
                g.add_constant("out_zp", [3], "int8"),
            ],
            {"per_channel": channels > 1},
            out_dtype="int8",
        )
    g.outputs = [out]
    g.verify()
    return g


def _layers(g: Graph, config: NpuConfig) -> tuple[Layer, ...]:
    return run_stages(g, config).layers.layers


def _half_pixel(factor: int) -> tuple[int, int, int, int]:
    return 2 * factor, 2, 1 - factor, factor - 1


def _values(g: Graph, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(*_RANGE[g.tensors[name].dtype], g.tensors[name].shape).astype(
            g.tensors[name].dtype
        )
        for name in g.inputs
    }


_RANGE = {"int8": (-128, 128), "int16": (-32768, 32768)}


def _exact(g: Graph, config: NpuConfig, seed: int = 0) -> None:
    assert assert_compiles_exactly(g, config, _values(g, seed)) > 0


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_bilinear_by_whole_factors_is_exact(config: NpuConfig) -> None:
    for factor, shape in ((2, (1, 5, 7, 19)), (3, (2, 1, 4, 13)), (4, (1, 3, 6, 16))):
        g = _graph(shape, [_half_pixel(factor)] * 2)
        made = [type(layer) for layer in _layers(g, config)]
        assert made == [ResizeLayer] if config.depthwise else GatherLayer in made
        _exact(g, config)


def test_weights_of_more_than_eight_bits_are_cut() -> None:
    # 16 · 16 is one more than the largest weight, 16 · 32 more than twice that.
    for steps in ([(16, 8, 0, 0), (16, 8, 0, 0)], [(16, 8, 8, 0), (32, 16, 0, 0)]):
        g = _graph((1, 9, 9, 16), steps)
        config = preset("default")
        assert [type(layer) for layer in _layers(g, config)] == [ResizeLayer]
        _exact(g, config)


def test_a_rescale_of_channels_follows_by_itself() -> None:
    g = _graph((1, 4, 4, 6), [_half_pixel(2)] * 2, channels=6)
    made = [type(layer) for layer in _layers(g, preset("tiny"))]
    assert made[0] is ResizeLayer and len(made) == 2
    _exact(g, preset("tiny"))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_nearest_by_a_regular_step_is_one_copy(dtype: str) -> None:
    for steps in (
        [_half_pixel(2)] * 2,
        [(1, 3, 0, 0), (3, 1, -1, 1)],
        [(2, 1, 0, 1), (1, 1, 0, 0)],
    ):
        g = _graph((2, 4, 7, 5), steps, "NEAREST", dtype)
        made = [type(layer) for layer in _layers(g, preset("tiny"))]
        assert set(made) == {MoveLayer} and len(made) <= 4
        _exact(g, preset("tiny"))
        _exact(g, preset("micro"))


def _random_step(rng: np.random.Generator, size: int) -> tuple[int, int, int, int]:
    """A legal step: the last output falls within 16 pixels of the last input."""
    n = int(rng.integers(1, 9))
    d, at = int(rng.integers(1, min(16 * n, 12))), int(rng.integers(-n, min(n, size * n)))
    span = (size - 1) * n - at
    border = -(span % d) if span % d <= 16 * n else 0
    border += d * int(rng.integers(0, 1 + max(0, (n - 1 - border) // d)))
    return n, d, at, max(border, -span)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.name} {c.digest_hex}")
def test_random_steps_are_exact(config: NpuConfig) -> None:
    rng = np.random.default_rng(config.cols)
    for seed in range(12):
        h, w, c = (int(v) for v in rng.integers(1, 11, 3))
        mode = "BILINEAR" if seed % 4 else "NEAREST"
        steps = [_random_step(rng, size) for size in (h, w)]
        _exact(_graph((int(rng.integers(1, 3)), h, w, c), steps, mode), config, seed)


def test_an_axis_of_outputs_reads_what_its_phases_say() -> None:
    axis = ResizeAxis(size=4, out=8, scale=4, step=2, offset=-1)
    assert (axis.phases, axis.stride, axis.most) == (2, 1, 3)
    assert [axis.low(at) for at in range(8)] == [-1, 0, 0, 1, 1, 2, 2, 3]
    assert [axis.weights(at) for at in range(2)] == [(1, 3), (3, 1)]
    assert axis.reach(0, 8) == (-1, 5)
    first, inner, last = axis.segments(-1, 5)
    assert (first.at, first.count, first.source, first.step) == (0, 1, 0, 0)
    assert (inner.at, inner.count, inner.source, inner.step) == (1, 4, 0, 1)
    assert (last.at, last.count, last.source, last.step) == (5, 1, 3, 0)


def test_unaligned_channels_are_not_cut() -> None:
    # A slice of them would be stored in runs of a few bytes, each with partial words.
    (plan,) = run_stages(_graph((1, 7, 9, 21), [_half_pixel(2)] * 2), preset("tiny")).plans
    assert isinstance(plan, ResizePlan) and plan.tc == 21


def test_nearest_to_the_same_places_vanishes() -> None:
    shape = (1, 5, 6, 3)
    g = _graph(shape, [(4, 4, 0, 0), (1, 1, 0, 0)], "NEAREST")
    (resized,) = g.outputs
    g.outputs = [g.add_op("ABS", [g.add_op("CAST", [resized], out_dtype="int32")])]
    assert [op.kind for op in run_passes(g, preset("tiny")).ops] == ["CAST", "ABS"]
    _exact(g, preset("tiny"))
    moved = _graph(shape, [(1, 1, 0, 0), (2, 2, 1, 1)], "NEAREST")
    (resized,) = moved.outputs
    moved.outputs = [moved.add_op("CAST", [resized], out_dtype="int32")]
    assert "RESIZE" in [op.kind for op in run_passes(moved, preset("tiny")).ops]
    _exact(moved, preset("tiny"))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.name} {c.digest_hex}")
def test_few_channels_lie_side_by_side_in_a_product(config: NpuConfig) -> None:
    made = set()
    for factor, shape in ((2, (1, 20, 24, 1)), (8, (1, 6, 12, 1)), (3, (2, 12, 10, 2))):
        g = _graph(shape, [_half_pixel(factor)] * 2)
        made |= {type(layer) for layer in _layers(g, config)}
        _exact(g, config)
    assert ConvLayer in made and FusedLayer not in made
    # Stretched in one direction only, by a fraction; results of int32.
    g = _graph((1, 9, 16, 1), [(1, 1, 0, 0), (4, 3, 0, 0)])
    g.outputs = [g.ops[0].outputs[0]]
    del g.ops[1:]
    _exact(g, config)

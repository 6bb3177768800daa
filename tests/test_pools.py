"""Pools equal the specification: two elements of a window a step, by rows and then by columns, and
averages over padding.
"""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs, zero_point
from pool_cases import max_pool, random_axis, random_pool

from spec import preset
from spec.isa import Alu, Reduce
from sw.compiler.kernels.layers import MoveLayer, PoolLayer
from sw.compiler.kernels.pool.cost import window_cycles
from sw.compiler.kernels.pool.taps import TapRate, paired_taps
from sw.compiler.kernels.windows import WindowAxis
from sw.compiler.pipeline import run_stages
from sw.compiler.program.records import Vector
from sw.compiler.program.virtual import iterations
from sw.compiler.tosa.graph import Graph

CONFIGS = ("tiny", "odd", "rect", "micro", "default")


@pytest.mark.parametrize("name", CONFIGS)
def test_random_pools_are_exact(name: str) -> None:
    rng = np.random.default_rng(len(name))
    separate, paired = 0, 0
    for seed in range(24):
        g = random_pool(rng)
        made = run_stages(g, preset(name))
        separate += sum(
            isinstance(x, PoolLayer) and x.is_separate(made.config.cols) for x in made.layers.layers
        )
        vectors = [v.record for v in made.virtual.instructions if isinstance(v.record, Vector)]
        paired += any(v.reduce is Reduce.MAX and v.alu is Alu.MAX for v in vectors)
        assert assert_compiles_exactly(g, preset(name), random_inputs(g, seed)) > 0
    assert separate >= 2 and paired >= 5


@pytest.mark.parametrize(
    ("kernel", "stride", "steps"),
    [(2, 2, 2), (3, 2, 6), (3, 1, 4), (5, 2, 9), (5, 1, 6), (8, 8, 32)],
)
def test_a_step_of_a_maximum_takes_two_elements(kernel: int, stride: int, steps: int) -> None:
    """`steps` for each vector of outputs. Half of 5 is 3: the middle is taken twice."""
    side = 15 * stride + kernel
    g = max_pool((1, side, side, 64), (kernel,) * 2, (stride,) * 2, (0, 0, 0, 0))
    made = run_stages(g, preset("default"))
    (layer,) = made.layers.layers
    assert isinstance(layer, PoolLayer)
    assert window_cycles(layer, preset("default")) == steps
    vectors = [v.record for v in made.virtual.instructions if isinstance(v.record, Vector)]
    taken = sum(iterations(v.loop, len(v.loop)) for v in vectors)
    # Rows are taken for all columns of a tile, of which windows at its edge share none.
    assert 16 * 16 * 4 * steps <= taken < 16 * 16 * 4 * steps * 1.2


def test_rows_of_pixels_that_are_no_whole_vectors_are_taken_as_one() -> None:
    """24 channels are a vector and a half: 64 pixels of a row are 96 vectors, not 128."""
    g = max_pool((1, 65, 64, 24), (3, 3), (2, 2), (0, 0, 0, 1))
    made = run_stages(g, preset("default"))
    (layer,) = made.layers.layers
    assert isinstance(layer, PoolLayer) and layer.row_share(16) == 0.75
    assert window_cycles(layer, preset("default")) == 2 * 2 * 0.75 + 2
    vectors = [v.record for v in made.virtual.instructions if isinstance(v.record, Vector)]
    rows = sum(iterations(v.loop, len(v.loop)) for v in vectors if v.loop[0].count > 2)
    assert rows == 32 * 96 * 2
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g, 0)) > 0


RATES = [TapRate(one=1, two=1, once=False), TapRate(one=2, two=2, once=True)]


@pytest.mark.parametrize("rate", RATES, ids=["maximum", "sum"])
@pytest.mark.parametrize("each", [1, 1000])
def test_steps_take_every_element_of_every_window(rate: TapRate, each: int) -> None:
    rng, paired = np.random.default_rng(each), 0
    for _ in range(200):
        size, kernel, stride, before, after = random_axis(rng, 12)
        out = (size + before + after - kernel) // stride + 1
        axis = WindowAxis(size=size, out=out, kernel=kernel, stride=stride, dilation=1, pad=before)
        parts = paired_taps(axis, 0, out, rate, each)
        assert [p.start for p in parts] == [0, *(p.stop for p in parts[:-1])]
        assert parts[-1].stop == out
        for part in parts:
            paired += part.apart > 0
            for at in range(part.start, part.stop):
                window = range(at * stride - before, at * stride - before + kernel)
                wanted = [i for i in window if 0 <= i < size]
                steps = [window[0] + part.first + i for i in range(part.steps)]
                inside = [i for i in steps if 0 <= i < size - part.apart]
                met = inside + [i + part.apart for i in inside if part.apart]
                assert sorted(met) == wanted if rate.once else set(met) == set(wanted)
    assert paired > 20


def test_an_average_takes_two_elements_where_that_is_faster() -> None:
    """Two elements of int8 take a cycle, as B is added before RESCALE. Of int16 they take two, and
    one alone comes through both ports in a cycle. The RESCALE of the result is one more.
    """
    for dtype, kernel, cycles in (
        ("int16", 2, 5),
        ("int16", 3, 10),
        ("int8", 2, 3),
        ("int8", 3, 10),
    ):
        g = Graph(name="average")
        x = g.add_input("x", (1, 12, 12, 64), dtype)
        attributes = {"kernel": (kernel, kernel), "stride": (kernel, kernel)}
        zps = [zero_point(g, 0, dtype), zero_point(g, 0, dtype)]
        g.outputs = [g.add_op("AVG_POOL2D", [x, *zps], attributes, name="pool")]
        (layer,) = run_stages(g, preset("default")).layers.layers
        assert isinstance(layer, PoolLayer)
        assert window_cycles(layer, preset("default")) == cycles


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

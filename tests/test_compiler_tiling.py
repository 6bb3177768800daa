"""Tilings cover the output exactly once and fit in the memories of every configuration."""

import itertools

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly
from hypothesis import given, settings
from hypothesis import strategies as st

from spec import PRESETS, preset
from spec.isa import DType
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.conv.geometry import geometry
from sw.compiler.kernels.conv.plan import plan_conv
from sw.compiler.kernels.conv.steps import Accumulators, steps
from sw.compiler.kernels.elementwise.plan import elementwise_work, plan_elementwise
from sw.compiler.kernels.layers import (
    ConvLayer,
    ElementwiseLayer,
    Epilogue,
    MoveLayer,
    Operand,
    PoolLayer,
)
from sw.compiler.kernels.move.plan import move_tiles, plan_move
from sw.compiler.kernels.pool.plan import plan_pool, pool_work
from sw.compiler.kernels.vector.plan import boxes
from sw.compiler.kernels.views import dense
from sw.compiler.machine.costs import weight_cycles
from sw.compiler.pipeline import compile_graph
from sw.models.kernels import kernel, parse_shape

configs = st.sampled_from(list(PRESETS))
sizes = st.sampled_from([1, 2, 3, 5, 8, 13, 16, 17, 40, 65, 130])
WIDE = preset("default").with_settings({"bus_bytes": "32"})
INT8 = Epilogue(dtype=DType.I8, low=-128, high=127)


def _conv(n: int, h: int, w: int, c: int, oc: int, k: int, stride: int, pad: int) -> ConvLayer:
    oh, ow = ((s + 2 * pad - k) // stride + 1 for s in (h, w))
    channel = np.full(oc, 5, np.int64)
    return ConvLayer(
        name="conv",
        output=dense("y", "int8", (n, oh, ow, oc)),
        input=dense("x", "int8", (n, h, w, c)),
        epilogue=Epilogue(
            dtype=DType.I8, low=-128, high=127, multiplier=channel, shift=channel, bias=None
        ),
        kernel=(k, k),
        stride=(stride, stride),
        pad=(pad, pad),
        weights=np.zeros((oc, k, k, c), np.int8),
    )


@given(
    configs,
    st.sampled_from([1, 2]),
    sizes,
    sizes,
    st.sampled_from([1, 3, 16, 17, 64, 300]),
    st.sampled_from([1, 4, 16, 33, 200]),
    st.sampled_from([1, 3, 5]),
    st.sampled_from([1, 2]),
)
@settings(max_examples=150, deadline=None)
def test_convolution_covers_output_and_reduction_once(
    name: str, n: int, h: int, w: int, c: int, oc: int, k: int, stride: int
) -> None:
    config = preset(name)
    layer = _conv(n, h, w, c, oc, k, stride, k // 2)
    plan = plan_conv(layer, config, MemoryBudget.whole(config))
    geo = geometry(layer, plan.packing, plan.stacked)
    assert plan.spad_bytes <= config.spad_bytes
    assert plan.th * plan.tw <= config.acc_half
    blocks = -(-oc // config.cols)
    # Count of multiply-accumulate rows per (image, y, x, block): kernel rows x channels, once.
    done = np.zeros((geo.n, geo.oh, geo.ow, blocks), np.int64)
    accumulators = Accumulators(geo, plan, config)
    for step in steps(geo, plan, config):
        tile = step.tile
        for unit in accumulators.units(step):
            # Pieces without an epilogue are few instructions.
            assert 1 <= unit.count <= (plan.unroll if unit.closes else max(plan.unroll, 4))
            parts = unit.parts if unit.spread else 1
            assert parts == 1 or (unit.count == 1 and tile.rows % parts == 0)
            for i in range(unit.count):
                for part in range(parts):
                    size = tile.vectors // parts
                    acc = unit.acc + i * unit.acc_step + part * unit.part_step * unit.spread
                    assert acc >= 0 and acc + size <= config.acc_vectors
                    # Never across the halves, so that VECTOR and MATRIX can be in different ones.
                    assert acc // config.acc_half == (acc + size - 1) // config.acc_half
                area = done[tile.batch, tile.y0 : tile.y1, tile.x0 : tile.x1, unit.block + i]
                assert unit.opens == (not area.any())
                area += unit.piece.kernel_rows * unit.piece.channels
                assert unit.closes == bool((area == geo.kernel[0] * geo.c).all())
    assert (done == geo.kernel[0] * geo.c).all()
    assert len(plan.k_tiles) == 1 or not plan.prologue or geo.oh * geo.ow >= weight_cycles(config)


@given(configs, sizes, sizes, sizes, st.booleans(), st.sampled_from([1, 2, 3]))
@settings(max_examples=100, deadline=None)
def test_pool_boxes_cover_the_output_once(
    name: str, h: int, w: int, c: int, average: bool, kernel: int
) -> None:
    config = preset(name)
    if h < kernel or w < kernel:
        return
    layer = PoolLayer(
        name="pool",
        output=dense("y", "int8", (1, h // kernel, w // kernel, c)),
        epilogue=INT8,
        input=dense("x", "int8", (1, h, w, c)),
        average=average,
        kernel=(kernel, kernel),
        stride=(kernel, kernel),
        pad=(0, 0),
    )
    work = pool_work(layer, config)
    plan = plan_pool(layer, config, MemoryBudget.whole(config))
    assert plan.spad_bytes <= config.spad_bytes
    seen = np.zeros(layer.output.shape, np.int64)
    for box in boxes(work, plan):
        seen[box.batch, box.y0 : box.y1, box.x0 : box.x1, box.c0 : box.c1] += 1
        assert work.reads(box).elements <= plan.in_bytes[0]
        assert box.elements <= plan.out_bytes
    assert (seen == 1).all()


@given(configs, sizes, sizes, sizes, st.booleans(), st.sampled_from(["int8", "int16", "int32"]))
@settings(max_examples=100, deadline=None)
def test_elementwise_boxes_cover_the_output_once(
    name: str, h: int, w: int, c: int, channel: bool, dtype: str
) -> None:
    config = preset(name)
    many = np.full(c if channel else 1, 5, np.int64)
    layer = ElementwiseLayer(
        name="rescale",
        output=dense("y", "int8", (2, h, w, c)),
        epilogue=Epilogue(dtype=DType.I8, low=-128, high=127, multiplier=many, shift=many),
        a=Operand(view=dense("x", dtype, (2, h, w, c)), dtype=DType.I8),
    )
    plan = plan_elementwise(layer, config, MemoryBudget.whole(config))
    assert plan.spad_bytes <= config.spad_bytes
    shape = (1, 1, 2 * h * w * c, 1) if plan.flat else layer.output.shape
    seen = np.zeros(shape, np.int64)
    for box in boxes(elementwise_work(layer, config), plan):
        seen[box.batch, box.y0 : box.y1, box.x0 : box.x1, box.c0 : box.c1] += 1
        assert box.elements * layer.a.view.item <= plan.in_bytes[0]
    assert (seen == 1).all()


@given(configs, st.tuples(sizes, sizes, sizes, sizes))
@settings(max_examples=60, deadline=None)
def test_move_tiles_cover_the_output_once(name: str, shape: tuple[int, int, int, int]) -> None:
    if np.prod(shape) > 300_000:
        return
    config = preset(name)
    layer = MoveLayer(
        name="move",
        output=dense("y", "int8", shape),
        tensor="x",
        offset=0,
        source_shape=shape,
        source_strides=(1, 1, 1, 1),
    )
    plan = plan_move(layer, config, MemoryBudget.whole(config))
    assert plan.spad_bytes <= config.spad_bytes
    seen = np.zeros(shape, np.int64)
    for tile in itertools.islice(move_tiles(layer, plan), 100_000):
        seen[tuple(slice(a, b) for a, b in tile)] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize(
    ("shape", "limit"),
    [((56, 56, 64, 64), 1.01), ((28, 28, 128, 128), 1.01), ((14, 14, 256, 256), 1.01)],
)
def test_estimates_of_large_convolutions_are_near_the_floor(
    shape: tuple[int, int, int, int], limit: float
) -> None:
    (h, w, c, oc), config = shape, preset("default")
    plan = plan_conv(_conv(1, h, w, c, oc, 3, 1, 1), config, MemoryBudget.whole(config))
    assert plan.cycles <= limit * h * w * c * oc * 9 / 256


@pytest.mark.parametrize(
    ("name", "size"),
    [("default", (128, 3072, 768)), ("default", (512, 4096, 1024)), ("small", (512, 4096, 1024))],
)
def test_a_long_reduction_is_cut_rather_than_loaded_again_and_again(
    name: str, size: tuple[int, int, int]
) -> None:
    """The whole reduction fits, in tiles of few rows and one column block."""
    config, (rows, depth, columns) = preset(name), size
    layer = _conv(1, rows, 1, depth, columns, 1, 1, 0)
    plan = plan_conv(layer, config, MemoryBudget.whole(config))
    assert len(plan.k_tiles) > 1
    assert plan.cycles < 1.005 * rows * depth * columns / config.pes


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("default", (1, 9216, 64)),
        ("default", (1, 8192, 1000)),
        ("default", (1, 9216, 4096)),
        ("default", (1, 25088, 512)),
        ("small", (1, 9216, 256)),
        ("large", (4, 16384, 512)),
    ],
)
def test_few_rows_of_any_depth_take_as_long_as_their_weights(
    name: str, size: tuple[int, int, int]
) -> None:
    """The weights of one column block fit, but not twice."""
    config, (rows, depth, columns) = preset(name), size
    layer = _conv(1, rows, 1, depth, columns, 1, 1, 0)
    plan = plan_conv(layer, config, MemoryBudget.whole(config))
    bus = depth * columns / config.bus_bytes
    array = -(-depth // config.rows) * -(-columns // config.cols) * weight_cycles(config)
    assert plan.cycles < 1.08 * max(bus, array)


def test_rows_of_a_long_reduction_are_loaded_once() -> None:
    config = preset("default")
    layer = _conv(1, 32, 1, 9216, 4096, 1, 1, 0)
    plan = plan_conv(layer, config, MemoryBudget.whole(config))
    assert plan.cycles < 1.005 * 32 * 9216 * 4096 / config.pes


def test_layer_that_fits_nowhere_is_an_error_with_a_hint() -> None:
    layer = _conv(1, 9, 30000, 4, 4, 1, 1, 0)
    wide = _conv(1, 130, 130, 4, 4, 125, 1, 0)
    tiny = preset("tiny")
    assert plan_conv(layer, tiny, MemoryBudget.whole(tiny)).tw <= tiny.acc_half
    with pytest.raises(CompileError, match="no tile of this layer fits in 4096 bytes"):
        plan_conv(wide, tiny, MemoryBudget(4096))


@pytest.mark.parametrize("config", ["tiny", "small", "wide"])
@pytest.mark.parametrize("shape", ["1x64x64", "1x37x50", "2x70x17", "3x8x33"])
def test_computed_weights_are_right_where_rows_of_blocks_lie_side_by_side(
    config: str, shape: str
) -> None:
    npu = WIDE if config == "wide" else preset(config)
    work = kernel("matmul", parse_shape(shape))
    assert assert_compiles_exactly(work.graph, npu, work.inputs) > 0


def test_computed_weights_fill_the_words_of_a_wide_bus() -> None:
    """A row of a column block is half a bus word: two rows of blocks side by side are one."""
    work = kernel("matmul", parse_shape("1x512x512"))
    cycles = compile_graph(work.graph, WIDE).info["predicted_cycles"]
    assert isinstance(cycles, int)
    # On the RTL: 10,420.
    assert cycles == pytest.approx(10_420, rel=0.03)

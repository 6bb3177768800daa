"""Packed convolutions: window rows and whole windows as vectors, on every preset, bit for bit."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly
from hypothesis import given, settings
from hypothesis import strategies as st

from spec import PRESETS, preset
from spec.isa import DType
from sw.compiler.kernels.boxes import Tile
from sw.compiler.kernels.conv import plan as tiling_conv
from sw.compiler.kernels.conv.geometry import Packing, geometry, packings
from sw.compiler.kernels.conv.plan import ConvPlan
from sw.compiler.kernels.conv.window_loads import window_moves
from sw.compiler.kernels.layers import ConvLayer, Epilogue
from sw.compiler.kernels.views import dense
from sw.compiler.pipeline import run_stages
from sw.models.kernels import kernel, parse_shape

FIRST = {
    "resnet": "h=22,w=26,c=3,oc=20,k=7,s=2,p=3",
    "mobilenet": "n=2,h=18,w=20,c=3,oc=33,k=3,s=2,p=0,pad_bottom=1,pad_right=1",
    "ds_cnn": "h=31,w=10,c=1,oc=20,kh=10,kw=4,s=2,p=1,pad_top=4,pad_bottom=5",
    "cifar": "h=9,w=16,c=3,oc=16,k=3,p=1",
    "patches": "h=16,w=16,c=3,oc=9,k=4,s=4,p=0",
    "sparse": "h=14,w=15,c=5,oc=9,k=2,s=5,p=1",
    "tall dilation": "h=19,w=12,c=2,oc=5,kh=3,kw=2,dilation_y=3,p=2",
    "padding alone": "h=1,w=2,c=3,oc=5,k=3,p=3",
}


def _planned(shape: str, config: str) -> tuple[ConvLayer, ConvPlan]:
    work = kernel("conv2d", parse_shape(shape, "conv2d"))
    found = run_stages(work.graph, preset(config))
    layer, plan = found.layers.layers[0], found.plans[0]
    assert isinstance(layer, ConvLayer) and isinstance(plan, ConvPlan)
    return layer, plan


@pytest.mark.parametrize("config", list(PRESETS))
@pytest.mark.parametrize("packing", list(Packing))
@pytest.mark.parametrize("name", FIRST)
def test_first_convolutions_are_exact_however_they_are_packed(
    name: str, packing: Packing, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiling_conv, "packings", lambda layer, rows: [packing])
    work = kernel("conv2d", parse_shape(FIRST[name], "conv2d"), seed=5)
    assert_compiles_exactly(work.graph, preset(config), work.inputs)


def test_windows_of_first_convolutions_fill_the_array() -> None:
    """The vectors are as long as the windows, so folds are as few as they can be."""
    for name in ("resnet", "ds_cnn", "mobilenet"):
        layer, plan = _planned(FIRST[name], "default")
        assert plan.packing is Packing.WINDOWS, name
        assert [p.channels for p in plan.k_tiles] == [layer.weights[0].size]  # type: ignore[index]


def test_packing_is_tried_only_where_it_saves_folds_or_reads() -> None:
    def tried(shape: str, rows: int = 16) -> list[Packing]:
        work = kernel("conv2d", parse_shape(shape, "conv2d"))
        layer = run_stages(work.graph, preset("default")).layers.layers[0]
        assert isinstance(layer, ConvLayer)
        return packings(layer, rows)

    assert tried("h=9,w=9,c=16,oc=4,k=3,p=1") == [Packing.NONE]
    assert tried("h=9,w=9,c=16,oc=4,k=3,p=1,s=4") == [Packing.NONE, Packing.WINDOWS]
    assert tried("h=9,w=9,c=3,oc=4,k=3,dilation_x=2") == [Packing.NONE]
    assert tried("h=9,w=9,c=3,oc=4,kh=1,kw=5,p=0") == [Packing.NONE, Packing.ROWS]
    assert tried("h=9,w=9,c=3,oc=4,k=3,p=1") == list(Packing)


@st.composite
def _tiles(draw: Any) -> tuple[ConvLayer, Tile]:
    """A layer and a tile of it; `pad` and the output's size give any padding on any side."""

    def one(low: int, high: int) -> int:
        return int(draw(st.integers(low, high)))

    kernel_shape, c = (one(2, 5), one(1, 4)), one(1, 4)
    y0, x0 = one(0, 9), one(0, 9)
    tile = Tile(batch=0, y0=y0, y1=y0 + one(1, 5), x0=x0, x1=x0 + one(1, 5))
    layer = ConvLayer(
        name="conv",
        output=dense("y", "int8", (1, tile.y1 + one(0, 3), tile.x1 + one(0, 3), 3)),
        input=dense("x", "int8", (1, one(1, 14), one(1, 14), c), offset=one(0, 9)),
        epilogue=Epilogue(dtype=DType.I8, low=-128, high=127),
        kernel=kernel_shape,
        stride=(one(1, 6), one(1, 5)),
        dilation=(one(1, 3), 1),
        pad=(one(0, 5), one(0, 5)),
        weights=np.zeros((3, *kernel_shape, c), np.int8),
    )
    return layer, tile


@given(_tiles())
@settings(max_examples=150, deadline=None)
def test_moves_lay_out_every_window_once(case: tuple[ConvLayer, Tile]) -> None:
    """The moves, carried out one by one, leave each window of the tile where MATRIX reads it."""
    layer, tile = case
    geo = geometry(layer, Packing.WINDOWS)
    size = geo.input.offset + geo.input.strides[0]
    memory = np.random.default_rng(0).integers(1, 100, size).astype(np.int64)
    rows = geo.window_rows(tile.rows)
    chip = np.full(rows * tile.cols * geo.pixel, -1)
    for move in window_moves(geo, tile):
        for index in np.ndindex(*(count for count, _, _ in move.box)):
            steps = list(zip(index, move.box, strict=True))
            to = move.chip + sum(i * on_chip for i, (_, _, on_chip) in steps)
            at = geo.input.offset + sum(i * mem for i, (_, mem, _) in steps) + (move.mem or 0)
            assert (chip[to : to + move.run] == -1).all()
            fill = np.zeros(move.run)
            chip[to : to + move.run] = fill if move.mem is None else memory[at : at + move.run]
    down, right = geo.walk(rows, tile.cols, geo.pixel)
    for y in range(tile.rows):
        for x in range(tile.cols):
            want = _window(layer, memory, tile.y0 + y, tile.x0 + x)
            at = y * down + x * right
            np.testing.assert_array_equal(chip[at : at + want.size], want)


def _window(layer: ConvLayer, memory: np.ndarray, y: int, x: int) -> np.ndarray:
    """[kh·kw·C] of one output; the padding is 0."""
    (kh, kw), (_, h, w, c) = layer.kernel, layer.input.shape
    out = np.zeros((kh, kw, c), np.int64)
    for i in range(kh):
        for j in range(kw):
            row = y * layer.stride[0] - layer.pad[0] + i * layer.dilation[0]
            column = x * layer.stride[1] - layer.pad[1] + j
            if 0 <= row < h and 0 <= column < w:
                at = layer.input.offset + row * layer.input.strides[1]
                at += column * layer.input.strides[2]
                out[i, j] = memory[at : at + c]
    return out.ravel()

"""Copies of copies become boxes of what they begin with."""

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, conv, random_inputs
from hypothesis import given, settings
from hypothesis import strategies as st

from spec import preset
from sw.compiler.kernels.layers import MoveLayer
from sw.compiler.lower.composed_copies import MOST_BOXES
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph


def sliced(g: Graph, x: str, axis: int, start: int, stop: int) -> str:
    begin, size = [0] * len(g.tensors[x].shape), [*g.tensors[x].shape]
    begin[axis], size[axis] = start, stop - start
    rows = [g.add_constant("start", begin, "shape"), g.add_constant("size", size, "shape")]
    return g.add_op("SLICE", [x, *rows])


def rolled(g: Graph, x: str, axis: int, by: int) -> str:
    """The first `by` elements of a dimension behind the others."""
    size = g.tensors[x].shape[axis]
    parts = [sliced(g, x, axis, by, size), sliced(g, x, axis, 0, by)]
    return g.add_op("CONCAT", parts, {"axis": axis})


def windowed(g: Graph, x: str, window: int) -> str:
    """[1, h, w, c] in windows of pixels."""
    _, h, w, c = g.tensors[x].shape
    split = (h // window, window, w // window, window, c)
    y = g.add_op("RESHAPE", [x, g.add_constant("split", split, "shape")])
    y = g.add_op("TRANSPOSE", [y], {"perms": (0, 2, 1, 3, 4)})
    return g.add_op("RESHAPE", [y, g.add_constant("rows", (1, h * w, 1, c), "shape")])


def shifted(size: int, window: int, by: int, channels: int = 32) -> Graph:
    """Windows of an image that is rolled along both dimensions, between two products."""
    g = Graph(name="shifted")
    x = g.add_input("x", (1, size, size, channels))
    y = conv(g, x, channels, 1)
    y = windowed(g, rolled(g, rolled(g, y, 1, by), 2, by), window)
    g.outputs = [conv(g, y, 8, 1, seed=1)]
    g.verify()
    return g


def moves(g: Graph, name: str = "default") -> list[MoveLayer]:
    layers = run_stages(g, preset(name)).layers.layers
    return [layer for layer in layers if isinstance(layer, MoveLayer)]


def test_a_shifted_window_is_nine_boxes() -> None:
    """Whole windows, and those that the end of the image cuts: by rows, by columns, by both."""
    g = shifted(24, 6, 3)
    found = moves(g)
    assert len(found) == 9
    assert {layer.tensor for layer in found} == {"rescale"}
    # Each byte is copied once.
    assert sum(int(np.prod(layer.target[1])) for layer in found) == 24 * 24 * 32
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


def test_there_and_back_is_one_copy_in_two_pieces() -> None:
    g = Graph(name="back")
    x = g.add_input("x", (1, 16, 16, 32))
    y = conv(g, x, 32, 1)
    y = rolled(g, rolled(g, y, 1, 5), 1, 11)
    g.outputs = [conv(g, y, 8, 1, seed=1)]
    assert [layer.target[1][0] for layer in moves(g)] == [5, 11]
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


def test_what_others_read_is_still_made() -> None:
    g = shifted(24, 6, 3)
    (joined, *_) = (op.outputs[0] for op in g.ops if op.kind == "CONCAT")
    g.outputs.append(joined)
    assert {layer.output.tensor for layer in moves(g)} >= {joined}
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


def test_many_boxes_are_left_as_they_are() -> None:
    """Windows of windows of another size have no order that a few boxes are."""
    g = Graph(name="windows")
    y = windowed(g, conv(g, g.add_input("x", (1, 24, 24, 32)), 32, 1), 4)
    y = g.add_op("RESHAPE", [y, g.add_constant("image", (1, 24, 24, 32), "shape")])
    g.outputs = [conv(g, windowed(g, y, 6), 8, 1, seed=1)]
    assert [layer.name for layer in moves(g) if ".b" in layer.name] == []
    assert len(moves(g)) == 2
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


def test_no_more_layers_come_than_go() -> None:
    """Each row is rolled by another number: a box for each of their pieces."""
    g = Graph(name="skewed")
    rows, x = 3 * MOST_BOXES, g.add_input("x", (1, 3 * MOST_BOXES, 64, 32))
    y = conv(g, x, 32, 1)
    parts = [rolled(g, sliced(g, y, 1, i, i + 1), 2, 1 + i) for i in range(rows)]
    y = g.add_op("CONCAT", parts, {"axis": 1})
    g.outputs = [conv(g, rolled(g, y, 1, 2), 8, 1, seed=1)]
    assert len(moves(g)) <= 2 * rows + 2
    assert assert_compiles_exactly(g, preset("default"), random_inputs(g)) > 0


@given(
    name=st.sampled_from(["tiny", "small", "odd", "rect", "default", "large"]),
    windows=st.integers(1, 4),
    window=st.integers(1, 5),
    channels=st.sampled_from([16, 24, 32]),
    data=st.data(),
)
@settings(max_examples=25, deadline=None)
def test_any_shift_is_exact(
    name: str, windows: int, window: int, channels: int, data: st.DataObject
) -> None:
    size = max(2, windows * window)
    window = window if size == windows * window else 1
    g = shifted(size, window, data.draw(st.integers(1, size - 1)), channels)
    assert assert_compiles_exactly(g, preset(name), random_inputs(g, 7)) > 0


@pytest.mark.parametrize("shift", [1, 7, 12])
def test_each_byte_is_copied_once_however_far_an_image_is_shifted(shift: int) -> None:
    written = sum(int(np.prod(layer.target[1])) for layer in moves(shifted(24, 6, shift)))
    assert written == 24 * 24 * 32

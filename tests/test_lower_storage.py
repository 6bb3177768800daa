"""Where tensors lie: strided pieces of roots, views of them, and the roots that storage makes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec.program import REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP
from sw.compiler.errors import CompileError
from sw.compiler.kernels.views import Placed, reshaped, row_major, to_nhwc, view_of
from sw.compiler.lower.copies import CopyAxis, copy_axes, merged
from sw.compiler.lower.storage import Storage
from sw.compiler.tosa.graph import Graph

Shape = tuple[int, ...]


def placed(array: np.ndarray, offset: int = 0) -> Placed:
    """A view of a NumPy array as a piece of root `r`."""
    return Placed(
        root="r", shape=array.shape, strides=array.strides, offset=offset, item=array.itemsize
    )


def elements(piece: Placed, strides: Shape, shape: Shape) -> np.ndarray:
    """Byte addresses of a piece's elements under another shape."""
    index = np.indices(shape).reshape(len(shape), -1)
    return np.array(strides, np.int64) @ index + piece.offset


@pytest.mark.parametrize(
    ("shape", "nhwc"),
    [
        ((), (1, 1, 1, 1)),
        ((5,), (1, 1, 1, 5)),
        ((2, 3, 4, 5), (2, 3, 4, 5)),
        ((2, 3, 4, 5, 6), (6, 4, 5, 6)),
    ],
)
def test_dimensions_join_from_the_left(shape: Shape, nhwc: Shape) -> None:
    assert to_nhwc(shape) == nhwc


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
    st.permutations(range(4)),
    st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=5).map(tuple),
)
def test_a_reshaped_piece_has_the_same_elements_in_order(
    sizes: Shape, order: list[int], shape: Shape
) -> None:
    """`reshaped` agrees with NumPy, which copies where strides do not suffice."""
    perms = [p for p in order if p < len(sizes)]
    array = np.zeros(sizes, np.int16).transpose(perms)
    if np.prod(shape) != array.size:
        shape = (array.size,)
    piece = placed(array)
    strides = reshaped(piece, shape)
    if strides is None:
        with pytest.raises(AttributeError):
            array.view().shape = shape
        return
    expected = elements(piece, array.strides, array.shape)
    assert elements(piece, strides, shape).tolist() == expected.tolist()


def test_a_view_needs_channels_that_are_neighbours() -> None:
    array = np.zeros((4, 6, 8), np.int8)
    part = placed(array[:, 1:3, 2:7], offset=10)
    view = view_of(part, "int8", (1, 4, 2, 5))
    assert view is not None
    assert (view.strides, view.offset) == ((0, 48, 8), 10)
    assert view_of(part.permuted((0, 2, 1)), "int8", (1, 4, 5, 2)) is None
    assert view_of(part, "int8", (1, 1, 1, 40)) is None


def graph() -> Graph:
    g = Graph()
    x = g.add_input("x", (2, 4, 6), "int16")
    rows = [g.add_constant(n, v, "shape") for n, v in (("start", [0, 1, 2]), ("size", [2, 2, 3]))]
    g.add_op("SLICE", [x, *rows], name="part")
    g.add_op("TRANSPOSE", ["part"], {"perms": (2, 0, 1)}, name="turned")
    g.add_op("RESHAPE", [x, g.add_constant("shape", [8, 6], "shape")], name="flat")
    g.add_op("RESHAPE", ["part", g.add_constant("shape", [12], "shape")], name="packed")
    g.outputs = ["flat", "packed"]
    return g


def test_slices_transposes_and_reshapes_are_pieces_of_the_same_root() -> None:
    g = graph()
    storage = Storage(g)
    part, turned, flat, packed = g.ops
    assert storage.alias(part)
    storage.permute(turned)
    assert storage.alias(flat)
    assert not storage.alias(packed)
    assert storage.get("part") == Placed(
        root="x", shape=(2, 2, 3), strides=(48, 12, 2), offset=16, item=2
    )
    assert storage.get("turned").strides == (2, 48, 12)
    assert storage.merged("part") == (16, (1, 2, 2, 3), (0, 48, 12, 2), "x")
    assert storage.merged("flat") == (0, (1, 1, 1, 48), (0, 0, 0, 2), "x")
    assert storage.merged("part", (0, 2, 1))[1:3] == ((1, 2, 3, 2), (0, 48, 2, 12))


def test_roots_have_the_region_of_what_they_hold() -> None:
    g = graph()
    g.add_constant("weight", [1, 2], "int8")
    storage = Storage(g)
    storage.get("weight")
    storage.add("packed")
    temp = storage.add_temp("packed", 7)
    assert temp != storage.add_temp("packed", 9)
    assert storage.memory.nbytes[temp] == 7
    assert {n: storage.memory.region[n] for n in ("x", "weight", "packed", temp)} == {
        "x": REGION_INPUT,
        "weight": REGION_CONST,
        "packed": REGION_TEMP,
        temp: REGION_TEMP,
    }


def test_only_a_whole_temporary_becomes_an_output_without_a_copy() -> None:
    g = graph()
    storage = Storage(g)
    assert storage.alias(g.ops[2])
    assert not storage.claim_output("flat"), "it is a view of the input"
    storage.add("packed")
    assert storage.claim_output("packed")
    assert storage.memory.region["packed"] == REGION_OUTPUT
    root = storage.add_output("flat")
    assert storage.memory.outputs == {"packed": "packed", "flat": root}
    assert storage.memory.region[root] == REGION_OUTPUT


def test_what_is_not_in_memory_yet_cannot_be_read() -> None:
    with pytest.raises(CompileError, match="tensor 'part' has no place in memory: read before"):
        Storage(graph()).get("part")


def test_a_view_that_would_need_a_copy_is_an_error() -> None:
    storage = Storage(graph())
    assert storage.alias(storage.graph.ops[0])
    assert not storage.fits("part", (1, 1, 1, 12))
    with pytest.raises(CompileError, match=r"a piece of shape \[2, 2, 3\] cannot be read as"):
        storage.view("part", (1, 1, 1, 12))


def test_axes_of_a_copy_that_follow_one_another_are_one() -> None:
    dense = copy_axes((2, 1, 3, 4), row_major((2, 1, 3, 4), 2), row_major((2, 1, 3, 4), 2))
    assert merged(dense) == [CopyAxis(24, 2, 2, 24, 0)]
    turned = copy_axes((3, 4), (2, 6), (8, 2))
    assert merged(turned) == turned
    assert merged(copy_axes((1, 1), (4, 2), (4, 2))) == [CopyAxis(1, 0, 0)]


def test_a_dimension_that_is_filled_keeps_its_own_axis() -> None:
    """Rows 1…2 of 4 come from the source: with the columns they are one row of 12 elements."""
    padded = [CopyAxis(4, 3, 3, 2, 1), CopyAxis(3, 1, 1)]
    assert merged(padded) == [CopyAxis(12, 1, 1, 6, 3)]
    inner = [CopyAxis(4, 3, 5), CopyAxis(5, 1, 1, 3, 1)]
    assert merged(inner) == inner

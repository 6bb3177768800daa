"""Passes over TRANSPOSEs: what moves, what cancels, and that nothing changes its values."""

from typing import Any

import numpy as np
import pytest
from compiler_graphs import random_inputs, rescale
from hypothesis import given, settings
from hypothesis import strategies as st

from spec import preset
from sw.compiler.passes import run_passes
from sw.compiler.passes.transposes import sunk
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph


def turn(g: Graph, x: str, *perms: int) -> str:
    return g.add_op("TRANSPOSE", [x], {"perms": perms})


def reshape(g: Graph, x: str, *shape: int) -> str:
    return g.add_op("RESHAPE", [x, g.add_constant("shape", list(shape), "shape")])


def part(g: Graph, x: str, start: list[int], size: list[int]) -> str:
    rows = [g.add_constant(n, v, "shape") for n, v in (("start", start), ("size", size))]
    return g.add_op("SLICE", [x, *rows])


def passed(g: Graph) -> list[str]:
    """The operators after the passes, which must compute the same."""
    made = run_passes(g, preset("default"))
    inputs: dict[str, Any] = random_inputs(g, 5)
    before, after = run_graph(g, inputs), run_graph(made, inputs)
    assert list(before) == list(after)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    return [op.kind for op in made.ops]


def shuffled_halves(g: Graph, x: str) -> list[str]:
    """[1,4,4,12] as a framework that has channels first splits it after a shuffle of 2 groups."""
    out = []
    for start in (0, 6):
        y = turn(g, reshape(g, x, 1, 4, 4, 2, 6), 0, 4, 3, 1, 2)
        out.append(part(g, reshape(g, y, 1, 12, 4, 4), [0, start, 0, 0], [1, 6, 4, 4]))
    return out


def test_layouts_cancel_behind_slices_and_concats() -> None:
    g = Graph(name="shuffle")
    a, b = shuffled_halves(g, g.add_input("x", (1, 4, 4, 12)))
    b = turn(
        g, g.add_op("CLAMP", [turn(g, b, 0, 2, 3, 1)], {"min_val": 0, "max_val": 50}), 0, 3, 1, 2
    )
    y = g.add_op("CONCAT", [a, b], {"axis": 1})
    g.outputs = [turn(g, y, 0, 2, 3, 1)]
    # One order of channels, computed once for both halves.
    first = ["RESHAPE", "TRANSPOSE", "RESHAPE", "SLICE", "SLICE"]
    assert passed(g) == [*first, "CLAMP", "CONCAT", "IDENTITY"]


def test_an_order_that_only_moves_single_elements_is_a_reshape() -> None:
    g = Graph(name="single")
    g.outputs = [turn(g, g.add_input("x", (3, 1, 5, 1)), 1, 0, 3, 2)]
    assert passed(g) == ["RESHAPE"]


def test_narrow_elements_are_transposed() -> None:
    g = Graph(name="narrow")
    x = g.add_input("x", (7, 9), "int16")
    g.outputs = [turn(g, rescale(g, x, 3.0, 0, "int32"), 1, 0)]
    assert passed(g) == ["TRANSPOSE", "RESCALE"]


def test_narrow_elements_have_another_shape() -> None:
    g = Graph(name="narrow")
    x = g.add_input("x", (7, 9), "int16")
    y = g.add_input("y", (1, 63), "int32")
    wide = g.add_op("RESHAPE", [rescale(g, x, 3.0, 0, "int32"), _shape(g, [1, 63])])
    g.outputs = [g.add_op("ADD", [wide, y])]
    assert passed(g) == ["RESHAPE", "RESCALE", "ADD"]


def _shape(g: Graph, sizes: list[int]) -> str:
    return g.add_constant("sizes", sizes, "shape")


@pytest.mark.parametrize("why", ["two readers", "an output", "narrower"])
def test_a_transpose_stays_behind_a_rescale(why: str) -> None:
    g = Graph(name="stays")
    x = g.add_input("x", (7, 9), "int16")
    y = rescale(g, x, 0.5, 0, "int8" if why == "narrower" else "int32")
    g.outputs = [turn(g, y, 1, 0)]
    if why == "two readers":
        g.outputs.append(reshape(g, y, 63))
    if why == "an output":
        g.outputs.append(y)
    assert passed(g)[:2] == ["RESCALE", "TRANSPOSE"]


SHAPES = [(2, 3, 4, 6), (1, 4, 6, 6), (3, 8, 1, 6), (12, 12), (6, 1, 24), (2, 2, 3, 2, 6), (144,)]


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """Operators that TRANSPOSEs go behind, and some that they do not, in any order."""
    g = Graph(name="chain")
    known = [g.add_input("x", (2, 2, 3, 2, 6), "int32")]
    for _ in range(draw(st.integers(2, 12))):
        x = known[draw(st.integers(max(0, len(known) - 3), len(known) - 1))]
        shape = g.tensors[x].shape
        kind = draw(st.sampled_from(["turn", "turn", "reshape", "slice", "concat", "sum", "abs"]))
        if kind == "turn":
            x = turn(g, x, *draw(st.permutations(range(len(shape)))))
        elif kind == "reshape":
            fits = [s for s in SHAPES if np.prod(s) == np.prod(shape)]
            x = reshape(g, x, *draw(st.sampled_from([*fits, shape[::-1]])))
        elif kind == "slice":
            start = [draw(st.integers(0, min(1, n - 1))) for n in shape]
            x = part(g, x, start, [n - a for n, a in zip(shape, start, strict=True)])
        elif kind in ("concat", "sum"):
            like = [n for n in known if g.tensors[n].shape == shape]
            other = draw(st.sampled_from(like))
            axis = {"axis": draw(st.integers(0, len(shape) - 1))} if kind == "concat" else {}
            x = g.add_op("CONCAT" if kind == "concat" else "MAXIMUM", [x, other], axis)
        else:
            x = g.add_op("ABS", [x])
        if g.tensors[x].size > 20000:
            break
        known.append(x)
    outputs = {known[-1], draw(st.sampled_from(known))} - {"x"}
    g.outputs = sorted(outputs) or [turn(g, "x", 4, 3, 2, 1, 0)]
    g.verify()
    return g


@given(g=chains())
@settings(max_examples=80, deadline=None)
def test_chains_of_any_operators_keep_their_values(g: Graph) -> None:
    assert passed(g)
    inputs, made = random_inputs(g, 6), sunk(g)
    made.verify()
    before, after = run_graph(g, inputs), run_graph(made, inputs)
    assert all(np.array_equal(before[name], after[name]) for name in before)

"""Passes over moves: rotations behind a RESCALE, moves that were made twice."""

from typing import Any

import pytest
from compiler_graphs import assert_compiles_exactly, conv, random_inputs, rescale
from test_passes_transposes import part, passed, reshape, turn

from spec import preset
from sw.compiler.kernels.layers import ConvLayer, MoveLayer
from sw.compiler.passes import run_passes
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph

DEFAULT = preset("default")


def rolled(g: Graph, x: str, by: int, axis: int) -> str:
    """x with its last `by` rows, or columns, first."""
    shape = list(g.tensors[x].shape)
    start, rest, tail = [0] * len(shape), list(shape), list(shape)
    start[axis], rest[axis], tail[axis] = shape[axis] - by, shape[axis] - by, by
    parts = [part(g, x, start, tail), part(g, x, [0] * len(shape), rest)]
    return g.add_op("CONCAT", parts, {"axis": axis})


def wide(g: Graph) -> str:
    """A convolution to int16."""
    return rescale(g, conv(g, g.add_input("x", (1, 12, 8, 16)), 20, 1), 90.0, 0, "int16", 5)


@pytest.mark.parametrize("channels", [False, True])
def test_rows_and_columns_turn_round_behind_a_rescale(channels: bool) -> None:
    g = Graph(name="roll")
    y = rolled(g, rolled(g, wide(g), 3, 1), 5, 2)
    scales: Any = [0.01 + i / 1e4 for i in range(20)] if channels else 0.01
    g.outputs = [rescale(g, y, scales)]
    kinds = passed(g)
    assert kinds.index("SLICE") > max(i for i, kind in enumerate(kinds) if kind == "RESCALE")
    done = run_stages(g, DEFAULT)
    first, *moves = done.layers.layers
    assert isinstance(first, ConvLayer) and all(isinstance(x, MoveLayer) for x in moves)
    for config in ("default", "tiny", "odd"):
        assert_compiles_exactly(g, preset(config), random_inputs(g))


@pytest.mark.parametrize("why", ["a scale for each channel", "a part", "another reader", "wider"])
def test_a_rescale_stays_behind_what_it_cannot_pass(why: str) -> None:
    g = Graph(name="stays")
    x = wide(g)
    y = rolled(g, x, 3, 3 if why == "a scale for each channel" else 1)
    if why == "a part":
        y = g.add_op("CONCAT", [y, part(g, x, [0] * 4, [1, 2, 8, 20])], {"axis": 1})
    scales: Any = [0.01 + i / 1e4 for i in range(20)] if why.startswith("a scale") else 0.01
    g.outputs = [rescale(g, y, scales, 0, "int32" if why == "wider" else "int8")]
    if why == "another reader":
        g.outputs.append(rescale(g, y, 0.5, 0, "int16"))
    kinds = passed(g)
    last = max(i for i, kind in enumerate(kinds) if kind in ("SLICE", "CONCAT"))
    assert "RESCALE" in kinds[last:]


def test_a_move_is_made_once() -> None:
    g = Graph(name="twice")
    x = wide(g)
    halves = []
    for start, rows in ((9, 3), (0, 9)):
        y = turn(g, reshape(g, x, 1, 2, 6, 2, 4, 20), 0, 1, 3, 2, 4, 5)
        halves.append(part(g, reshape(g, y, 1, 12, 8, 20), [0, start, 0, 0], [1, rows, 8, 20]))
    g.outputs = [g.add_op("CONCAT", halves, {"axis": 1})]
    assert passed(g).count("TRANSPOSE") == 1
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))


def test_a_transpose_passes_a_rescale_to_a_wider_type_behind_a_reshape() -> None:
    g = Graph(name="wider")
    y = rescale(g, wide(g), 0.5, 0, "int32")
    y = turn(g, reshape(g, y, 1, 2, 6, 2, 4, 20), 0, 1, 3, 2, 4, 5)
    y = reshape(g, y, 1, 12, 8, 20)
    g.outputs = [rescale(g, g.add_op("ADD", [y, g.add_input("z", (1, 12, 8, 20), "int32")]), 0.01)]
    made = run_passes(g, DEFAULT)
    (op,) = (op for op in made.ops if op.kind == "TRANSPOSE")
    assert made.tensors[op.inputs[0]].dtype == "int16"
    assert_compiles_exactly(g, DEFAULT, random_inputs(g))

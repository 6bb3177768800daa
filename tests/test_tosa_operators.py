"""Every integer operator of TOSA 1.0: its meaning against the reference model, its rules."""

from typing import Any

import numpy as np
import pytest
from random_ops import BUILDERS
from random_tosa import CASES, random_graph

from sw.compiler.errors import GraphError
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.compiler.tosa.table import OPERATORS
from sw.runtime.verify import verify

OPERATORS_EACH = 8


@pytest.mark.parametrize("kind", CASES)
def test_random_operators_equal_the_reference_model(kind: str) -> None:
    graph, inputs = random_graph(kind, np.random.default_rng(len(kind)), OPERATORS_EACH)
    graph.verify()
    result = verify(graph, inputs, run_graph(graph, inputs))
    assert result.reference_exact, f"{result.first}\n{graph}"
    assert result.compared >= OPERATORS_EACH


def test_every_operator_is_checked_against_the_reference_model() -> None:
    elsewhere = {name.upper() for name in BUILDERS}
    assert set(OPERATORS) - set(CASES) - elsewhere == set()


def _result(
    kind: str, values: list[list[int]], dtype: str = "int32", **attributes: Any
) -> list[int]:
    g = Graph()
    arrays = {f"i{n}": np.array(v, dtype) for n, v in enumerate(values)}
    names = [g.add_input(name, array.shape, dtype) for name, array in arrays.items()]
    g.outputs = [g.add_op(kind, names, attributes)]
    return [int(v) for v in run_graph(g, arrays)[g.outputs[0]]]


def test_what_the_specification_leaves_open_wraps() -> None:
    low, high = -(2**31), 2**31 - 1
    assert _result("ADD", [[high], [1]]) == [low]
    assert _result("SUB", [[low], [1]]) == [high]
    assert _result("ABS", [[low, -5]]) == [low, 5]
    assert _result("REDUCE_SUM", [[high, 1]], axis=0) == [low]
    assert _result("INTDIV", [[7, -7, low], [0, 0, -1]]) == [-1, 1, low]
    assert _result("LOGICAL_LEFT_SHIFT", [[3, 1], [31, 32]]) == [low, 1]


def test_indices_outside_the_tensor_are_refused() -> None:
    g = Graph()
    names = [g.add_input("v", (1, 3, 2)), g.add_input("at", (1, 2), "int32")]
    g.outputs = [g.add_op("GATHER", names, name="look")]
    values = {"v": np.zeros((1, 3, 2), np.int8), "at": np.array([[0, 3]], np.int32)}
    with pytest.raises(GraphError, match=r"look: indices 0…3 must lie in 0…2"):
        run_graph(g, values)


def _shapes(g: Graph, *values: list[int]) -> list[str]:
    return [g.add_constant("s", np.array(v, np.int64), "shape") for v in values]


Operands = list[tuple[tuple[int, ...], str]]


@pytest.mark.parametrize(
    ("kind", "operands", "shapes", "attributes", "message"),
    [
        ("ADD", [((2, 3), "int32"), ((3,), "int32")], [], {},
         "input1 [2, 3] and input2 [3] do not broadcast"),
        ("ADD", [((2,), "int8"), ((2,), "int8")], [], {}, "input1 is int8, must be int32"),
        ("SELECT", [((2,), "bool"), ((2,), "int8"), ((2,), "int16")], [], {},
         "input3 is int16, must be int8 as input2"),
        ("SELECT", [((2,), "bool"), ((3,), "int8"), ((1,), "int8")], [], {},
         "input1 [2], input2 [3] and input3 [1] do not broadcast"),
        ("LOGICAL_AND", [((2,), "int8"), ((2,), "int8")], [], {}, "input1 is int8, must be bool"),
        ("REDUCE_MAX", [((2, 3), "int8")], [], {"axis": 2}, "axis=2: must be 0…1 for input [2, 3]"),
        ("REDUCE_SUM", [((), "int32")], [], {"axis": 0}, "input [] must have rank 1 to 6"),
        ("REVERSE", [((2, 3), "int8")], [], {"axis": -1}, "axis=-1: must be 0…1 for input1"),
        ("CONCAT", [], [], {"axis": 0}, "CONCAT has 0 operands, needs at least 1: input1"),
        ("CONCAT", [((2, 3), "int8"), ((2, 4), "int8")], [], {"axis": 0},
         "input1[1] [2, 4] differs from [2, 3] beyond axis 0"),
        ("TILE", [((2, 3), "int8")], [[2]], {}, "multiples [2] must have 2 entries"),
        ("TILE", [((2,), "int8")], [[0]], {}, "multiples [0] must be whole numbers >= 1"),
        ("IDENTITY", [((1,) * 7, "int8")], [], {}, "has rank 7, more than 6"),
        ("GATHER", [((2, 3, 4), "int8"), ((1, 3), "int32")], [], {}, "must have 2 rows"),
        ("SCATTER", [((1, 2, 4), "int8"), ((1, 3), "int32"), ((1, 3, 4), "int8")], [], {},
         "indices [1, 3]: at most 2 of them"),
        ("RESIZE", [((1, 3, 3, 1), "int8")], [[4, 3, 4, 3], [0, 0], [0, 0]], {"mode": "NEAREST"},
         "height: (3 - 1)·4 - offset 0 + border 0 must be a multiple >= 0 of 3"),
        ("RESIZE", [((1, 3, 3, 1), "int8")], [[1, 16, 1, 1], [0, 0], [0, 0]], {"mode": "NEAREST"},
         "height: scale 1/16 must be above 1/16"),
        ("RESIZE", [((1, 3, 3, 1), "int8")], [[1, 1, 1, 1], [0, 0], [0, 0]], {"mode": "CUBIC"},
         "mode=CUBIC: must be NEAREST or BILINEAR"),
        ("ARGMAX", [((2,), "int32")], [], {"axis": 0}, "input is int32, must be int8 or int16"),
        ("RESHAPE", [((2, 3), "int8")], [[7]], {},
         "shape [7] has 7 elements, input [2, 3] differs"),
    ],
)  # fmt: skip
def test_illegal_operators_are_refused(
    kind: str, operands: Operands, shapes: list[list[int]], attributes: Any, message: str
) -> None:
    g = Graph()
    names = [g.add_input(f"i{n}", shape, dtype) for n, (shape, dtype) in enumerate(operands)]
    with pytest.raises(GraphError) as caught:
        g.add_op(kind, [*names, *_shapes(g, *shapes)], attributes, name="bad", source="m.py:3")
    assert str(caught.value).startswith("bad: ")
    assert message in str(caught.value)


def _rescale(source: str, target: str, zps: tuple[int, int] = (0, 0), **attributes: Any) -> None:
    g = Graph()
    operands = [
        g.add_input("x", (2, 3), source),
        g.add_constant("m", [1 << 30], "int32"),
        g.add_constant("s", [31], "int8"),
        g.add_constant("a", [zps[0]], source),
        g.add_constant("b", [zps[1]], target),
    ]
    g.add_op("RESCALE", operands, attributes, out_dtype=target)


@pytest.mark.parametrize(
    ("arguments", "attributes", "message"),
    [
        (
            ("int8", "int16"),
            {"input_unsigned": True, "output_unsigned": True},
            "exclude each other",
        ),
        (("int32", "int8"), {"output_unsigned": True}, "output_unsigned does not go with int32"),
        (("int16", "int8", (5, 0)), {}, "input_zp=5: must be 0 for int16"),
        (("int16", "int8", (5, 0)), {"input_unsigned": True}, "must be 0 or 32768 for uint16"),
        (("int8", "int8"), {"per_channel": True}, "multiplier [1] must be [3]"),
        (("int8", "int8"), {"scale32": False}, "multiplier is int32, must be int16"),
        (("int8", "int8"), {"rounding_mode": "DOUBLE_ROUND"}, "only SINGLE_ROUND"),
    ],
)
def test_illegal_rescales_are_refused(arguments: Any, attributes: Any, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        _rescale(*arguments, **attributes)
    assert message in str(caught.value)


@pytest.mark.parametrize(("dtype", "shift"), [("int8", 1), ("int32", 64), ("int32", -1)])
def test_shifts_of_mul_are_checked(dtype: str, shift: int) -> None:
    g = Graph()
    operands = [g.add_input("x", (2,), dtype), g.add_input("y", (2,), dtype)]
    with pytest.raises(GraphError, match=rf"shift={shift}: must be 0…(0|63) for {dtype}"):
        g.add_op("MUL", [*operands, g.add_constant("shift", [shift], "int8")])

"""Narrow results behind which a RESCALE subtracts a zero point."""

import numpy as np
import pytest
from compiler_graphs import random_inputs

from golden_model import Machine
from spec import preset
from sw.compiler import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph

SHAPE = (1, 4, 6, 5)


def selected(graph: Graph) -> str:
    graph.add_input("which", SHAPE, "bool")
    graph.add_input("x", SHAPE, "int8")
    low = graph.add_constant("low", np.full((1, 1, 1, 1), -122), "int8")
    return graph.add_op("SELECT", ["which", "x", low])


def chosen(graph: Graph) -> str:
    for name, dtype in (("which", "bool"), ("x", "int8"), ("y", "int8")):
        graph.add_input(name, SHAPE, dtype)
    return graph.add_op("SELECT", ["which", "x", "y"])


def enlarged(graph: Graph) -> str:
    graph.add_input("x", SHAPE, "int8")
    operands = [("scale", [2, 1, 2, 1]), ("offset", [0, 0]), ("border", [0, 0])]
    shapes = [graph.add_constant(name, np.array(data), "shape") for name, data in operands]
    return graph.add_op("RESIZE", ["x", *shapes], {"mode": "NEAREST"})


def bits(graph: Graph) -> str:
    graph.add_input("x", SHAPE, "int8")
    graph.add_input("y", SHAPE, "int8")
    return graph.add_op("BITWISE_XOR", ["x", "y"])


def largest(graph: Graph) -> str:
    graph.add_input("x", SHAPE, "int8")
    return graph.add_op(
        "MAX_POOL2D", ["x"], {"kernel": [2, 2], "stride": [2, 2], "pad": [0, 0, 0, 0]}
    )


def turned(graph: Graph) -> str:
    graph.add_input("x", SHAPE, "int8")
    return graph.add_op("REVERSE", ["x"], {"axis": 2})


MAKERS = [selected, chosen, enlarged, bits, largest, turned]


@pytest.mark.parametrize("config", ["tiny", "default"])
@pytest.mark.parametrize(("zero", "unsigned"), [(0, False), (-122, False), (0, True), (-6, True)])
@pytest.mark.parametrize("make", MAKERS, ids=[m.__name__ for m in MAKERS])
def test_a_zero_point_behind_narrow_results(make, zero: int, unsigned: bool, config: str) -> None:
    graph = Graph(name="narrow")
    made = make(graph)
    multiplier = graph.add_constant("multiplier", np.array([1103854607]), "int32")
    shift = graph.add_constant("shift", np.array([30]), "int8")
    zeros = [
        graph.add_constant(f"zero_{i}", np.array([value]), "int8")
        for i, value in enumerate((zero, -120))
    ]
    attributes = {
        "scale32": True,
        "rounding_mode": "SINGLE_ROUND",
        "per_channel": False,
        "input_unsigned": unsigned,
        "output_unsigned": False,
    }
    graph.outputs = [
        graph.add_op("RESCALE", [made, multiplier, shift, *zeros], attributes, out_dtype="int8")
    ]
    inputs = random_inputs(graph, 3)
    npu = preset(config)
    got = Machine(npu).run(compile_graph(graph, npu, name="narrow"), inputs)
    for name, want in run_graph(graph, inputs).items():
        assert np.array_equal(got[name], want)

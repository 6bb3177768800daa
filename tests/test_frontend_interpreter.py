"""The graph interpreter against the TOSA reference model, over random operators."""

import numpy as np
import pytest
from random_ops import BUILDERS, random_inputs

from sw.compiler.errors import GraphError
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.verify import verify

GRAPHS_EACH = 16


@pytest.mark.parametrize("kind", BUILDERS)
def test_random_operators_equal_the_reference_model(kind: str) -> None:
    compared = 0
    for seed in range(GRAPHS_EACH):
        rng = np.random.default_rng([seed, len(kind)])
        graph = BUILDERS[kind](rng)
        inputs = random_inputs(graph, rng)
        result = verify(graph, inputs, run_graph(graph, inputs))
        assert result.reference_exact, f"{kind} seed {seed}: {result.first}\n{graph}"
        compared += result.compared
    assert compared > GRAPHS_EACH


def test_convolution_sums_wrap_to_int32() -> None:
    graph = Graph(name="wrap")
    zero = graph.add_constant("zero", [0], "int8")
    weight = graph.add_constant("w", np.full((1, 1, 1, 1), 127), "int8")
    bias = graph.add_constant("b", [2**31 - 1], "int32")
    x = graph.add_input("x", (1, 1, 1, 1))
    graph.outputs = [graph.add_op("CONV2D", [x, weight, bias, zero, zero])]
    out = run_graph(graph, {"x": np.full((1, 1, 1, 1), 1, np.int8)})[graph.outputs[0]]
    assert out.item() == 2**31 - 1 + 127 - 2**32


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "no value for graph input 'x'\n  hint: it is %x: int8[2,3]"),
        (
            {"x": np.zeros((3, 2), np.int8)},
            "graph input 'x' is int8[2, 3], got int8[3, 2]",
        ),
        (
            {"x": np.zeros((2, 3), np.int16)},
            "graph input 'x' is int8[2, 3], got int16[2, 3]",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, np.ndarray], message: str) -> None:
    graph = Graph(name="identity")
    graph.outputs = [graph.add_op("IDENTITY", [graph.add_input("x", (2, 3))])]
    with pytest.raises(GraphError) as caught:
        run_graph(graph, inputs)
    assert str(caught.value) == message


def test_a_rescaled_tensor_of_rank_0_keeps_its_rank() -> None:
    graph = Graph(name="scalar")
    operands = [
        graph.add_input("x", (), "int8"),
        graph.add_constant("m", [1 << 30], "int32"),
        graph.add_constant("s", [31], "int8"),
        graph.add_constant("a", [0], "int8"),
        graph.add_constant("b", [1], "int8"),
    ]
    graph.outputs = [graph.add_op("RESCALE", operands, out_dtype="int8", name="half")]
    assert run_graph(graph, {"x": np.array(40, np.int8)})["half"].shape == ()


def test_keep_returns_every_tensor() -> None:
    graph = Graph(name="two")
    y = graph.add_op("IDENTITY", [graph.add_input("x", (2,))], name="first")
    graph.outputs = [graph.add_op("CLAMP", [y], {"min_val": -1, "max_val": 1}, name="second")]
    values = run_graph(graph, {"x": np.array([5, -7], np.int8)}, keep=True)
    assert values["first"].tolist() == [5, -7]
    assert values["second"].tolist() == [1, -1]

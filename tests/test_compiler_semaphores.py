"""Semaphores that would count beyond their maximum."""

import numpy as np

from golden_model import Machine
from spec.config import preset
from sw.compiler import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph


def test_results_that_nobody_waits_for_are_taken_in_time() -> None:
    """Many small products: the accumulator has room for more of them than a semaphore counts."""
    config = preset("small")
    graph = Graph(name="many")
    a, b = graph.add_input("a", (1100, 1, 1)), graph.add_input("b", (1100, 1, 1))
    zero = graph.add_constant("zero", [0], "int8")
    graph.outputs = [graph.add_op("MATMUL", [a, b, zero, zero])]
    rng = np.random.default_rng(1)
    inputs = {n: rng.integers(-128, 128, (1100, 1, 1)).astype(np.int8) for n in "ab"}
    image = compile_graph(graph, config)
    got = Machine(config).run(image, inputs)
    np.testing.assert_array_equal(got[graph.outputs[0]], run_graph(graph, inputs)[graph.outputs[0]])

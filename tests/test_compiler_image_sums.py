"""Products of several images whose results are reduced over the images."""

import numpy as np
import pytest
from compiler_graphs import random_inputs, zero_point

from golden_model import Machine
from spec import preset
from sw.compiler import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph


@pytest.mark.parametrize("kind", ["REDUCE_SUM", "REDUCE_MAX"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("config", "images", "rows", "depth", "columns"),
    [
        ("tiny", 3, 7, 9, 11),
        ("tiny", 1, 7, 9, 11),
        ("small", 2, 8, 16, 8),
        ("default", 5, 16, 33, 40),
    ],
)
def test_a_reduction_over_any_dimension_of_a_product(
    config: str, images: int, rows: int, depth: int, columns: int, axis: int, kind: str
) -> None:
    graph = Graph(name="sums")
    a = graph.add_input("a", (images, rows, depth), "int8")
    b = graph.add_input("b", (images, depth, columns), "int8")
    product = graph.add_op("MATMUL", [a, b, zero_point(graph, 3), zero_point(graph, -2)])
    graph.outputs = [graph.add_op(kind, [product], {"axis": axis})]
    npu, inputs = preset(config), random_inputs(graph, 1)
    got = Machine(npu).run(compile_graph(graph, npu, name="sums"), inputs)
    for name, want in run_graph(graph, inputs).items():
        assert np.array_equal(got[name], want)

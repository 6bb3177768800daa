"""Random graphs of many operators: the program computes what the graph says.

`SYSTOLA_RANDOM=100` compiles 100 times as many; `SYSTOLA_RANDOM_FIRST=7000` begins at that seed.
"""

import os

import numpy as np
import pytest
from random_graphs import random_graph, random_values

from golden_model import Machine
from spec import preset
from sw.compiler import compile_graph
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph

FIRST = int(os.environ.get("SYSTOLA_RANDOM_FIRST", "0"))
GRAPHS = 12 * int(os.environ.get("SYSTOLA_RANDOM", "1"))
OPERATORS = 25


@pytest.mark.parametrize("config", ["tiny", "small", "default", "odd", "rect"])
def test_operators_that_read_each_others_results(config: str) -> None:
    npu, checked = preset(config), 0
    for seed in range(FIRST, FIRST + GRAPHS):
        graph = random_graph(seed, OPERATORS)
        inputs = random_values(graph, seed)
        wanted = run_graph(graph, inputs)
        got = Machine(npu).run(compile_graph(graph, npu, name="random"), inputs)
        for name in graph.outputs:
            assert np.array_equal(got[name], wanted[name]), f"seed {seed}: {name}"
        checked += len(graph.ops)
    assert checked > 20 * GRAPHS


@pytest.mark.parametrize("first", [False, True])
def test_a_shift_whose_results_are_summed(first: bool) -> None:
    """Found at random: the readers of the sum shifted the sum of what was not shifted."""
    graph = Graph(name="found")
    x = graph.add_input("x", (120,), "int8")
    wide = graph.add_op("CAST", [x], out_dtype="int32")
    by = graph.add_constant("by", np.array([3]), "int32")
    moved = graph.add_op("SUB", [wide, graph.add_constant("k", np.arange(120) - 50, "int32")])
    shifted = graph.add_op("LOGICAL_LEFT_SHIFT", [moved, by])
    sums = [graph.add_op("REDUCE_SUM", [value], {"axis": 0}) for value in (shifted, wide)]
    graph.outputs = [graph.add_op("ADD", sums if first else sums[::-1])]
    inputs, npu = random_values(graph, 1), preset("default")
    got = Machine(npu).run(compile_graph(graph, npu, name="found"), inputs)
    for name, want in run_graph(graph, inputs).items():
        assert np.array_equal(got[name], want)

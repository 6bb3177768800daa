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

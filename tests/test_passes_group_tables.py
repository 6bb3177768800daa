"""TABLEs of one content are looked up together, and the result is what it was."""

import itertools

import numpy as np
import pytest
from compiler_graphs import assert_compiles_exactly, random_inputs
from recurrent_graphs import gates

from spec import preset
from sw.compiler.passes.group_tables import REACH, group_tables
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph


def changes(g: Graph) -> int:
    """How often the content of TABLE is another one than before."""
    tables = [g.constant(op.inputs[1]).tobytes() for op in g.ops if op.kind == "TABLE"]
    return sum(a != b for a, b in itertools.pairwise(tables))


def test_tables_of_one_content_come_together() -> None:
    g = gates(6, 16)
    assert changes(g) == 5
    want = run_graph(g, random_inputs(g))
    group_tables(g)
    g.verify()
    assert changes(g) == 1
    for name, data in run_graph(g, random_inputs(g)).items():
        np.testing.assert_array_equal(data, want[name])


def test_a_table_does_not_pass_what_makes_its_operand() -> None:
    """A chain of TABLEs: each reads the one before."""
    g = Graph()
    rng = np.random.default_rng(0)
    contents = [rng.integers(-128, 128, 256) for _ in range(2)]
    x = g.add_input("x", (1, 8))
    for i in range(4):
        x = g.add_op("TABLE", [x, g.add_constant("table", contents[i % 2], "int8")])
    g.outputs = [x]
    order = [op.name for op in g.ops]
    group_tables(g)
    assert [op.name for op in g.ops] == order


def test_a_table_is_not_moved_far() -> None:
    g = gates(2, 16)
    x, table = g.inputs[0], g.ops[1].inputs[1]
    for _ in range(REACH):
        x = g.add_op("IDENTITY", [x])
    g.outputs += [x, g.add_op("TABLE", [g.inputs[0], table])]
    group_tables(g)
    assert g.ops[-1].kind == "TABLE"


@pytest.mark.parametrize("config", ["tiny", "default", "odd"])
def test_gates_are_exact(config: str) -> None:
    g = gates(4, 40)
    assert_compiles_exactly(g, preset(config), random_inputs(g))

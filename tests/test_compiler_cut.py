"""Networks cut into stages: where, how evenly, and that nothing changes."""

import itertools

import numpy as np
import pytest

from spec.config import preset
from sw.compiler import compile_graph
from sw.compiler.cut.balance import _even, cut_network
from sw.compiler.cut.places import cut_places, part
from sw.compiler.errors import CompileError
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.runtime.session import golden_outputs, random_arrays
from sw.runtime.simulator.training import network

TINY = preset("tiny")


def residual() -> Graph:
    """A step, a block of two branches, a maximum with a computed constant, a step."""
    graph = Graph(name="residual")
    x = graph.add_input("x", (1, 4, 4, 8), "int32")
    a = graph.add_op("ABS", [x], output="a")
    b = graph.add_op("BITWISE_NOT", [a], output="b")
    c = graph.add_op("MAXIMUM", [a, b], output="c")
    low = graph.add_constant("low", np.full((1, 4, 4, 8), -7), "int32")
    small = graph.add_op("ABS", [low], output="small")
    d = graph.add_op("MAXIMUM", [c, small], output="d")
    e = graph.add_op("BITWISE_NOT", [d], output="e")
    graph.outputs = [e]
    graph.verify()
    return graph


def test_a_place_is_where_one_tensor_passes():
    # Between a and c two tensors pass; `small` depends on constants alone and counts for nothing.
    assert cut_places(residual()) == ["a", "c", "d"]


def test_inputs_and_outputs_that_pass_a_place_rule_it_out():
    graph = residual()
    graph.outputs.append("a")
    assert cut_places(graph) == []
    graph = residual()
    f = graph.add_op("MAXIMUM", ["e", "x"], output="f")
    graph.outputs = [f]
    assert cut_places(graph) == []


def test_sums_are_passed_only_where_nothing_is_narrower():
    graph = network()
    assert {graph.tensors[name].dtype for name in cut_places(graph)} == {"int8"}
    wide = Graph(name="wide")
    x = wide.add_input("x", (1, 4, 4, 8), "int32")
    for _ in range(3):
        x = wide.add_op("ABS", [x])
    wide.outputs = [x]
    assert len(cut_places(wide)) == 2


def test_parts_together_compute_what_the_whole_does():
    graph = residual()
    inputs = random_arrays([graph.tensors[name] for name in graph.inputs], 3)
    first = part(graph, graph.inputs, ["c"], "first")
    second = part(graph, ["c"], graph.outputs, "second")
    assert [op.outputs[0] for op in first.ops] == ["a", "b", "c"]
    assert [op.outputs[0] for op in second.ops] == ["small", "d", "e"]
    between = run_graph(first, inputs)
    np.testing.assert_array_equal(run_graph(second, between)["e"], run_graph(graph, inputs)["e"])


@pytest.mark.parametrize(
    ("costs", "stages", "bounds"),
    [
        ([1, 1, 1, 1], 2, [0, 2, 4]),
        ([9, 1, 1, 1], 2, [0, 1, 4]),
        ([1, 2, 3, 4, 5], 3, [0, 3, 4, 5]),
        ([5], 1, [0, 1]),
    ],
)
def test_the_longest_sum_is_the_smallest_there_is(costs, stages, bounds):
    found = _even(costs, stages)
    longest = max(sum(costs[a:b]) for a, b in itertools.pairwise(found))
    assert longest == max(sum(costs[a:b]) for a, b in itertools.pairwise(bounds))
    assert found[0] == 0 and found[-1] == len(costs) and sorted(set(found)) == found


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_stages_behind_one_another_are_bit_exact(stages):
    graph = network()
    inputs = random_arrays([graph.tensors[name] for name in graph.inputs], stages)
    cut = cut_network(graph, TINY, stages)
    assert len(cut) == stages
    values = inputs
    for stage in cut:
        values = golden_outputs(stage.image, values)
    whole = golden_outputs(compile_graph(graph, TINY), inputs)
    assert values.keys() == whole.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(values[name], array)


def test_no_stage_is_longer_than_the_best_single_moves_allow():
    graph = network()
    two, whole = cut_network(graph, TINY, 2), cut_network(graph, TINY, 1)
    assert max(stage.cycles for stage in two) < whole[0].cycles


def test_more_stages_than_places_are_refused():
    with pytest.raises(CompileError) as error:
        cut_network(residual(), TINY, 5, name="small")
    assert "small cannot be cut into 5 stages: a single tensor passes it in 3 places, 4" in str(
        error.value
    )
    assert "use 4 NPUs or fewer, or partition batch" in str(error.value)
    with pytest.raises(CompileError, match="0 stages: must be 1 or more"):
        cut_network(residual(), TINY, 0)

"""The cost model of a whole program: layers that overlap, slices, and what a layer is charged."""

import math
from dataclasses import replace

import pytest
from compiler_graphs import inverted_residuals

from spec import preset
from spec.isa import Alu, DType, Engine, Point, Reduce, Scale, Space, Table
from sw.compiler.machine.costs import MEMORY_LATENCY, PROGRAM_START
from sw.compiler.pipeline import run_stages
from sw.compiler.program.cycles import busy_cycles, vector_cycles
from sw.compiler.program.dependences import END, Dependences, Need
from sw.compiler.program.records import DmaLoop, Load, Vector, VectorLoop
from sw.compiler.program.timeline import layer_cycles
from sw.compiler.program.virtual import VirtualInstruction

DEFAULT = preset("default")
START = PROGRAM_START + 2 * MEMORY_LATENCY


def load(layer: int, words: int) -> VirtualInstruction:
    """A LOAD of so many bus words, one a step."""
    record = Load(loop=[DmaLoop(count=words)], run=DEFAULT.bus_bytes)
    return VirtualInstruction(record=record, bases={}, accesses=[], layer=layer)


def vector(layer: int, steps: int) -> VirtualInstruction:
    """A VECTOR of so many steps."""
    record = Vector(loop=[VectorLoop(count=steps)], lanes=DEFAULT.cols)
    return VirtualInstruction(record=record, bases={}, accesses=[], layer=layer)


@pytest.mark.parametrize(
    ("fields", "cycles"),
    [
        ({"a_type": DType.I8}, 100),
        ({"a_type": DType.I32}, 400),
        ({"a_space": Space.ACC, "a_type": DType.I32, "o_type": DType.I16}, 200),
        ({"a_type": DType.I16, "alu": Alu.ADD, "b_type": DType.I32}, 400),
        ({"a_type": DType.I16, "alu": Alu.ADD, "b_type": DType.I32, "b_one": 1}, 200),
        ({"a_type": DType.I16, "b_type": DType.I32}, 200),
        ({"a_scale": Scale.OPERAND, "b_type": DType.I32}, 400),
        ({"o_type": DType.I32, "reduce": Reduce.SUM, "reduce_loops": 1}, 100),
    ],
)
def test_a_vector_takes_a_cycle_for_each_word_of_its_widest_operand(
    fields: dict[str, int], cycles: int
) -> None:
    record = Vector(loop=[VectorLoop(count=100)], lanes=DEFAULT.cols, **fields)
    assert vector_cycles(record, DEFAULT) == cycles


@pytest.mark.parametrize(
    ("lanes", "fields", "cycles"),
    [
        (4, {"a_type": DType.I8}, 400),
        (4, {"a_type": DType.I8, "lanes": 5}, 200),
        (4, {"a_type": DType.I8, "o_scale": Scale.TENSOR, "alu": Alu.ADD}, 1200),
        (4, {"a_type": DType.I32}, 700),
        (4, {"table": Table.I8}, 800),
        (1, {"table": Table.I8}, 1600),
        (4, {"reduce": Reduce.SUM, "reduce_loops": 1, "reduce_lanes": 1, "lanes": 2}, 400),
    ],
)
def test_a_vector_takes_a_cycle_for_each_part_that_passes_the_lanes(
    lanes: int, fields: dict[str, int], cycles: int
) -> None:
    config = replace(DEFAULT, vector_lanes=lanes)
    record = Vector(loop=[VectorLoop(count=100)], **{"lanes": config.cols, **fields})
    assert vector_cycles(record, config) == cycles


def need(level: int, iteration: int, of: VirtualInstruction, until: float) -> Need:
    """Iteration of a node needs another one up to an iteration of its loop (END: all of it)."""
    return Need(level, iteration, of, 0, 0 if until == END else 1, until)


CHANNEL = (Engine.LOAD, Point.DONE, "VECTOR")


def charged(*nodes: tuple[VirtualInstruction, list[Need]]) -> list[int]:
    """Cycles of two layers whose program is `nodes`."""
    order = Dependences(needs=[(node, {CHANNEL: found} if found else {}) for node, found in nodes])
    return layer_cycles(order, 2, DEFAULT)


def test_work_on_another_engine_is_free_where_an_older_layer_lasts_longer():
    alone, after = charged((vector(0, 1000), []), (load(1, 100), []))
    assert alone == pytest.approx(START + 1000, abs=30) and after == 0


def test_a_layer_waits_for_all_that_it_needs_at_its_start():
    first = load(0, 1000)
    loads, steps = charged((first, []), (vector(1, 1000), [need(0, 0, first, END)]))
    assert loads == pytest.approx(START + 1000 + 100, abs=60)
    assert steps == pytest.approx(1000, abs=30)


def test_a_layer_that_follows_slice_by_slice_ends_a_slice_after_what_it_follows():
    first = load(0, 1000)
    slices = [need(1, i, first, i) for i in range(1000)]
    _, steps = charged((first, []), (vector(1, 1000), slices))
    assert steps < 60


def test_a_network_of_depthwise_layers_is_predicted_below_the_sum_of_its_layers():
    compiled = run_stages(inverted_residuals(28, 32, 192, 3), DEFAULT)
    assert len(compiled.predicted) == len(compiled.layers.layers)
    assert sum(compiled.predicted) < sum(plan.cycles for plan in compiled.plans)
    facts = compiled.image.info["layers"]
    assert [x["predicted_cycles"] for x in facts] == compiled.predicted


@pytest.mark.parametrize(
    ("outstanding", "run", "loops", "cycles"),
    [
        (128, 16, [(100, 64)], 100),
        (16, 16, [(100, 64)], 100 * 100 / 16),
        (16, 16, [(100, 16)], 100),
        (16, 4, [(400, 8)], 400),
        (8, 16, [(160, 32)], 160 * 100 / 8),
    ],
)
def test_each_burst_is_in_flight_for_the_latency(
    outstanding: int, run: int, loops: list[tuple[int, int]], cycles: float
) -> None:
    config = replace(DEFAULT, outstanding=outstanding)
    record = Load(run=run, loop=[DmaLoop(count=count, mem=step) for count, step in loops])
    instruction = VirtualInstruction(record=record, bases={}, accesses=[], layer=0)
    assert busy_cycles(instruction, config) == pytest.approx(cycles)
    filled = replace(instruction, record=record._replace(fill=1))
    assert busy_cycles(filled, config) == math.prod(count for count, _ in loops)

"""The cost model of a whole program: layers that overlap, slices, and what a layer is charged."""

import math
from dataclasses import replace

import pytest
from compiler_graphs import inverted_residuals

from spec import NpuConfig, preset
from spec.isa import (
    FORMATS,
    Alu,
    DType,
    Engine,
    Opcode,
    Point,
    Reduce,
    Scale,
    Space,
    Table,
)
from sw.compiler.machine.costs import FETCH_ANSWER, MEMORY_LATENCY
from sw.compiler.pipeline import run_stages
from sw.compiler.program.cycles import busy_cycles, depthwise_cycles, vector_cycles
from sw.compiler.program.dependences import END, Dependences, Need
from sw.compiler.program.jobs import jobs
from sw.compiler.program.records import (
    ArrayLoop,
    Depthwise,
    DmaLoop,
    Load,
    Matrix,
    Vector,
    VectorLoop,
)
from sw.compiler.program.timeline import IDEAL_MEMORY, Timeline, layer_cycles
from sw.compiler.program.virtual import VirtualInstruction

DEFAULT = preset("default")
START = MEMORY_LATENCY + 20
"""Of the first instruction, but for some cycles: fetch, and the granules of that and of BEGIN."""


def load(layer: int, words: int) -> VirtualInstruction:
    """A LOAD of so many bus words, one a step."""
    record = Load(loop=[DmaLoop(count=words, mem=DEFAULT.bus_bytes)], run=DEFAULT.bus_bytes)
    return VirtualInstruction(record=record, bases={}, accesses=[], layer=layer)


def vector(layer: int, steps: int) -> VirtualInstruction:
    """A VECTOR of so many steps."""
    record = Vector(loop=[VectorLoop(count=steps)], lanes=DEFAULT.cols)
    return VirtualInstruction(record=record, bases={}, accesses=[], layer=layer)


@pytest.mark.parametrize(
    ("fields", "cycles"),
    [
        ({"a_type": DType.I8}, 100),
        ({"a_type": DType.I32}, 200),
        ({"a_space": Space.ACC, "a_type": DType.I32, "o_type": DType.I16}, 200),
        ({"a_type": DType.I16, "alu": Alu.ADD, "b_type": DType.I32}, 400),
        ({"a_type": DType.I16, "alu": Alu.ADD, "b_type": DType.I32, "b_one": 1}, 101),
        ({"a_type": DType.I16, "b_type": DType.I32}, 100),
        ({"a_space": Space.ACC, "alu": Alu.ADD, "b_type": DType.I16}, 100),
        ({"a_space": Space.ACC, "alu": Alu.MIN, "b_type": DType.I16}, 200),
        ({"a_scale": Scale.OPERAND, "b_type": DType.I32}, 400),
        ({"o_type": DType.I32, "reduce": Reduce.SUM, "reduce_loops": 1}, 100),
    ],
)
def test_a_vector_takes_the_cycles_in_which_its_words_come_and_go(
    fields: dict[str, int], cycles: int
) -> None:
    record = Vector(loop=[VectorLoop(count=100)], lanes=DEFAULT.cols, **fields)
    assert vector_cycles(record, DEFAULT) == cycles


def test_an_element_of_b_is_read_once_for_the_vectors_of_a_row() -> None:
    """Ten rows of ten vectors: the other port reads A but where the row's element comes."""
    loop = [VectorLoop(count=10, a=320, b=4), VectorLoop(count=10, a=32)]
    fields = {"alu": Alu.SUB, "a_type": DType.I16, "b_type": DType.I32, "b_one": 1}
    found = vector_cycles(Vector(loop=loop, lanes=DEFAULT.cols, **fields), DEFAULT)
    assert found == pytest.approx(110)
    turned = Vector(loop=loop[::-1], lanes=DEFAULT.cols, **fields)
    assert vector_cycles(turned, DEFAULT) == 200


@pytest.mark.parametrize(
    ("lanes", "fields", "cycles"),
    [
        (4, {"a_type": DType.I8}, 400),
        (4, {"a_type": DType.I8, "lanes": 5}, 200),
        (4, {"a_type": DType.I8, "o_scale": Scale.TENSOR, "alu": Alu.ADD}, 800),
        (4, {"a_type": DType.I32}, 500),
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


def timeline(
    *nodes: tuple[VirtualInstruction, list[Need]], config: NpuConfig = DEFAULT
) -> Timeline:
    order = Dependences(needs=[(node, {CHANNEL: found} if found else {}) for node, found in nodes])
    return Timeline(jobs(order, config), config, IDEAL_MEMORY)


def test_short_instructions_come_as_fast_as_fetch_reads_them() -> None:
    """Fetch has four bursts ahead: 64 granules in the latency, and the time to use up a burst."""
    shown = timeline(*((vector(0, 1), []) for _ in range(200)))
    each = (shown.start[199] - shown.start[100]) / 99
    granules = FORMATS[Opcode.VECTOR].granules
    assert each == pytest.approx(granules * (MEMORY_LATENCY + FETCH_ANSWER + 16) / 64, rel=0.05)
    wide = replace(DEFAULT, max_burst=32)
    shown = timeline(*((vector(0, 1), []) for _ in range(200)), config=wide)
    each = (shown.start[199] - shown.start[100]) / 99
    assert each == pytest.approx(granules + 1, rel=0.1)


def test_a_full_queue_holds_back_the_instructions_behind_it() -> None:
    slow = [(vector(0, 1000), []) for _ in range(12)]
    shown = timeline(*slow, (load(0, 1), []))
    # Eight wait in the queue, one is under way: the LOAD is fetched when three are done.
    assert shown.start[12] == pytest.approx(START + 3000, abs=60)


def matrix(acc: int, *, products: int = 4, vectors: int = 32, act: int = 16) -> VirtualInstruction:
    """A MATRIX of a column block: `products` folds of so many vectors into the same sums."""
    loops = [
        ArrayLoop(count=products, act=1024, wgt=256),
        ArrayLoop(count=vectors, act=act, acc=1),
    ]
    record = Matrix(acc_base=acc, wgt_row=16, loop=loops, fold_loops=1, k_loops=1)
    record = record._replace(rows=16, cols=16, rows_last=16, cols_last=16)
    return VirtualInstruction(record=record, bases={}, accesses=[], layer=0)


def drain(acc: int) -> VirtualInstruction:
    """A VECTOR that reads 32 vectors of the accumulator."""
    loops = [VectorLoop(count=32, a=1, o=16)]
    record = Vector(a_space=Space.ACC, a_base=acc, a_type=DType.I32, lanes=16, loop=loops)
    return VirtualInstruction(record=record, bases={}, accesses=[], layer=0)


def test_the_vector_engine_reads_sums_when_the_array_does_not_add_to_that_bank() -> None:
    """Of four products of a sum the first one overwrites: three of four cycles are taken."""
    first, bank = matrix(0), DEFAULT.acc_bank
    done = {(Engine.MATRIX, Point.DONE, "VECTOR"): [need(0, 0, first, END)]}
    alone = 1 / (1 - ((1 + 16 / 64) / DEFAULT.banks) ** 2)  # its results still wait for banks
    for base, slower in ((32, 4), (bank, alone)):
        order = Dependences(needs=[(first, {}), (matrix(base, vectors=64), {}), (drain(0), done)])
        shown = Timeline(jobs(order, DEFAULT), DEFAULT, IDEAL_MEMORY)
        assert shown.busy[2] == pytest.approx(32 * slower, abs=2)


def test_results_find_activations_and_weights_in_their_bank() -> None:
    """A VECTOR with a result in every cycle loses those in which the array has its bank twice."""
    first, bank = matrix(0), DEFAULT.acc_bank
    done = {(Engine.MATRIX, Point.DONE, "VECTOR"): [need(0, 0, first, END)]}
    beside = matrix(bank, vectors=64)
    order = Dependences(needs=[(first, {}), (beside, {}), (drain(0), done)])
    shown = Timeline(jobs(order, DEFAULT), DEFAULT, IDEAL_MEMORY)
    # An activation vector a cycle, and 16 weight vectors in 64.
    taken = (1 + 16 / 64) / DEFAULT.banks
    assert shown.busy[2] == pytest.approx(32 / (1 - taken**2), abs=0.1)


def test_weights_find_activations_in_their_bank() -> None:
    """A fold of 8 vectors takes 8 cycles for its weights, and one for each that waits."""
    conflicts = 1 + DEFAULT.weight_rows / DEFAULT.banks
    assert timeline((matrix(0, vectors=8), [])).busy[0] == pytest.approx(4 * 8 * conflicts)
    assert timeline((matrix(0, vectors=32), [])).busy[0] == 4 * 32
    odd = timeline((matrix(0, vectors=8, act=17), [])).busy[0]
    assert odd > 4 * 8 * (1 + 1.8 * DEFAULT.weight_rows / DEFAULT.banks), "two words, two banks"
    few = replace(DEFAULT, banks=4)
    assert timeline((matrix(0, vectors=8), []), config=few).busy[0] == 4 * 8 * 1.5


def test_what_no_slot_can_tell_apart_is_waited_for_at_the_start() -> None:
    producer, consumer = vector(0, 400), load(0, 100)
    slices = [need(1, i, producer, 4 * i + 3) for i in range(100)]
    order = Dependences(needs=[(producer, {}), (consumer, {CHANNEL: slices})])
    sliced = Timeline(jobs(order, DEFAULT), DEFAULT, IDEAL_MEMORY)
    order.at_once.add((consumer, CHANNEL))
    whole = Timeline(jobs(order, DEFAULT), DEFAULT, IDEAL_MEMORY)
    assert whole.start[1] > sliced.start[1] + 350


@pytest.mark.parametrize(("y0", "cycles"), [(0, 8 * 3 + 2), (-1, 8 * 2 + 2), (-3, 10)])
def test_depthwise_takes_a_cycle_for_each_row_and_column_in_the_input(y0: int, cycles: int) -> None:
    """A row of outputs over eight columns, with one of padding on each side."""
    record = Depthwise(
        y0=y0, x0=-1, row_step=1, col_step=1, height=5, width=8, kernel_rows=3, kernel_cols=3
    )
    record = record._replace(outputs=8, stride=1, loop=[ArrayLoop(count=1)], fold_loops=0)
    # Weights come beside the columns outside the input, and before the first row.
    outside = 10 if y0 == -3 else 2
    assert depthwise_cycles(record, preset("tiny")) == cycles + max(0, 9 - outside)


@pytest.mark.parametrize(("config", "cycles"), [("tiny", 8 * 3 + 1), ("default", 5 * 3)])
def test_pairs_of_columns_take_a_cycle_for_each_row(config: str, cycles: int) -> None:
    """Four outputs of stride 2 over eight columns, with one of padding before them."""
    record = Depthwise(
        y0=0, x0=-1, row_step=1, col_step=1, height=5, width=8, kernel_rows=3, kernel_cols=3
    )
    record = record._replace(outputs=4, stride=2, loop=[ArrayLoop(count=1)], fold_loops=0)
    weights = 9 - (config == "tiny")
    assert depthwise_cycles(record, preset(config)) == cycles + weights


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

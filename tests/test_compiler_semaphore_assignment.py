"""Semaphore assignment on programs of a few instructions: who waits for whom, and how often."""

import pytest
from virtual_programs import instruction, load, matrix, reads, spad, store, vector, writes

from spec import preset
from spec.isa import SYNC_SLOTS, Engine, Point
from sw.compiler.errors import LegalityError
from sw.compiler.program.dependences import analyse, predecessors
from sw.compiler.program.records import ArrayLoop, DmaLoop, Load, Matrix, Vector, VectorLoop
from sw.compiler.program.semaphores import MAX_AMOUNT, assign_semaphores
from sw.compiler.program.virtual import VirtualInstruction, iterations

CONFIG = preset("default")


def taken(program, node: VirtualInstruction) -> int:
    """How much an instruction takes in all."""
    return sum(w.amount * iterations(node.record.loop, w.level) for w in program.waits[node])


def test_a_reader_waits_for_the_writer_on_another_engine() -> None:
    a = spad("a", 64)
    writer, reader = load(a), vector([reads(a)], CONFIG)
    program = assign_semaphores([writer, reader], CONFIG)
    (channel,) = program.semaphores
    assert channel == (Engine.LOAD, Point.DONE, "VECTOR")
    (post,), (wait,) = program.posts[writer], program.waits[reader]
    assert post.sem == wait.sem == program.semaphores[channel]
    assert (post.point, post.level, wait.level, wait.amount) == (Point.DONE, 0, 0, 1)
    assert program.waits[writer] == program.posts[reader] == []


def test_a_writer_waits_until_the_bytes_have_been_read() -> None:
    a = spad("a", 64)
    reader, writer = store(a), vector([writes(a)], CONFIG)
    program = assign_semaphores([reader, writer], CONFIG)
    assert list(program.semaphores) == [(Engine.STORE, Point.READ, "VECTOR")]


def test_instructions_of_one_engine_and_other_bytes_need_no_semaphore() -> None:
    a, b = spad("a", 64), spad("b", 64, address=64)
    program = [load(a), load(a), vector([reads(b)], CONFIG), vector([writes(b)], CONFIG)]
    assert assign_semaphores(program, CONFIG).semaphores == {}


def test_what_follows_from_an_earlier_wait_is_not_waited_for_again() -> None:
    a, b = spad("a", 64), spad("b", 64, address=64)
    first, second = load(a), load(b)
    late, later = vector([reads(b)], CONFIG), vector([reads(a)], CONFIG)
    program = assign_semaphores([first, second, late, later], CONFIG)
    assert taken(program, late) == 1 and program.posts[first] == []
    assert program.waits[later] == []


def test_slices_are_posted_and_waited_for_iteration_by_iteration() -> None:
    a = spad("a", 64)
    parts = [(16 * i, 16 * i + 16) for i in range(4)]
    writer = instruction(
        Load(run=16, loop=[DmaLoop(count=4)]),
        [writes(a, *part, level=1, iteration=i) for i, part in enumerate(parts)],
    )
    reader = instruction(
        Vector(lanes=16, loop=[VectorLoop(count=4)]),
        [reads(a, *part, level=1, iteration=i) for i, part in enumerate(parts)],
    )
    program = assign_semaphores([writer, reader], CONFIG)
    (post,) = program.posts[writer]
    assert post.level == 1
    assert [(w.level, w.amount) for w in program.waits[reader]] == [(1, 1)]


def test_first_slices_that_are_known_are_taken_with_the_others() -> None:
    """Else every wait would come at the start: a slot takes as much in every iteration."""
    a, b = spad("a", 64), spad("b", 64, address=64)
    parts = [(16 * i, 16 * i + 16) for i in range(4)]
    first = load(a)
    object.__setattr__(first, "accesses", [writes(a, *parts[0])])
    # What follows the first slice's LOAD proves it.
    follower, third = vector([reads(a, *parts[0]), writes(b)], CONFIG), []
    for part in parts[1:]:
        third.append(load(a))
        object.__setattr__(third[-1], "accesses", [writes(a, *part)])
    slices = [reads(a, *part, level=1, iteration=i) for i, part in enumerate(parts)]
    reader = instruction(
        Matrix(loop=[ArrayLoop(count=4), ArrayLoop(count=100)], fold_loops=1), [reads(b), *slices]
    )
    program = assign_semaphores([first, follower, *third, reader], CONFIG)
    of = program.semaphores[Engine.LOAD, Point.DONE, "MATRIX"]
    assert [(w.level, w.amount) for w in program.waits[reader] if w.sem == of] == [(1, 1)]


def test_a_wait_of_one_level_proves_nothing_of_what_another_level_waits_for() -> None:
    """Two blocks of four rows: the last block's input is younger than what its rows replace."""
    sums, inputs = spad("sums", 128), spad("inputs", 32, address=128)
    old = vector([reads(sums)], CONFIG)
    late = vector([writes(inputs)], CONFIG)
    rows = [writes(sums, 16 * i, 16 * i + 16, level=2, iteration=i) for i in range(8)]
    blocks = [reads(inputs, 16, 32, level=1, iteration=1)]
    product = instruction(
        Matrix(loop=[ArrayLoop(count=2), ArrayLoop(count=4)], fold_loops=1), [*blocks, *rows]
    )
    program = assign_semaphores([old, late, product], CONFIG)
    # The first row comes before the second block's wait for the younger instruction.
    assert (Engine.VECTOR, Point.READ, "MATRIX") in program.semaphores


def test_weights_are_waited_for_by_a_sequencer_of_their_own() -> None:
    act, wgt = spad("act", 64), spad("wgt", 64, address=64)
    product = matrix([reads(act), reads(wgt, weights=True)])
    program = assign_semaphores([load(act), load(wgt), product], CONFIG)
    assert {channel[2] for channel in program.semaphores} == {"MATRIX", "WEIGHTS"}
    assert {w.point for w in program.waits[product]} == {Point.DONE, Point.WEIGHTS}


def test_a_slice_of_weights_proves_nothing_of_what_later_slices_wait_for() -> None:
    """Two folds: the first reads weights of an early load, the second those of a late one."""
    early, late = spad("early", 64), spad("late", 64, address=64)
    before, between = spad("before", 64, address=128), spad("between", 64, address=192)
    folds = [
        reads(early, weights=True, level=1, iteration=0),
        reads(late, weights=True, level=1, iteration=1),
    ]
    record = Matrix(loop=[ArrayLoop(count=2), ArrayLoop(count=100)], fold_loops=1)
    product = instruction(record, folds)
    # It waits until the first fold has its weights.
    follower = vector([writes(early)], CONFIG)
    known, unknown = vector([reads(before)], CONFIG), vector([reads(between)], CONFIG)
    loads = [load(before), load(early), load(between), load(late)]
    program = assign_semaphores([*loads, product, follower, known, unknown], CONFIG)
    assert taken(program, follower) == 1
    assert program.waits[known] == []
    assert taken(program, unknown) == 1


def test_amounts_that_a_slot_cannot_hold_take_several() -> None:
    a = spad("a", 16 * 300)
    slices = [writes(a, 16 * i, 16 * i + 16, level=1, iteration=i) for i in range(300)]
    writer = instruction(Load(run=16, loop=[DmaLoop(count=300)]), slices)
    # One read needs all but the last slice: slices make the producer post 300 times.
    reader = vector([reads(a, 0, 16 * 299)], CONFIG)
    wide = preset("default").with_settings({"sem_bits": "16"})
    waits = assign_semaphores([writer, reader], wide).waits[reader]
    assert sum(w.amount for w in waits) == 299
    assert max(w.amount for w in waits) == MAX_AMOUNT


def test_more_waits_than_slots_become_one_for_each_semaphore() -> None:
    a = spad("a", 16 * 2000)
    slices = [writes(a, 16 * i, 16 * i + 16, level=1, iteration=i) for i in range(1200)]
    writer = instruction(Load(run=16, loop=[DmaLoop(count=1200)]), slices)
    wide = preset("default").with_settings({"sem_bits": "16"})
    reader = vector([reads(a, 0, 16 * 1199)], CONFIG, "far")
    with pytest.raises(LegalityError, match=f"waits, an instruction has {SYNC_SLOTS} slots") as e:
        assign_semaphores([writer, reader], wide)
    assert "far" in str(e.value)


def tiles(count: int) -> tuple[list[VirtualInstruction], list[VirtualInstruction]]:
    """So many loads and, for each, an instruction that reads what it has loaded."""
    buffers = [spad(f"b{i}", 16, 16 * i) for i in range(count)]
    loads = [load(b, f"load {i}") for i, b in enumerate(buffers)]
    return loads, [vector([reads(b)], CONFIG, f"use {i}") for i, b in enumerate(buffers)]


def test_producers_that_run_ahead_wait_for_consumers_before_a_counter_overflows() -> None:
    most = (1 << CONFIG.sem_bits) - 1
    loads, users = tiles(most + 50)
    pairs = [node for pair in zip(loads, users, strict=True) for node in pair]
    program = assign_semaphores(pairs, CONFIG)
    held_back = {node.note for node in loads if program.waits[node]}
    # Nothing holds a load back by its bytes: the first that could post too much waits.
    assert f"load {most}" in held_back and f"load {most - 1}" not in held_back
    assert (Engine.VECTOR, Point.READ, "LOAD") in program.semaphores
    few, many = tiles(most)
    calm = assign_semaphores([n for pair in zip(few, many, strict=True) for n in pair], CONFIG)
    assert not any(calm.waits[node] for node in few)


def test_a_counter_that_nobody_takes_from_in_time_is_an_error() -> None:
    most = (1 << CONFIG.sem_bits) - 1
    loads, users = tiles(most + 1)
    with pytest.raises(LegalityError, match=f"would count beyond {most} before anything takes"):
        assign_semaphores([*loads, *users], CONFIG)


def test_predecessors_name_the_nearest_conflicts() -> None:
    a, b = spad("a", 64), spad("b", 64, address=64)
    program = [load(a), load(b), vector([reads(a)], CONFIG), vector([writes(b)], CONFIG), store(b)]
    assert [set(each) for each in predecessors(program, [1.0] * 5)] == [set(), set(), {0}, {1}, {3}]


def test_predecessors_say_how_early_one_can_begin() -> None:
    """A load of four slices, of which the second is read in the last eighth of what reads it."""
    a = spad("a", 64)
    first = load(a, cycles=4)
    slices = [writes(a, 16 * i, 16 * i + 16, level=1, iteration=i) for i in range(4)]
    object.__setattr__(first, "accesses", slices)
    object.__setattr__(first, "record", first.record._replace(loop=[DmaLoop(count=4, chip=16)]))
    last = vector([reads(a, 16, 32, level=1, iteration=7)], CONFIG, n=8)
    assert predecessors([first, last], [40.0, 80.0])[1] == {0: 0.5 * 40 + 0.875 * 80}


def test_channels_of_the_same_pixels_do_not_conflict() -> None:
    """Bytes 0…4 of every 16 are written by one instruction, bytes 4…8 by another."""
    a = spad("a", 64)
    low = vector([writes(a, 0, 64, pitch=16, lanes=(0, 4))], CONFIG)
    high = store(a)
    object.__setattr__(high, "accesses", [reads(a, 0, 64, pitch=16, lanes=(4, 8))])
    assert predecessors([low, high], [1.0, 1.0]) == [{}, {}]
    assert analyse([low, high], {}).needs[1][1] == {}

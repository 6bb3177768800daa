"""From the recorder's words to instructions on a time line, without a simulation."""

import numpy as np
import pytest
from trace_helpers import recording, word

from spec.isa import Engine, Instruction, Opcode
from spec.memmap import Stall
from sw.measure.profile.layers import bound_by, runs, written_bytes
from sw.measure.profile.trace_records import LAST, parse_recording, read_recording
from sw.measure.profile.trace_spans import closings, engine_spans, state_sums
from sw.runtime.simulator.errors import SimulationError

BUSY, SEM, MEM, PIPE, IDLE = Stall.BUSY, Stall.SEMAPHORE, Stall.MEMORY, Stall.PIPELINE, Stall.IDLE
BEGIN, END = Instruction(Opcode.BEGIN), Instruction(Opcode.END)
LOAD, STORE = Instruction(Opcode.LOAD, {"run": 16}), Instruction(Opcode.STORE, {"run": 16})


def test_every_engine_has_its_states_and_they_fill_the_run():
    made = recording(100, {Engine.LOAD: [(0, IDLE, 7), (10, BUSY, 1), (30, SEM, 2), (60, IDLE, 2)]})
    assert made.cycles == 100
    assert made.tracks[Engine.LOAD].counters() == {
        "busy": 20,
        "semaphore": 30,
        "memory": 0,
        "bank": 0,
        "pipeline": 0,
        "idle": 50,
    }
    assert all(sum(track.counters().values()) == 100 for track in made.tracks.values())


@pytest.mark.parametrize("words", [[], [word(0, 0)], [word(3, LAST), word(9, LAST)]])
def test_a_record_without_its_end_is_refused(words):
    with pytest.raises(SimulationError, match="cut off"):
        parse_recording(np.array(words, "<u8"))


def test_a_record_is_read_from_its_file(tmp_path):
    np.array([word(0, 5, Engine.LOAD), word(4, LAST)], "<u8").tofile(tmp_path / "events")
    assert read_recording(tmp_path / "events").tracks[Engine.LOAD].counters()["idle"] == 4


def test_an_instruction_ends_with_its_last_post_and_the_next_has_what_is_left():
    # The engine issues 2 while the bytes of 1 are still on their way.
    states = [
        (0, IDLE, 9),
        (10, BUSY, 1),
        (12, BUSY, 2),
        (50, SEM, 2),
        (70, BUSY, 2),
        (80, IDLE, 2),
    ]
    posts = [(20, Engine.LOAD, 1), (39, Engine.LOAD, 1), (78, Engine.LOAD, 2)]
    made = recording(100, {Engine.LOAD: states}, posts)
    one, two = engine_spans(made, [BEGIN, LOAD, LOAD, END])[Engine.LOAD]
    assert (one.index, one.start, one.stop) == (1, 10, 40)
    # It works until 80, one cycle after the post.
    assert (two.index, two.start, two.stop) == (2, 40, 80)
    assert one.states == (30, 0, 0, 0, 0, 0)
    assert two.states == (20, 20, 0, 0, 0, 0)


def test_without_a_post_an_instruction_ends_when_its_engine_rests():
    states = [(0, IDLE, 0), (5, BUSY, 1), (9, MEM, 1), (20, IDLE, 1), (40, PIPE, 3), (44, IDLE, 3)]
    made = recording(60, {Engine.STORE: states})
    spans = engine_spans(made, [BEGIN, STORE, LOAD, STORE, END])[Engine.STORE]
    assert [(s.index, s.start, s.stop) for s in spans] == [(1, 5, 20), (3, 40, 44)]


def test_an_index_left_over_from_the_run_before_is_no_instruction():
    states = [(0, IDLE, 2), (30, BUSY, 1), (40, BUSY, 2), (50, IDLE, 2)]
    made = recording(60, {Engine.LOAD: states})
    spans = engine_spans(made, [BEGIN, LOAD, LOAD, END])[Engine.LOAD]
    assert [(s.start, s.stop) for s in spans] == [(30, 40), (40, 50)]


def test_each_cycle_is_charged_to_the_oldest_instruction_that_is_not_done():
    states = {
        Engine.FETCH: [(0, MEM, 0), (8, BUSY, 1), (12, IDLE, 3)],
        Engine.LOAD: [(0, IDLE, 0), (10, BUSY, 1), (30, BUSY, 3), (35, IDLE, 3)],
        Engine.STORE: [(0, IDLE, 0), (10, SEM, 2), (31, BUSY, 2), (60, IDLE, 2)],
    }
    made = recording(64, states)
    program = [BEGIN, LOAD, STORE, LOAD, END]
    spans = engine_spans(made, program)
    assert closings(spans, len(program), made.cycles).tolist() == [8, 30, 60, 60, 64]


def test_states_within_windows_are_exact_and_sum_to_them():
    rng = np.random.default_rng(3)
    edges = np.unique(rng.integers(1, 1000, 80))
    rows = [(0, IDLE, 0), *((int(c), Stall(int(rng.integers(6))), 1) for c in edges)]
    track = recording(1000, {Engine.LOAD: rows}).tracks[Engine.LOAD]
    cuts = np.array([0, *np.unique(rng.integers(1, 1000, 20)), 1000])
    sums = state_sums(track, cuts[:-1], cuts[1:])
    assert (sums.sum(axis=1) == np.diff(cuts)).all()
    each = np.repeat(track.stall, track.stop - track.start)
    for row, a, b in zip(sums, cuts, cuts[1:]):
        assert row.tolist() == np.bincount(each[a:b], minlength=6).tolist()


@pytest.mark.parametrize(
    ("loops", "count"),
    [
        ([], 1),
        ([(5, 5)], 5),
        ([(3, 3), (4, 2)], 2 * 4 + 2),
        ([(2, 2), (3, 1), (4, 2)], (2 * 4 + 2) + 2),
    ],
)
def test_runs_of_a_loop_nest(loops, count):
    assert runs([{"count": c, "last": last} for c, last in loops]) == count


def test_bytes_that_an_instruction_writes():
    loop = [{"count": 3, "mem": 100}]
    assert written_bytes(Instruction(Opcode.STORE, {"run": 10, "loop": loop})) == 30
    assert written_bytes(Instruction(Opcode.LOAD, {"run": 10, "loop": loop})) == 0
    assert written_bytes(BEGIN) == 0


def test_bus_words_are_those_of_the_load_that_posts():
    states = {Engine.LOAD: [(0, BUSY, 1)]}
    posts = [
        (10, Engine.LOAD, 1),
        (12, Engine.STORE, 9),
        (20, Engine.LOAD, 1),
        (30, Engine.LOAD, 2),
    ]
    # The one at 25 lies in no post's cycle: it is told because the count is full.
    reads = [(10, 5), (20, 6), (25, 1 << 19), (30, 7), (39, 2)]
    assert recording(40, states, posts, reads).words == {1: 11, 2: (1 << 19) + 9}
    assert recording(40, states, [], [(39, 2)]).words == {0: 2}


def test_a_layer_is_bound_by_the_engine_that_works_most():
    states = {
        "load": {"busy": 40, "bank": 15, "pipeline": 0, "memory": 45},
        "matrix": {"busy": 50, "bank": 0, "pipeline": 4, "memory": 46},
    }
    assert bound_by(states, 100) == "load"
    assert bound_by(states, 110) == "latency"
    assert bound_by(states, 0) == "latency"
    states["fetch"] = {"busy": 1, "bank": 0, "pipeline": 99, "memory": 0}
    assert bound_by(states, 100) == "load"

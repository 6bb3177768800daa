"""The model's ways without checks: strided views, merged posts, gathered activations kept."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden_programs import (
    ROOMY,
    STRIDED,
    assert_same,
    by_address,
    decoded,
    image,
    random_convolution,
    random_depthwise,
    random_dma,
    random_fused,
    random_matrix,
    random_operator,
    random_vector,
    serial,
    state_of,
)
from golden_reference import Reference, randomize
from random_pipelines import random_pipeline
from random_programs import random_program

from golden_model import DeadlockError, Machine, boxes, engine, matrix, merging
from golden_model.machine import execute_program
from spec import Instruction, NpuConfig, Opcode, preset
from spec.isa import DType, Point, Space, Sync

TINY = preset("tiny")
MEMORY_BYTES = 2048
LOAD, STORE, MATRIX, VECTOR = Opcode.LOAD, Opcode.STORE, Opcode.MATRIX, Opcode.VECTOR
MAKERS: tuple[Callable[[np.random.Generator, NpuConfig], Instruction], ...] = (
    lambda rng, config: random_dma(rng, config, MEMORY_BYTES),
    random_convolution,
    random_convolution,
    random_matrix,
    random_vector,
    random_fused,
    random_operator,
    random_operator,
    random_depthwise,
)


def reference_of(rng: np.random.Generator) -> Reference:
    reference = Reference(ROOMY)
    reference.memory = [bytearray(MEMORY_BYTES) for _ in range(4)] + [bytearray()] * 4
    randomize(reference, rng)
    return reference


@pytest.mark.parametrize("seed", range(12))
def test_sequences_of_all_kinds_leave_what_the_reference_leaves(seed: int) -> None:
    """What one instruction has worked out or gathered must not reach another one wrongly."""
    rng = np.random.default_rng(seed)
    made = [MAKERS[int(rng.integers(len(MAKERS)))](rng, ROOMY) for _ in range(4)]
    # Every form comes again, in an order of its own and partly somewhere else.
    made += [made[i] for i in rng.permutation(len(made))]
    for i in (5, 7):
        if made[i].opcode is MATRIX:
            moved = {"wgt_base": made[i]["wgt_base"] + 1, "acc_base": made[i]["acc_base"] ^ 1}
            made[i] = Instruction(MATRIX, {**made[i].values, **moved})
    body = serial([(i.opcode, {**i.values, "wait": [], "post": []}) for i in made])
    reference = reference_of(rng)
    state = state_of(reference)
    execute_program(state, decoded(ROOMY, body), check=False)
    for instruction in body:
        reference.execute(instruction)
    assert_same(state, reference, body[-1])


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("dma", MAKERS[0]),
        ("vector", random_vector),
        ("matrix", random_convolution),
        ("depthwise", random_depthwise),
    ],
)
def test_random_instructions_go_both_ways(
    name: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or comparing them with the reference would show less than it seems to."""
    found: list[bool] = []
    module, function = STRIDED[name]
    original = getattr(module, function)

    def spy(*args: Any, **more: Any) -> Any:
        taken = original(*args, **more)
        found.append(bool(taken))
        return taken

    monkeypatch.setattr(module, function, spy)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        state = state_of(reference_of(rng))
        execute_program(state, decoded(ROOMY, [make(rng, ROOMY)]), check=False)
    assert 0.1 < np.mean(found) < 0.98, np.mean(found)


@pytest.mark.parametrize("seed", range(5))
def test_random_programs_are_the_same_with_and_without_checks_and_views(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, inputs, want, _ = random_program(seed, TINY, many=12, more=[random_depthwise])
    machine = Machine(TINY)
    got = machine.run(made, inputs, check=False)["out"]
    by_address(monkeypatch)
    for result in (got, *(machine.run(made, inputs, check)["out"] for check in (True, False))):
        np.testing.assert_array_equal(result, want["out"])


def test_pipelines_are_right_without_checks() -> None:
    for seed in range(60):
        pipeline, made = random_pipeline(seed, TINY)
        got = Machine(TINY).run(made, {"x": pipeline.data}, check=False)["y"]
        np.testing.assert_array_equal(got, pipeline.expected(), f"seed {seed}")


def test_chunks_are_merged_where_nothing_holds_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the comparisons above would show less than they seem to."""
    merged: dict[Opcode, list[bool]] = {LOAD: [], STORE: [], MATRIX: [], VECTOR: []}

    def spy(context: Any, plan: Any, chunk: int) -> Any:
        part, number, following = merging.merged(context, plan, chunk)
        merged[plan.instruction.opcode].append(part is not plan)
        return part, number, following

    monkeypatch.setattr(engine, "merged", spy)
    monkeypatch.setattr(matrix, "merged", spy)
    for seed in range(60):
        pipeline, made = random_pipeline(seed, TINY)
        Machine(TINY).run(made, {"x": pipeline.data}, check=False)
    for opcode, found in merged.items():
        # Loads go first, and take every free buffer as soon as there is one.
        assert any(found) is (opcode is not LOAD), opcode
        assert not all(found), opcode
        found.clear()
    Machine(TINY).run(made, {"x": pipeline.data}, check=True)
    assert not any(itertools.chain(*merged.values()))


def test_weights_that_are_replaced_between_folds_are_not_merged() -> None:
    """The second block's weights take the place of the first one's."""
    weights = {"region": 0, "chip_base": 64, "run": 16}
    matrix = {
        "act_base": 0,
        "wgt_base": 64,
        "wgt_row": 4,
        "rows": 4,
        "cols": 4,
        "fold_loops": 1,
        "loop": [{"count": 3, "acc": 2}, {"count": 2, "act": 4, "acc": 1}],
        "wait": [Sync(sem=0, level=1, point=Point.WEIGHTS)],
        "post": [Sync(sem=1, level=1, point=Point.WEIGHTS), Sync(sem=2)],
    }
    body = [
        Instruction(LOAD, {"region": 0, "mem_base": 48, "run": 8}),
        Instruction(LOAD, {**weights, "post": [Sync(sem=0)]}),
        Instruction(
            LOAD,
            {
                **weights,
                "mem_base": 16,
                "loop": [{"count": 2, "mem": 16}],
                "wait": [Sync(sem=1, level=1)],
                "post": [Sync(sem=0, level=1)],
            },
        ),
        Instruction(MATRIX, matrix),
        Instruction(
            VECTOR,
            {
                "a_space": Space.ACC,
                "a_type": DType.I32,
                "o_type": DType.I32,
                "lanes": 4,
                "o_base": 256,
                "o_min": -(1 << 31),
                "o_max": (1 << 31) - 1,
                "loop": [{"count": 6, "a": 1, "o": 16}],
                "wait": [Sync(sem=2)],
                "post": [Sync(sem=3)],
            },
        ),
        Instruction(STORE, {"region": 2, "chip_base": 256, "run": 96, "wait": [Sync(sem=3)]}),
    ]
    data = np.random.default_rng(5).integers(-128, 128, 56, dtype=np.int8)
    program = image(ROOMY, body, [], [("y", (3, 2, 4), "int32")], constants=data.view(np.uint8))
    wide = data.astype(np.int32)
    want = wide[48:].reshape(2, 4) @ wide[:48].reshape(3, 4, 4)
    for check in (True, False):
        np.testing.assert_array_equal(Machine(ROOMY).run(program, {}, check=check)["y"], want)


def product(act: int = 0, acc: int = 0, **more: Any) -> tuple[Opcode, dict[str, Any]]:
    values = {"act_base": act, "wgt_base": 512, "wgt_row": 4, "acc_base": acc}
    loop = [{"count": 6, "act": 4, "acc": 1}]
    return MATRIX, {**values, "rows": 4, "cols": 4, "loop": loop, **more}


@pytest.mark.parametrize(
    "change",
    [
        (LOAD, {"region": 1, "mem_base": 7, "chip_base": 23, "run": 1}),
        (LOAD, {"fill": 1, "fill_value": 9, "chip_base": 0, "run": 1}),
        (LOAD, {"region": 1, "chip_base": 8, "run": 9, "loop": [{"count": 2, "chip": 1}]}),
        (VECTOR, {"a_base": 600, "o_base": 20, "lanes": 4, "o_min": -128, "o_max": 127}),
        (
            VECTOR,
            {
                "a_base": 600,
                "o_base": 20,
                "lanes": 4,
                "o_min": -128,
                "o_max": 127,
                "loop": [{"count": 2, "o": -3}],
            },
        ),
    ],
)
def test_activations_are_gathered_again_when_they_have_changed(change: Any) -> None:
    data = np.random.default_rng(1).integers(-9, 9, 1024, dtype=np.int8)
    copy = {"a_space": Space.ACC, "a_type": DType.I32, "lanes": 4, "o_min": -128, "o_max": 127}
    body = [
        (LOAD, {"region": 1, "run": 1024}),
        product(),
        product(acc=10),
        change,
        product(acc=20),
        (VECTOR, {**copy, "o_base": 2048, "loop": [{"count": 26, "a": 1, "o": 4}]}),
        (STORE, {"region": 2, "chip_base": 2048, "run": 104}),
    ]
    # Accumulators 6 ... 9 and 16 ... 19 are read too: they hold products as well.
    body[1:1] = [product(acc=6), product(acc=16)]
    program = image(ROOMY, serial(body), [("x", data)], [("y", (26, 4), "int8")])
    machine = Machine(ROOMY)
    want = machine.run(program, {"x": data})["y"]
    assert (want[20:] != want[:6]).any()
    np.testing.assert_array_equal(machine.run(program, {"x": data}, check=False)["y"], want)


def test_parameters_are_read_again_when_they_have_changed() -> None:
    entry = np.zeros(ROOMY.param_entry_bytes, np.uint8)
    entry[:16] = np.array([1, -2, 3, -4], "<i4").view(np.uint8)
    copy = {"bias": 1, "lanes": 4, "o_min": -128, "o_max": 127}
    body = [
        (LOAD, {"fill": 1, "run": 8}),
        (LOAD, {"space": Space.PARAM, "run": entry.size}),
        (VECTOR, {**copy, "o_base": 8}),
        (LOAD, {"space": Space.PARAM, "fill": 1, "fill_value": 0, "run": 1}),
        (VECTOR, {**copy, "o_base": 12}),
        (STORE, {"region": 2, "chip_base": 8, "run": 8}),
    ]
    program = image(ROOMY, serial(body), [], [("y", (2, 4), "int8")], constants=entry)
    for check in (True, False):
        got = Machine(ROOMY).run(program, {}, check=check)["y"]
        np.testing.assert_array_equal(got, [[1, -2, 3, -4], [0, -2, 3, -4]])


def test_posts_in_between_are_as_many_without_checks() -> None:
    """A post at each of 60 steps, inside and outside of a loop's last iteration."""
    loop = [{"count": 4}, {"count": 5, "last": 3, "chip": 8}, {"count": 3, "chip": 1}]
    posts = [Sync(sem=0, level=3), Sync(sem=1, level=2, amount=2), Sync(sem=2, level=1)]
    load = Instruction(LOAD, {"fill": 1, "run": 1, "loop": loop, "post": posts})

    def run(more: int) -> None:
        waits = [
            Sync(sem=0, amount=54 + more),
            Sync(sem=1, amount=36),
            Sync(sem=2, amount=4),
        ]
        vector = Instruction(VECTOR, {"wait": waits, "o_base": 512})
        Machine(TINY).run(image(TINY, [load, vector]), {}, check=False)

    run(0)
    with pytest.raises(DeadlockError, match="waits for 55 of semaphore 0, which holds 54"):
        run(1)


def test_a_post_of_weights_may_be_needed_by_the_same_instruction_without_checks_too() -> None:
    fill = {"fill": 1, "run": 64}
    matrix = {
        "wait": [Sync(sem=2), Sync(sem=0, point=Point.WEIGHTS)],
        "post": [Sync(sem=1, level=1, point=Point.WEIGHTS)],
        "act_base": 64,
        "fold_loops": 1,
        "loop": [{"count": 3, "wgt": 4}],
    }
    body = [
        Instruction(LOAD, {**fill, "post": [Sync(sem=0)]}),
        Instruction(LOAD, {**fill, "chip_base": 64, "wait": [Sync(sem=1)], "post": [Sync(sem=2)]}),
        Instruction(MATRIX, matrix),
    ]
    Machine(TINY).run(image(TINY, body), {}, check=False)


def test_many_short_runs_of_overlapping_windows_are_one_copy() -> None:
    """What a compiler packs for a first convolution: rows of windows, three bytes apart."""
    image_bytes = np.random.default_rng(2).integers(0, 256, 40 * 40 * 3, dtype=np.uint8)
    loop = [
        {"count": 17, "mem": 2 * 120, "chip": 17 * 63},
        {"count": 17, "mem": 6, "chip": 63},
        {"count": 7, "mem": 120, "chip": 9},
    ]
    config = preset("small")
    load = Instruction(LOAD, {"region": 1, "run": 9, "loop": loop, "post": [Sync(sem=0)]})
    out = {"region": 2, "run": 17 * 17 * 63, "wait": [Sync(sem=0)]}
    program = image(
        config,
        [load, Instruction(STORE, out)],
        [("x", image_bytes)],
        [("y", (17, 17, 7, 9), "uint8")],
    )
    rows = image_bytes.reshape(40, 120)
    want = np.array(
        [[[rows[2 * i + k, 6 * j : 6 * j + 9] for k in range(7)] for j in range(17)]
         for i in range(17)]
    )  # fmt: skip
    for check in (True, False):
        got = Machine(config).run(program, {"x": image_bytes}, check=check)["y"]
        np.testing.assert_array_equal(got, want)


# Boxes -------------------------------------------------------------------------------------------


def test_boxes_have_every_step_once() -> None:
    from golden_model.loops import Nest

    rng = np.random.default_rng(4)
    for _ in range(200):
        loops = [
            {"count": int(rng.integers(1, 4)), "last": int(rng.integers(1, 4)), "s": 10**i}
            for i in range(int(rng.integers(1, 5)))
        ]
        for loop in loops:
            loop["last"] = loop["last"] if rng.random() < 0.4 else loop["count"]
        outer = bool(rng.random() < 0.5)
        watched = {i for i in range(len(loops)) if rng.random() < 0.3}
        steps = Nest([{"count": 1, "last": 1}, *loops], 1, len(loops) + 1).steps(outer)
        found = boxes.boxes(loops, outer, watched)
        grids = [box.walk("s").grid().reshape(-1) for box in found]
        np.testing.assert_array_equal(np.sort(np.concatenate(grids)), np.sort(steps.offset("s")))
        for box in found:
            walk = box.walk("s")
            assert (walk.low, walk.high) == (walk.grid().min(), walk.grid().max())
            for i in watched:
                ends = steps.last[i][np.isin(steps.offset("s"), walk.grid())]
                assert ends.all() == box.last[i]
                assert ends.any() == box.last[i]


@pytest.mark.parametrize(
    ("shape", "strides", "run", "want"),
    [
        ((4,), (8,), 8, True),
        ((4,), (8,), 9, False),
        ((4,), (-8,), 8, True),
        ((3, 4), (32, 8), 8, True),
        ((3, 4), (31, 8), 8, False),
        ((5, 4), (8, 32), 8, False),
        ((4, 3), (8, 32), 8, True),
        ((2,), (0,), 1, False),
        ((), (), 100, True),
    ],
)
def test_disjoint_runs(shape: Any, strides: Any, run: int, want: bool) -> None:
    assert boxes.disjoint(shape, strides, run) is want

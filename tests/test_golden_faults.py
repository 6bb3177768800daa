"""Where the hardware would stop, the golden model raises with the same cause, engine and index."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from golden_programs import code, image

from golden_model import DeadlockError, Machine, MachineFault, TensorError, UndefinedError
from spec import Image, Instruction, NpuConfig, Opcode, preset
from spec.isa import ISA_DIGEST, DType, Point, Scale, Space, Sync
from spec.memmap import Fault

TINY = preset("tiny")
LOAD, STORE, MATRIX, VECTOR = Opcode.LOAD, Opcode.STORE, Opcode.MATRIX, Opcode.VECTOR


def run(program: Image, config: NpuConfig = TINY, check: bool = False) -> None:
    Machine(config).run(program, {}, check=check)


def fault(program: Image, cause: Fault, engine: str, index: int, text: str) -> None:
    with pytest.raises(MachineFault, match=re.escape(text)) as caught:
        run(program)
    assert (caught.value.cause, caught.value.engine, caught.value.index) == (cause, engine, index)
    assert str(caught.value).startswith(f"{cause.name} in {engine} at instruction {index}: ")


def body(opcode: Opcode, **values: Any) -> Image:
    """A legal load, then the instruction under test."""
    filler = Instruction(LOAD, {"fill": 1, "run": 4})
    return image(TINY, [filler, Instruction(opcode, values)], temp_bytes=100)


LAST = TINY.spad_bytes - 1


@pytest.mark.parametrize(
    ("opcode", "values", "engine", "text"),
    [
        (LOAD, {"fill": 1, "chip_base": LAST, "run": 2}, "load", "spad 16383…16384 lies outside"),
        (
            LOAD,
            {"fill": 1, "space": Space.TABLE, "chip_base": 1020, "run": 7},
            "load",
            "table 1020…1026",
        ),
        (
            LOAD,
            {"fill": 1, "space": Space.PARAM, "chip_base": TINY.param_bytes, "run": 1},
            "load",
            f"param {TINY.param_bytes}…{TINY.param_bytes} lies",
        ),
        (STORE, {"region": 3, "chip_base": LAST, "run": 2}, "store", "spad 16383"),
        (MATRIX, {"act_base": LAST, "rows": 2}, "matrix", "spad 16383…16384"),
        (MATRIX, {"wgt_base": LAST, "cols": 2}, "matrix", "spad 16383…16384"),
        (MATRIX, {"wgt_row": -1, "rows": 2}, "matrix", "spad 16777215…16777215"),
        (MATRIX, {"acc_base": TINY.acc_vectors}, "matrix", "acc 256…256"),
        (VECTOR, {"a_base": LAST, "a_type": DType.I32}, "vector", "spad 16383…16386"),
        (VECTOR, {"alu": 1, "b_base": LAST, "b_type": DType.I16}, "vector", "spad 16383…16384"),
        (VECTOR, {"o_base": LAST, "lanes": 2}, "vector", "spad 16383…16384"),
        (
            VECTOR,
            {"a_space": Space.ACC, "a_type": DType.I32, "a_base": 256},
            "vector",
            "acc 256…256",
        ),
        (
            VECTOR,
            {"o_space": Space.ACC, "o_type": DType.I32, "o_base": 256},
            "vector",
            "acc 256…256",
        ),
        (VECTOR, {"bias": 1, "param_base": TINY.param_entries}, "vector", "param 2560…2563"),
    ],
)
def test_accesses_outside_the_chips_memories_fault(
    opcode: Opcode, values: dict[str, Any], engine: str, text: str
) -> None:
    fault(body(opcode, **values), Fault.CHIP_ADDRESS, engine, 2, text)


def test_the_last_bytes_of_the_scratchpad_are_usable() -> None:
    run(body(MATRIX, act_base=LAST - 1, rows=2, wgt_base=LAST - 3, cols=4))
    run(body(VECTOR, a_base=LAST - 3, lanes=4, o_base=LAST - 3))


def test_addresses_of_void_steps_may_lie_anywhere() -> None:
    run(body(MATRIX, act_base=1 << 20, y0=-1))
    run(body(VECTOR, a_base=1 << 20, y0=-1))


@pytest.mark.parametrize(("opcode", "engine"), [(LOAD, "load"), (STORE, "store")])
def test_memory_outside_a_region_faults(opcode: Opcode, engine: str) -> None:
    text = "region 3 bytes 99…100 lie outside its 100 bytes"
    program = body(opcode, region=3, mem_base=99, run=2)
    fault(program, Fault.OUTSIDE_REGION, engine, 2, text)
    run(body(opcode, region=3, mem_base=98, run=2))


def edited(program: Image, at: int, value: int) -> Image:
    data = program.program.copy()
    data[at] = value
    return dataclasses.replace(program, program=data)


@pytest.mark.parametrize(
    ("at", "value", "index", "text"),
    [
        (16, 0x77, 1, "illegal opcode 0x77"),
        (17, 1, 1, "LOAD.granules: value 1 must be"),
        (19, 0x80, 1, "LOAD.flags: value 512 is reserved and must be 0"),
        (0, 0x02, 0, "END has bits set above its last field"),
    ],
)
def test_bytes_that_are_no_instruction_fault_in_fetch(
    at: int, value: int, index: int, text: str
) -> None:
    program = edited(body(STORE, region=3), at, value)
    fault(program, Fault.ILLEGAL_INSTRUCTION, "fetch", index, text)


def test_rules_of_legality_fault_in_fetch() -> None:
    text = "VECTOR.lanes: value 5 exceeds the configuration's cols=4"
    fault(body(VECTOR, lanes=5), Fault.ILLEGAL_INSTRUCTION, "fetch", 2, text)


def test_a_program_starts_with_begin_and_stops_with_end() -> None:
    program = body(STORE, region=3)
    headless = dataclasses.replace(program, program=program.program[16:])
    fault(headless, Fault.ILLEGAL_INSTRUCTION, "fetch", 0, "a program has BEGIN first")
    endless = dataclasses.replace(program, program=program.program[:-16])
    fault(endless, Fault.ILLEGAL_INSTRUCTION, "fetch", 3, "instruction stream ends without END")


def test_both_digests_must_be_the_machines() -> None:
    for field, text in (
        ("isa_digest", f"ISA digest 0x1 is not this machine's {ISA_DIGEST & 0xFFFF_FFFF:#x}"),
        ("config_digest", f"configuration digest 0x1 is not this machine's {TINY.digest():#x}"),
    ):
        digests = {"isa_digest": ISA_DIGEST & 0xFFFF_FFFF, "config_digest": TINY.digest()}
        begin = Instruction(Opcode.BEGIN, {**digests, field: 1})
        program = image(TINY, [])
        data = np.frombuffer(begin.encode() + Instruction(Opcode.END).encode(), np.uint8)
        program = dataclasses.replace(program, program=data)
        fault(program, Fault.DIGEST_MISMATCH, "fetch", 0, text)
    fault(
        dataclasses.replace(program, program=code(preset("small"), [])),
        Fault.DIGEST_MISMATCH,
        "fetch",
        0,
        "compile the program again",
    )


def test_passing_a_semaphores_maximum_faults() -> None:
    def program(times: int) -> Image:
        post = [Sync(sem=3, level=1, amount=51)]
        return body(LOAD, fill=1, run=1, loop=[{"count": times}], post=post)

    run(program(5))
    text = "semaphore 3 holds 255, adding 51 passes 255"
    fault(program(6), Fault.SEMAPHORE_OVERFLOW, "load", 2, text)


def test_a_channel_shift_that_has_no_result_is_named() -> None:
    fill = Instruction(LOAD, {"fill": 1, "run": 40, "space": Space.PARAM, "fill_value": 1})
    scaled = Instruction(VECTOR, {"o_scale": Scale.CHANNEL, "lanes": 2})
    with pytest.raises(UndefinedError, match="parameter entry 0 lane 0 has shift 1, legal is 2…62"):
        run(image(TINY, [fill, scaled]), check=False)


# Deadlocks ---------------------------------------------------------------------------------------


def deadlock(instructions: list[Instruction], *lines: str, config: NpuConfig = TINY) -> None:
    with pytest.raises(DeadlockError) as caught:
        run(image(config, instructions), config, check=True)
    for line in lines:
        assert line in str(caught.value)


def fill(**more: Any) -> Instruction:
    return Instruction(LOAD, {"fill": 1, "run": 64, **more})


def test_waiting_for_a_post_that_nobody_makes_is_a_deadlock() -> None:
    stuck = Instruction(VECTOR, {"wait": [Sync(sem=4, amount=2)]})
    deadlock(
        [fill(post=[Sync(sem=4)]), stuck],
        "deadlock: no engine can go on\n",
        "  vector at instruction 2 waits for 2 of semaphore 4, which holds 1: `vector wait(s4x2@0:",
        "  fetch at instruction 3 waits at END for the engines: `end`",
    )
    run(image(TINY, [fill(post=[Sync(sem=4, amount=2)]), stuck]), check=True)


def test_two_engines_waiting_for_each_other_are_a_deadlock() -> None:
    vector = Instruction(VECTOR, {"wait": [Sync(sem=0)], "post": [Sync(sem=1)]})
    first = fill(wait=[Sync(sem=1)], post=[Sync(sem=0)])
    deadlock([first, vector], "load at instruction 1 waits", "vector at instruction 2 waits")


def test_a_full_queue_can_deadlock() -> None:
    """Loads that wait for a vector instruction behind more loads than the queue holds."""
    config = dataclasses.replace(TINY, queue_depth=2)
    vector = Instruction(VECTOR, {"o_base": 64, "post": [Sync(sem=1)], "a_space": 0})
    enough = [fill(), fill(wait=[Sync(sem=1)]), fill(), fill(), vector]
    run(image(config, enough), config, check=False)
    deadlock(
        [*enough[:3], fill(), fill(), vector],
        "fetch at instruction 5 waits: the queue of load is full",
        "load at instruction 2 waits for 1 of semaphore 1",
        config=config,
    )


def folds(count: int) -> list[Instruction]:
    """The activations arrive only when all weights have been read."""
    weights = fill(post=[Sync(sem=0)])
    activations = fill(chip_base=64, wait=[Sync(sem=1)], post=[Sync(sem=2)])
    matrix = {
        "wait": [Sync(sem=2), Sync(sem=0, point=Point.WEIGHTS)],
        "post": [Sync(sem=1, point=Point.WEIGHTS)],
        "act_base": 64,
        "fold_loops": 1,
        "loop": [{"count": count, "wgt": 4}],
    }
    return [weights, activations, Instruction(MATRIX, matrix)]


def test_weights_are_read_one_fold_ahead_and_no_further() -> None:
    run(image(TINY, folds(1)), check=True)
    deadlock(
        folds(2),
        "matrix (weights) at instruction 3 waits for the fold before to begin",
        "matrix at instruction 3 waits for 1 of semaphore 2",
    )


@pytest.mark.parametrize(("needed", "runs"), [(1, True), (2, False)])
def test_the_weight_sequencer_stops_after_one_fold_until_the_main_one_begins(
    needed: int, runs: bool
) -> None:
    weights, activations, matrix = folds(3)
    wait = [Sync(sem=1, amount=needed)]
    activations = Instruction(LOAD, {**activations.values, "wait": wait})
    post = [Sync(sem=1, level=1, point=Point.WEIGHTS)]
    body = [weights, activations, Instruction(MATRIX, {**matrix.values, "post": post})]
    if runs:
        run(image(TINY, body), check=True)
    else:
        deadlock(body, "matrix (weights) at instruction 3 waits for the fold before to begin")


def test_weights_of_the_next_instruction_are_read_ahead() -> None:
    """The second product's weights are read before the first product has its last vectors."""
    slices = {
        "wait": [Sync(sem=2, level=1), Sync(sem=0, point=Point.WEIGHTS)],
        "post": [Sync(sem=1, point=Point.WEIGHTS)],
        "act_base": 64,
        "loop": [{"count": 2, "acc": 1}],
    }
    first = Instruction(MATRIX, slices)
    second = Instruction(MATRIX, {**slices, "wait": [Sync(sem=0, point=Point.WEIGHTS)]})
    body = [
        fill(post=[Sync(sem=0, amount=2)]),
        fill(chip_base=64, post=[Sync(sem=2)]),
        first,
        second,
        fill(chip_base=128, wait=[Sync(sem=1, amount=2)], post=[Sync(sem=2)]),
    ]
    run(image(TINY, body), check=True)


# Tensors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing; it is int8[2, 3]"),
        (
            {"x": np.zeros((3, 2), np.int8)},
            "input 'x' is int8[3, 2], the program takes int8[2, 3]",
        ),
        (
            {"x": np.zeros((2, 3), np.uint8)},
            "input 'x' is uint8[2, 3], the program takes int8[2, 3]",
        ),
        (
            {"x": np.zeros((2, 3), np.int8), "z": np.zeros(1)},
            "tensor 'z': the program has no such port; ports are x",
        ),
    ],
)
def test_inputs_must_be_the_programs(inputs: dict[str, np.ndarray], message: str) -> None:
    program = image(TINY, [], inputs=[("x", np.zeros((2, 3), np.int8))])
    with pytest.raises(TensorError, match=f"^{re.escape(message)}$"):
        Machine(TINY).run(program, inputs)

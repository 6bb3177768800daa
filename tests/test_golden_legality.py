"""Each rule of legality: one instruction that breaks it, the whole message, one that does not."""

import re
from typing import Any

import pytest

from spec import ConfigError, Instruction, IsaError, NpuConfig, Opcode, preset
from spec.isa import Alu, DType, Point, Reduce, Scale, Space, Sync, Table
from spec.legality import IllegalInstructionError, check_instruction
from spec.optional import FUNCTIONS

TINY = preset("tiny")
LOAD, STORE, MATRIX, VECTOR = Opcode.LOAD, Opcode.STORE, Opcode.MATRIX, Opcode.VECTOR
DEPTHWISE = Opcode.DEPTHWISE

RULES: list[tuple[Opcode, dict[str, Any], dict[str, Any], str]] = [
    (
        LOAD,
        {"wait": [Sync(sem=32)]},
        {"wait": [Sync(sem=31)]},
        "LOAD.wait[0].sem: value 32: this configuration has semaphores 0…31",
    ),
    (
        STORE,
        {"post": [Sync(sem=0), Sync(sem=1, level=5)]},
        {"post": [Sync(sem=0), Sync(sem=1, level=4)]},
        "STORE.post[1].level: value 5 exceeds the 4 loops",
    ),
    (
        VECTOR,
        {"post": [Sync(sem=0, level=7)]},
        {"post": [Sync(sem=0, level=6)]},
        "VECTOR.post[0].level: value 7 exceeds the 6 loops",
    ),
    (
        LOAD,
        {"post": [Sync(sem=0, point=Point.READ)]},
        {"post": [Sync(sem=0, point=Point.DONE)]},
        "LOAD.post[0].point: READ: LOAD has only DONE",
    ),
    (
        VECTOR,
        {"wait": [Sync(sem=0, point=Point.WEIGHTS)]},
        {"wait": [Sync(sem=0, point=Point.READ)]},
        "VECTOR.wait[0].point: WEIGHTS: VECTOR has only DONE and READ",
    ),
    (
        MATRIX,
        {"fold_loops": 2, "post": [Sync(sem=0, level=3, point=Point.WEIGHTS)]},
        {"fold_loops": 2, "post": [Sync(sem=0, level=2, point=Point.WEIGHTS)]},
        "MATRIX.post[0].level: value 3: a WEIGHTS slot's level is at most fold_loops=2",
    ),
    (
        STORE,
        {"loop": [{"count": 2, "last": 1}]},
        {"loop": [{"count": 2}, {"count": 2, "last": 1}]},
        "STORE.loop[0].last: value 1 must equal its count 2",
    ),
    (
        VECTOR,
        {"o_min": 1, "o_max": 0},
        {"o_min": 1, "o_max": 1},
        "VECTOR.o_min: value 1 exceeds o_max=0",
    ),
    (
        LOAD,
        {"space": Space.ACC},
        {"space": Space.SPAD},
        "LOAD.space: ACC: LOAD writes SPAD, PARAM or TABLE; use VECTOR to write the accumulator",
    ),
    (
        LOAD,
        {"space": Space.PARAM, "mem_base": 4},
        {"space": Space.PARAM, "mem_base": 12, "chip_base": 4},
        "LOAD.mem_base: value 4: PARAM runs need the same alignment on chip (0) modulo bus_bytes=8",
    ),
    (
        LOAD,
        {"space": Space.TABLE, "loop": [{"count": 2, "mem": 4, "chip": 8}]},
        {"space": Space.TABLE, "loop": [{"count": 2, "mem": 16, "chip": 8}]},
        "LOAD.loop[0].mem: value 4: TABLE runs need the same alignment on chip (8) modulo "
        "bus_bytes=8",
    ),
    (
        MATRIX,
        {"rows": 5},
        {"rows": 4},
        "MATRIX.rows: value 5 exceeds the configuration's rows=4",
    ),
    (
        MATRIX,
        {"cols_last": 5},
        {"cols_last": 4},
        "MATRIX.cols_last: value 5 exceeds the configuration's cols=4",
    ),
    (
        VECTOR,
        {"lanes": 200},
        {"lanes": 4},
        "VECTOR.lanes: value 200 exceeds the configuration's cols=4",
    ),
    (
        MATRIX,
        {"fold_loops": 1, "row_loop": 1},
        {"fold_loops": 2, "row_loop": 1},
        "MATRIX.row_loop: value 1 must be a fold loop (below fold_loops=1) or 7 for none",
    ),
    (
        MATRIX,
        {"fold_loops": 6, "col_loop": 6},
        {"fold_loops": 6, "col_loop": 5},
        "MATRIX.col_loop: value 6 must be a fold loop (below fold_loops=6) or 7 for none",
    ),
    (
        DEPTHWISE,
        {"fold_loops": 1, "lane_loop": 1},
        {"fold_loops": 2, "lane_loop": 1},
        "DEPTHWISE.lane_loop: value 1 must be a fold loop (below fold_loops=1) or 7 for none",
    ),
    (
        VECTOR,
        {"lane_loop": 6},
        {"lane_loop": 5},
        "VECTOR.lane_loop: value 6 must be 0…5 or 7",
    ),
    (
        MATRIX,
        {"act_zp": 129},
        {"act_zp": 128},
        "MATRIX.act_zp: value 129: operands -128…127 minus the zero point must lie in -256…255",
    ),
    (
        MATRIX,
        {"wgt_zp": -1, "wgt_unsigned": 1},
        {"wgt_zp": 255, "wgt_unsigned": 1},
        "MATRIX.wgt_zp: value -1: operands 0…255 minus the zero point must lie in -256…255",
    ),
    (
        DEPTHWISE,
        {"kernel_cols": 4},
        {"kernel_cols": 3},
        "DEPTHWISE.kernel_cols: value 4 exceeds the configuration's taps=3",
    ),
    (
        DEPTHWISE,
        {"kernel_cols": 2, "stride": 3},
        {"kernel_cols": 2, "stride": 2},
        "DEPTHWISE.stride: value 3 exceeds kernel_cols=2",
    ),
    (
        DEPTHWISE,
        {"lanes_last": 5},
        {"lanes_last": 4},
        "DEPTHWISE.lanes_last: value 5 exceeds the configuration's cols=4",
    ),
    (
        DEPTHWISE,
        {"fold_loops": 2, "lane_loop": 2},
        {"fold_loops": 3, "lane_loop": 2},
        "DEPTHWISE.lane_loop: value 2 must be a fold loop (below fold_loops=2) or 7 for none",
    ),
    (
        DEPTHWISE,
        {"wgt_zp": -129},
        {"wgt_zp": -128},
        "DEPTHWISE.wgt_zp: value -129: operands -128…127 minus the zero point must lie in -256…255",
    ),
    (
        DEPTHWISE,
        {"post": [Sync(sem=0, level=5)]},
        {"post": [Sync(sem=0, level=4)]},
        "DEPTHWISE.post[0].level: value 5 exceeds the 4 loops",
    ),
    (
        VECTOR,
        {"a_clamp": 1, "a_min": 6, "a_max": 5},
        {"a_clamp": 0, "a_min": 6, "a_max": 5},
        "VECTOR.a_min: value 6 exceeds a_max=5",
    ),
    (
        VECTOR,
        {"o_scale": Scale.TENSOR, "o_shift": 1},
        {"o_scale": Scale.TENSOR, "o_shift": 2},
        "VECTOR.o_shift: value 1: a RESCALE's shift lies in 2…62",
    ),
    (
        VECTOR,
        {"o_space": Space.ACC, "o_type": DType.I16},
        {"o_space": Space.ACC, "o_type": DType.I32},
        "VECTOR.o_type: I16: must be I32 where o_space is ACC",
    ),
    (
        VECTOR,
        {"a_space": Space.ACC},
        {"a_space": Space.ACC, "a_type": DType.I32},
        "VECTOR.a_type: I8: must be I32 where a_space is ACC",
    ),
    (
        VECTOR,
        {"reduce": Reduce.SUM, "reduce_loops": 0b111000, "lane_loop": 3},
        {"reduce": Reduce.SUM, "reduce_loops": 0b111000, "lane_loop": 2},
        "VECTOR.lane_loop: value 3: must not be a reduction loop (reduce_loops=0b111000) unless "
        "reduce_lanes is set",
    ),
    (
        VECTOR,
        {"reduce": Reduce.SUM, "reduce_loops": 0b111000, "lane_loop": 4},
        {"reduce": Reduce.SUM, "reduce_loops": 0b111000, "lane_loop": 4, "reduce_lanes": 1},
        "VECTOR.lane_loop: value 4: must not be a reduction loop (reduce_loops=0b111000) unless "
        "reduce_lanes is set",
    ),
    (
        VECTOR,
        {"reduce_lanes": 1},
        {"reduce_lanes": 1, "reduce": Reduce.MAX},
        "VECTOR.reduce_lanes: value 1: needs a reduction (reduce is NONE)",
    ),
    (
        VECTOR,
        {"a_scale": Scale.TENSOR, "a_shift": 63},
        {"a_scale": Scale.OPERAND, "a_shift": 63},
        "VECTOR.a_shift: value 63: a RESCALE's shift lies in 2…62",
    ),
    (
        VECTOR,
        {"table": Table.I16, "o_min": -32769},
        {"table": Table.I16, "o_min": -32768},
        "VECTOR.o_min: value -32769: with table=I16 it must lie in -32768…32767",
    ),
    (
        VECTOR,
        {"table": Table.I16_I8, "o_min": -32769},
        {"table": Table.I16_I8, "o_min": -32768, "o_max": 32767},
        "VECTOR.o_min: value -32769: with table=I16_I8 it must lie in -32768…32767",
    ),
    (
        VECTOR,
        {"table": Table.I16, "o_max": 32768},
        {"table": Table.I8, "o_max": 32768},
        "VECTOR.o_max: value 32768: with table=I16 it must lie in -32768…32767",
    ),
    (
        LOAD,
        {"indexed": 1, "space": Space.TABLE},
        {"indexed": 1, "space": Space.SPAD},
        "LOAD.indexed: value 1: space is TABLE and fill 0; only a copy to SPAD takes indices",
    ),
    (
        LOAD,
        {"indexed": 1, "fill": 1},
        {"indexed": 0, "fill": 1},
        "LOAD.indexed: value 1: space is SPAD and fill 1; only a copy to SPAD takes indices",
    ),
    (
        VECTOR,
        {"reduce": Reduce.SUM, "reduce_loops": 1, "loop": [{"count": 2}, {"count": 3}]},
        {"reduce": Reduce.SUM, "reduce_loops": 3, "loop": [{"count": 2}, {"count": 3}]},
        "VECTOR.reduce_loops: value 0b000001: loop 1 runs inside reduction loop 0 and must be one "
        "too",
    ),
]


@pytest.mark.parametrize(("opcode", "bad", "good", "message"), RULES, ids=lambda v: str(v)[:40])
def test_the_rule_refuses_the_bad_and_takes_the_good(
    opcode: Opcode, bad: dict[str, Any], good: dict[str, Any], message: str
) -> None:
    with pytest.raises(IllegalInstructionError, match=f"^{re.escape(message)}$"):
        check_instruction(Instruction(opcode, bad), TINY)
    check_instruction(Instruction(opcode, good), TINY)


def test_unused_slots_are_not_looked_at() -> None:
    slot = {"sem": 63, "level": 7, "point": 2, "amount": 0}
    check_instruction(Instruction(LOAD, {"wait": [slot]}), TINY)


OPTIONAL = [
    (
        "transposed_weights",
        MATRIX,
        {"transposed": 1},
        "MATRIX.transposed: value 1: needs weights that enter the array column by column",
    ),
    (
        "indexed_dma",
        LOAD,
        {"indexed": 1},
        "LOAD.indexed: value 1: needs memory addresses with an index from the scratchpad",
    ),
    (
        "indexed_dma",
        Opcode.STORE,
        {"indexed": 1},
        "STORE.indexed: value 1: needs memory addresses with an index from the scratchpad",
    ),
    (
        "lane_reductions",
        VECTOR,
        {"reduce": Reduce.SUM, "reduce_lanes": 1},
        "VECTOR.reduce_lanes: value 1: needs reductions across the vector lanes",
    ),
    ("table_int16", VECTOR, {"table": Table.I16}, "VECTOR.table: value 2: needs tables of int16"),
    (
        "table_int16",
        VECTOR,
        {"table": Table.I16_I8},
        "VECTOR.table: value 3: needs tables of int16",
    ),
    *(
        ("shifts", VECTOR, {"alu": alu}, f"VECTOR.alu: value {alu:d}: needs shifts by a tensor")
        for alu in (Alu.ASR, Alu.ASR_ROUND, Alu.LSL, Alu.LSR, Alu.CLZ)
    ),
]


@pytest.mark.parametrize("opcode", [LOAD, STORE])
def test_a_configuration_can_have_fewer_regions(opcode: Opcode) -> None:
    check_instruction(Instruction(opcode, {"region": 7}), NpuConfig())
    check_instruction(Instruction(opcode, {"region": 4}), NpuConfig(regions=5))
    message = f"^{opcode.name}.region: value 5: this configuration has regions 0…4$"
    with pytest.raises(IllegalInstructionError, match=message):
        check_instruction(Instruction(opcode, {"region": 5}), NpuConfig(regions=5))


@pytest.mark.parametrize(
    ("flag", "opcode", "values", "message"), OPTIONAL, ids=lambda v: str(v)[:40]
)
def test_a_configuration_can_be_without_a_function(
    flag: str, opcode: Opcode, values: dict[str, Any], message: str
) -> None:
    check_instruction(Instruction(opcode, values), NpuConfig())
    without = NpuConfig(**{flag: False})
    check_instruction(Instruction(opcode), without)
    with pytest.raises(IllegalInstructionError, match=rf"^{message}.*; .* has {flag}=False$"):
        check_instruction(Instruction(opcode, values), without)


def test_every_optional_function_has_a_flag_and_an_instruction_that_uses_it() -> None:
    assert {function.flag for function in FUNCTIONS} == {flag for flag, *_ in OPTIONAL}


def test_every_amount_fits_the_narrowest_semaphore() -> None:
    # Why no rule of legality compares an amount with sem_bits.
    with pytest.raises(ConfigError, match=r"^sem_bits=7: must lie in 8…16$"):
        NpuConfig(sem_bits=7)
    with pytest.raises(IsaError, match=r"LOAD\.post\[0\]\.amount: value 128 "):
        Instruction(LOAD, {"post": [Sync(sem=0, amount=128)]})
    largest = Instruction(LOAD, {"post": [Sync(sem=0, amount=127)]})
    check_instruction(largest, NpuConfig(sem_bits=8))

"""Virtual instructions as records: a class for each opcode and each kind of loop.

Written by `records_source.py` from the instruction table; do not edit. The default of a field is
the value that an instruction has where none is given.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypedDict

from spec.isa import Alu, DType, Opcode, Reduce, Scale, Space, Table


class DmaLoop(NamedTuple):
    """A loop; `last`: iterations in the last one of the loop around it (0: `count`)."""

    count: int = 1  # type: ignore[assignment]  # instead of the method of tuples
    last: int = 0
    mem: int = 0
    chip: int = 0


class Load(NamedTuple):
    """Copy `run` contiguous bytes per iteration from memory on chip, or fill them."""

    mem_base: int = 0
    space: Space = Space.SPAD
    fill: int = 0
    fill_value: int = 0
    chip_base: int = 0
    run: int = 1
    indexed: int = 0
    index_base: int = 0
    loop: Sequence[DmaLoop] = ()

    @property
    def opcode(self) -> Opcode:
        return Opcode.LOAD


class Store(NamedTuple):
    """Copy `run` contiguous bytes per iteration from the scratchpad to memory."""

    mem_base: int = 0
    chip_base: int = 0
    run: int = 1
    indexed: int = 0
    index_base: int = 0
    loop: Sequence[DmaLoop] = ()

    @property
    def opcode(self) -> Opcode:
        return Opcode.STORE


class ArrayLoop(NamedTuple):
    """A loop; `last`: iterations in the last one of the loop around it (0: `count`)."""

    count: int = 1  # type: ignore[assignment]  # instead of the method of tuples
    last: int = 0
    act: int = 0
    wgt: int = 0
    acc: int = 0
    dy: int = 0
    dx: int = 0


class Matrix(NamedTuple):
    """Stream activation vectors through stationary weights into the accumulator."""

    act_base: int = 0
    wgt_base: int = 0
    wgt_row: int = 0
    acc_base: int = 0
    y0: int = 0
    x0: int = 0
    height: int = 1
    width: int = 1
    act_zp: int = 0
    wgt_zp: int = 0
    act_unsigned: int = 0
    wgt_unsigned: int = 0
    fold_loops: int = 0
    k_loops: int = 0
    accumulate: int = 0
    row_loop: int = 7
    rows: int = 1
    rows_last: int = 1
    col_loop: int = 7
    cols: int = 1
    cols_last: int = 1
    transposed: int = 0
    loop: Sequence[ArrayLoop] = ()

    @property
    def opcode(self) -> Opcode:
        return Opcode.MATRIX


class Depthwise(NamedTuple):
    """Per step one row of outputs: each lane convolves its own channel, into the accumulator."""

    act_base: int = 0
    act_row: int = 0
    act_col: int = 0
    wgt_base: int = 0
    wgt_row: int = 0
    wgt_col: int = 0
    acc_base: int = 0
    acc_col: int = 0
    y0: int = 0
    x0: int = 0
    row_step: int = 0
    col_step: int = 0
    height: int = 1
    width: int = 1
    act_zp: int = 0
    wgt_zp: int = 0
    act_unsigned: int = 0
    wgt_unsigned: int = 0
    kernel_rows: int = 1
    kernel_cols: int = 1
    stride: int = 1
    outputs: int = 1
    accumulate: int = 0
    fold_loops: int = 0
    lane_loop: int = 7
    lanes: int = 1
    lanes_last: int = 1
    loop: Sequence[ArrayLoop] = ()

    @property
    def opcode(self) -> Opcode:
        return Opcode.DEPTHWISE


class VectorLoop(NamedTuple):
    """A loop; `last`: iterations in the last one of the loop around it (0: `count`)."""

    count: int = 1  # type: ignore[assignment]  # instead of the method of tuples
    last: int = 0
    a: int = 0
    b: int = 0
    o: int = 0
    param: int = 0
    dy: int = 0
    dx: int = 0


class Vector(NamedTuple):
    """Per step one vector: A, bias, RESCALE, ALU with B, reduce, RESCALE, clamp, TABLE, write."""

    a_space: Space = Space.SPAD
    a_type: DType = DType.I8
    a_base: int = 0
    a_one: int = 0
    a_zp: int = 0
    bias: int = 0
    a_scale: Scale = Scale.OFF
    a_mult: int = 0
    a_shift: int = 0
    a_clamp: int = 0
    a_min: int = 0
    a_max: int = 0
    a_shl: int = 0
    alu: Alu = Alu.PASS
    b_type: DType = DType.I8
    b_base: int = 0
    b_one: int = 0
    b_none: int = 0
    b_zp: int = 0
    b_scale: Scale = Scale.OFF
    b_mult: int = 0
    b_shift: int = 0
    reduce: Reduce = Reduce.NONE
    reduce_loops: int = 0
    reduce_lanes: int = 0
    o_scale: Scale = Scale.OFF
    o_mult: int = 0
    o_shift: int = 0
    o_zp: int = 0
    o_min: int = 0
    o_max: int = 0
    table: Table = Table.OFF
    o_space: Space = Space.SPAD
    o_type: DType = DType.I8
    o_base: int = 0
    param_base: int = 0
    y0: int = 0
    x0: int = 0
    height: int = 1
    width: int = 1
    lane_loop: int = 7
    lanes: int = 1
    lanes_last: int = 1
    loop: Sequence[VectorLoop] = ()

    @property
    def opcode(self) -> Opcode:
        return Opcode.VECTOR


class ArithmeticFields(TypedDict, total=False):
    """Some fields of a Vector: what it computes, but not of which elements."""

    a_type: DType
    a_zp: int
    bias: int
    a_scale: Scale
    a_mult: int
    a_shift: int
    a_clamp: int
    a_min: int
    a_max: int
    a_shl: int
    alu: Alu
    b_type: DType
    b_none: int
    b_zp: int
    b_scale: Scale
    b_mult: int
    b_shift: int
    o_scale: Scale
    o_mult: int
    o_shift: int
    o_zp: int
    o_min: int
    o_max: int
    table: Table
    o_type: DType


class VectorFields(ArithmeticFields, total=False):
    """Some of the fields of a Vector, from which one is put together."""

    a_space: Space
    a_base: int
    a_one: int
    b_base: int
    b_one: int
    reduce: Reduce
    reduce_loops: int
    reduce_lanes: int
    o_space: Space
    o_base: int
    param_base: int
    y0: int
    x0: int
    height: int
    width: int
    lane_loop: int
    lanes: int
    lanes_last: int


Record: TypeAlias = Load | Store | Matrix | Depthwise | Vector
Loop: TypeAlias = DmaLoop | ArrayLoop | VectorLoop

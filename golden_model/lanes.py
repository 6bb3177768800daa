"""The arithmetic of VECTOR on arrays of lanes, int32 with wrap; the last dimension is lanes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model.loops import Ints
from spec.exhaustive import exhaustive
from spec.isa import INTERPOLATED, TABLE_SHIFT, Alu, DType, Reduce, Table
from spec.numerics import interpolate, leading_zeros, multiply

Lanes = NDArray[np.int32]
Fields = dict[str, Any]

_HERE = "golden_model.lanes"

COMBINE: dict[Reduce, np.ufunc] = exhaustive(
    _HERE,
    Reduce,
    {Reduce.SUM: np.add, Reduce.MAX: np.maximum, Reduce.MIN: np.minimum},
    without=[Reduce.NONE],
)
IDENTITY = exhaustive(
    _HERE,
    Reduce,
    {Reduce.SUM: 0, Reduce.MAX: DType.I32.low, Reduce.MIN: DType.I32.high},
    without=[Reduce.NONE],
)
"""What a reduction begins with."""


def _amount(b: Lanes) -> Lanes:
    """How far to shift."""
    return b & np.int32(31)


def _round_right(a: Lanes, b: Lanes) -> Lanes:
    by = _amount(b)
    half = (a >> np.maximum(by - 1, 0)) & np.minimum(by, 1)
    out: Lanes = (a >> by) + half
    return out


def _logical_right(a: Lanes, b: Lanes) -> Lanes:
    return (a.view(np.uint32) >> _amount(b).view(np.uint32)).view(np.int32)


def _leading_zeros(a: Lanes) -> Lanes:
    return leading_zeros(a).astype(np.int32)


UNARY: dict[Alu, Callable[[Lanes], Lanes]] = {
    Alu.PASS: lambda a: a,
    Alu.CLZ: _leading_zeros,
    Alu.ABS: np.abs,
}
BINARY: dict[Alu, Callable[[Lanes, Lanes], Lanes]] = {
    Alu.ADD: np.add,
    Alu.SUB: np.subtract,
    Alu.MIN: np.minimum,
    Alu.MAX: np.maximum,
    Alu.ASR: lambda a, b: a >> _amount(b),
    Alu.ASR_ROUND: _round_right,
    Alu.LSL: lambda a, b: a << _amount(b),
    Alu.LSR: _logical_right,
    Alu.AND: np.bitwise_and,
    Alu.OR: np.bitwise_or,
    Alu.XOR: np.bitwise_xor,
    Alu.EQ: lambda a, b: (a == b).astype(np.int32),
    Alu.GT: lambda a, b: (a > b).astype(np.int32),
    Alu.GE: lambda a, b: (a >= b).astype(np.int32),
}
exhaustive(_HERE, Alu, UNARY, without=BINARY)


def alu(kind: Alu, a: Lanes, b: Lanes | None) -> Lanes:
    """v of A and B; B is None where neither the ALU nor the RESCALE of A uses it."""
    if kind.unary:
        return UNARY[kind](a)
    assert b is not None, f"{kind.name} without B"
    return BINARY[kind](a, b)


def times(value: Lanes, operand: Lanes, shift: int) -> Lanes:
    """A scaled by operand B."""
    return multiply(value, operand, shift).astype(np.int32)


def rescale(value: Lanes, multiplier: Ints | int, shift: Ints | int) -> Lanes:
    """apply_scale of `spec.numerics`, in few passes; shifts are legal."""
    wide = value.astype(np.int64)
    wide *= multiplier
    wide += np.left_shift(np.int64(1), np.subtract(shift, 1))
    wide >>= shift
    return wide.astype(np.int32)


def clamp_and_shift(v: Fields, value: Lanes) -> Lanes:
    """A before the ALU."""
    if v["a_clamp"]:
        value = np.minimum(np.maximum(value, np.int32(v["a_min"])), np.int32(v["a_max"]))
    return value << np.int32(v["a_shl"]) if v["a_shl"] else value


def table_bytes(v: Fields, size: int) -> int:
    """How much of a TABLE of `size` bytes is looked at."""
    return size if v["table"] in INTERPOLATED else 1 << 8


def finish(v: Fields, value: Lanes, table: NDArray[np.uint8]) -> Lanes:
    """Zero point, clamp, table."""
    if v["o_zp"]:
        value = value + np.int32(v["o_zp"])
    value = np.minimum(np.maximum(value, np.int32(v["o_min"])), np.int32(v["o_max"]))
    return LOOK_UP[v["table"]](value, table)


LOOK_UP: dict[Table, Callable[[Lanes, NDArray[np.uint8]], Lanes]] = exhaustive(
    _HERE,
    Table,
    {
        Table.OFF: lambda value, table: value,
        Table.I8: lambda value, table: table.view(np.int8)[(value + 128) & 0xFF].astype(np.int32),
        Table.I16: lambda value, table: interpolate(table.view("<i2"), value).astype(np.int32),
        Table.I16_I8: lambda value, table: (
            interpolate(table.view("<i2"), value) >> TABLE_SHIFT
        ).astype(np.int32),
    },
)
"""Results from their index; the TABLE's bytes."""

"""Elementwise operators, conversions and TABLE.

Where the specification leaves a result undefined (a sum that overflows, a shift count beyond the
type, a division by zero) these functions give what the device gives: two's complement wrap, and for
INTDIV by zero −1 or 1 as 32 restoring steps do.
"""

from collections.abc import Callable, Mapping

import numpy as np

from spec.numerics import apply_scale, wrap32
from sw.compiler.tosa.graph import DTYPES, Op
from sw.compiler.tosa.semantics.arrays import (
    LIMITS,
    Array,
    Evaluate,
    Int,
    as_unsigned,
    scalar,
    wide,
)

Function = Callable[[Int, Int], Int]


def _binary(function: Function) -> Evaluate:
    def run(op: Op, args: list[Array], dtype: str) -> Array:
        return function(wide(args[0]), wide(args[1])).astype(DTYPES[dtype])

    return run


def _intdiv(a: Int, b: Int) -> Int:
    """Rounded towards zero."""
    divisor = np.where(b == 0, 1, np.abs(b))
    quotient = np.where(b == 0, (1 << 32) - 1, np.abs(a) // divisor)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def _right_shift(op: Op, args: list[Array], dtype: str) -> Array:
    a, b = wide(args[0]), wide(args[1]) & 31
    result = a >> b
    if op.attributes["round"]:
        result += np.where(b > 0, (a >> np.maximum(b - 1, 0)) & 1, 0)
    return result.astype(DTYPES[dtype])


def _logical_right_shift(op: Op, args: list[Array], dtype: str) -> Array:
    return (wide(as_unsigned(args[0])) >> (wide(args[1]) & 31)).astype(DTYPES[dtype])


def _mul(op: Op, args: list[Array], _: str) -> Int:
    shift = scalar(args[2])
    a, b = wide(args[0]), wide(args[1])
    if shift == 0:
        return wrap32(a * b)
    product = a * b
    # Half a unit is added, without overflowing 64 bits: the bit below the cut says it.
    return wrap32((product >> shift) + ((product >> (shift - 1)) & 1))


def _clz(op: Op, args: list[Array], _: str) -> Int:
    value = wide(as_unsigned(args[0]))
    leading = np.full(value.shape, 32, np.int64)
    for bit in range(32):
        leading -= value >= 1 << bit
    return leading


def _negate(op: Op, args: list[Array], dtype: str) -> Int:
    value, input_zp, output_zp = args
    return np.clip(scalar(output_zp) - (wide(value) - scalar(input_zp)), *LIMITS[dtype])


def _rescale(op: Op, args: list[Array], dtype: str) -> Int:
    x, multiplier, shift, input_zp, output_zp = args
    from_unsigned, to_unsigned = op.attributes["input_unsigned"], op.attributes["output_unsigned"]
    value = wide(as_unsigned(x) if from_unsigned else x)
    value -= scalar(input_zp, unsigned=from_unsigned)
    low, high = LIMITS[dtype]
    if to_unsigned:
        low, high = 0, high - low
    scaled = apply_scale(value, wide(multiplier), wide(shift))
    return np.clip(scaled + scalar(output_zp, unsigned=to_unsigned), low, high)


def _clamp(op: Op, args: list[Array], _: str) -> Int:
    return np.clip(wide(args[0]), op.attributes["min_val"], op.attributes["max_val"])


def _table(op: Op, args: list[Array], dtype: str) -> Array:
    value, table = wide(args[0]), wide(args[1])
    if dtype == "int8":
        return np.asarray(table[value + 128])
    index, fraction = (value + 32768) >> 7, value & 127
    return (table[index] << 7) + (table[index + 1] - table[index]) * fraction


def _select(op: Op, args: list[Array], _: str) -> Array:
    chosen, yes, no = args
    return np.where(chosen, yes, no)


def _cast(op: Op, args: list[Array], dtype: str) -> Array:
    return np.asarray(args[0] != 0) if dtype == "bool" else args[0].astype(DTYPES[dtype])


ELEMENTWISE: Mapping[str, Evaluate] = {
    "ADD": _binary(np.add),
    "SUB": _binary(np.subtract),
    "MAXIMUM": _binary(np.maximum),
    "MINIMUM": _binary(np.minimum),
    "INTDIV": _binary(_intdiv),
    "MUL": _mul,
    "BITWISE_AND": _binary(np.bitwise_and),
    "BITWISE_OR": _binary(np.bitwise_or),
    "BITWISE_XOR": _binary(np.bitwise_xor),
    "LOGICAL_AND": _binary(np.bitwise_and),
    "LOGICAL_OR": _binary(np.bitwise_or),
    "LOGICAL_XOR": _binary(np.bitwise_xor),
    "LOGICAL_LEFT_SHIFT": _binary(lambda a, b: a << (b & 31)),
    "LOGICAL_RIGHT_SHIFT": _logical_right_shift,
    "ARITHMETIC_RIGHT_SHIFT": _right_shift,
    "EQUAL": _binary(np.equal),
    "GREATER": _binary(np.greater),
    "GREATER_EQUAL": _binary(np.greater_equal),
    "ABS": lambda op, args, _: wrap32(np.abs(wide(args[0]))),
    "CLZ": _clz,
    "BITWISE_NOT": lambda op, args, _: np.invert(args[0]),
    "LOGICAL_NOT": lambda op, args, _: np.logical_not(args[0]),
    "NEGATE": _negate,
    "SELECT": _select,
    "CAST": _cast,
    "RESCALE": _rescale,
    "CLAMP": _clamp,
    "TABLE": _table,
}

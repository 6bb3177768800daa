"""Elementwise operators, conversions and TABLE.

Where the specification leaves a result undefined (a sum that overflows, a shift count beyond the
type, a division by zero) these functions give what the device gives: two's complement wrap, and for
INTDIV by zero −1 or 1 as 32 restoring steps do.
"""

from collections.abc import Callable

import numpy as np

from spec.numerics import apply_scale, wrap32
from sw.compiler.tosa.nodes import DTYPES, Op
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


def binary(function: Function) -> Evaluate:
    def run(op: Op, args: list[Array], dtype: str) -> Array:
        return function(wide(args[0]), wide(args[1])).astype(DTYPES[dtype])

    return run


def intdiv(a: Int, b: Int) -> Int:
    """Rounded towards zero."""
    divisor = np.where(b == 0, 1, np.abs(b))
    quotient = np.where(b == 0, (1 << 32) - 1, np.abs(a) // divisor)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def right_shift(op: Op, args: list[Array], dtype: str) -> Array:
    a, b = wide(args[0]), wide(args[1]) & 31
    result = a >> b
    if op.attributes["round"]:
        result += np.where(b > 0, (a >> np.maximum(b - 1, 0)) & 1, 0)
    return result.astype(DTYPES[dtype])


def logical_right_shift(op: Op, args: list[Array], dtype: str) -> Array:
    return (wide(as_unsigned(args[0])) >> (wide(args[1]) & 31)).astype(DTYPES[dtype])


def mul(op: Op, args: list[Array], _: str) -> Int:
    shift = scalar(args[2])
    a, b = wide(args[0]), wide(args[1])
    if shift == 0:
        return wrap32(a * b)
    product = a * b
    # Half a unit is added, without overflowing 64 bits: the bit below the cut says it.
    return wrap32((product >> shift) + ((product >> (shift - 1)) & 1))


def clz(op: Op, args: list[Array], _: str) -> Int:
    value = wide(as_unsigned(args[0]))
    leading = np.full(value.shape, 32, np.int64)
    for bit in range(32):
        leading -= value >= 1 << bit
    return leading


def negate(op: Op, args: list[Array], dtype: str) -> Int:
    value, input_zp, output_zp = args
    return np.clip(scalar(output_zp) - (wide(value) - scalar(input_zp)), *LIMITS[dtype])


def rescale(op: Op, args: list[Array], dtype: str) -> Int:
    x, multiplier, shift, input_zp, output_zp = args
    from_unsigned, to_unsigned = op.attributes["input_unsigned"], op.attributes["output_unsigned"]
    value = wide(as_unsigned(x) if from_unsigned else x)
    value -= scalar(input_zp, unsigned=from_unsigned)
    low, high = LIMITS[dtype]
    if to_unsigned:
        low, high = 0, high - low
    scaled = apply_scale(value, wide(multiplier), wide(shift))
    offset = scalar(output_zp, unsigned=to_unsigned)
    # The multiplier is a vector, which would make one of a tensor of rank 0.
    return np.clip(scaled + offset, low, high).reshape(x.shape)


def clamp(op: Op, args: list[Array], _: str) -> Int:
    return np.clip(wide(args[0]), op.attributes["min_val"], op.attributes["max_val"])


def table(op: Op, args: list[Array], dtype: str) -> Array:
    value, table = wide(args[0]), wide(args[1])
    if dtype == "int8":
        return np.asarray(table[value + 128])
    index, fraction = (value + 32768) >> 7, value & 127
    return (table[index] << 7) + (table[index + 1] - table[index]) * fraction


def select(op: Op, args: list[Array], _: str) -> Array:
    chosen, yes, no = args
    return np.where(chosen, yes, no)


def cast(op: Op, args: list[Array], dtype: str) -> Array:
    return np.asarray(args[0] != 0) if dtype == "bool" else args[0].astype(DTYPES[dtype])


def left_shift(a: Int, b: Int) -> Int:
    """By the low five bits of `b`."""
    return a << (b & 31)


def absolute(op: Op, args: list[Array], _: str) -> Int:
    return wrap32(np.abs(wide(args[0])))


def bitwise_not(op: Op, args: list[Array], _: str) -> Array:
    return np.invert(args[0])


def logical_not(op: Op, args: list[Array], _: str) -> Array:
    return np.logical_not(args[0])

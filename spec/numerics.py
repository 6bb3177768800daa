"""Bit-exact integer arithmetic: the TOSA 1.0 integer profile (section 2.4 and the operators).

Arrays in, arrays out; everything is computed in int64 and is exact.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.exhaustive import exhaustive
from spec.isa import TABLE_SHIFT, DType

Int = NDArray[np.int64]
AnyInt = NDArray[np.signedinteger[Any]]

RANGES: dict[DType, tuple[int, int]] = {kind: (kind.low, kind.high) for kind in DType}
NUMPY: dict[DType, type[np.generic]] = exhaustive(
    "spec.numerics.NUMPY",
    DType,
    {
        DType.I8: np.int8,
        DType.U8: np.uint8,
        DType.I16: np.int16,
        DType.U16: np.uint16,
        DType.I32: np.int32,
    },
)
SHIFT_MIN, SHIFT_MAX = 2, 62
SUMMANDS = 1 << 16
"""Values of int16 whose sum always fits in int32."""


def wrap32(x: Int) -> Int:
    """Two's complement of the low 32 bits."""
    return x.astype(np.int64).astype(np.int32).astype(np.int64)


def apply_scale(value: Int, multiplier: Int | int, shift: Int | int) -> Int:
    """TOSA apply_scale_32 with single rounding: (value·multiplier + 2^(shift−1)) >> shift.

    `value` and `multiplier` are int32, 2 <= shift <= 62. The product and sum are 64-bit; the
    result is the low 32 bits (the specification requires that it fits).
    """
    return wrap32(scaled(value, multiplier, shift))


def scaled(value: Int, multiplier: Int | int, shift: Int | int) -> Int:
    """The 64-bit result of which `apply_scale` takes the low 32 bits."""
    s = np.asarray(shift, np.int64)
    product = np.asarray(value, np.int64) * np.asarray(multiplier, np.int64)
    return (product + (np.int64(1) << (s - 1))) >> s


def multiply(a: AnyInt, b: AnyInt, shift: int) -> Int:
    """TOSA MUL: (a·b + 2^(shift−1)) >> shift of int32, 0 <= shift <= 63; its low 32 bits."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    # Halves first: the sum of the formula may have 65 bits.
    return wrap32(((product >> (shift - 1)) + 1) >> 1 if shift else product)


def leading_zeros(x: AnyInt) -> Int:
    """TOSA CLZ: zero bits above the highest one of 32."""
    _, bits = np.frexp((np.asarray(x, np.int64) & 0xFFFF_FFFF).astype(np.float64))
    return 32 - bits.astype(np.int64)


def interpolate(table: AnyInt, x: AnyInt) -> Int:
    """TOSA TABLE of int16: 513 entries, 128 values between two; results have 23 bits.

    `x` in -32768...32767.
    """
    wide = np.asarray(x, np.int64)
    index, fraction = (wide + 32768) >> 7, wide & 127
    base = table[index].astype(np.int64)
    return (base << 7) + (table[index + 1].astype(np.int64) - base) * fraction


def short_table(
    table: AnyInt, multiplier: int, shift: int, output_zp: int
) -> NDArray[np.int16] | None:
    """Entries whose interpolated values, without their TABLE_SHIFT lower bits, are what RESCALE to
    int8 makes of those of `table`; None where int16 has no such entries.

    A value is an affine function of two entries, so a factor and an offset of it are those of the
    entries. A RESCALE by a power of two is (value + half) >> shift, plus its zero point.
    """
    if multiplier <= 0 or multiplier & (multiplier - 1):
        return None
    finer = TABLE_SHIFT - (shift - multiplier.bit_length() + 1)
    if not 0 <= finer < TABLE_SHIFT:
        return None
    unit = 1 << TABLE_SHIFT - 7
    moved = (np.asarray(table, np.int64) << finer) + output_zp * unit + unit // 2
    low, high = RANGES[DType.I16]
    if moved.min() < low or moved.max() > high:
        return None
    return moved.astype(np.int16)


def rescale(
    x: Int, multiplier: Int | int, shift: Int | int, input_zp: int, output_zp: int, out: DType
) -> Int:
    """TOSA RESCALE (scale32, SINGLE_ROUND): values of type `out`, as int64."""
    low, high = RANGES[out]
    return np.clip(apply_scale(x - input_zp, multiplier, shift) + output_zp, low, high)


def keeps_values(multiplier: int, shift: int) -> bool:
    """Whether a RESCALE is by exactly 1."""
    return multiplier == 1 << shift


def reciprocal_scale(count: int) -> tuple[int, int]:
    """TOSA reciprocal_scale: (multiplier, shift) that divide by `count` (AVG_POOL2D)."""
    if count < 1:
        raise ValueError(f"reciprocal_scale: count {count} must be at least 1")
    k = (count - 1).bit_length()
    return (((1 << 30) + 1) << k) // count, 30 + k


class ScaleError(ValueError):
    """A factor that no RESCALE multiplies by."""


def scale_to_multiplier(scale: float) -> tuple[int, int]:
    """(multiplier, shift) with 2^30 <= multiplier < 2^31 and multiplier / 2^shift ~ scale.

    Exact Python integers throughout. Scales too small for shift 62 lose multiplier bits; scales
    of 2^29 and more raise ScaleError.
    """
    if not math.isfinite(scale) or scale <= 0:
        raise ScaleError(f"scale {scale!r} must be positive and finite")
    mantissa, exponent = math.frexp(scale)
    multiplier = round(mantissa * (1 << 31))
    shift = 31 - exponent
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift - 1
    if shift > SHIFT_MAX:
        multiplier, shift = multiplier >> min(31, shift - SHIFT_MAX), SHIFT_MAX
    if shift < SHIFT_MIN:
        raise ScaleError(f"scale {scale:.4g} is too large, RESCALE multiplies by less than 2^29")
    return multiplier, shift

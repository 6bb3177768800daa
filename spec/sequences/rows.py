"""Reciprocals and reciprocal square roots of int32 values: CLZ, a shift, TABLE, a shift.

Each returns (name, factor): the result is about `name` · factor. Values are normalized to a
mantissa by their own leading zeros, the table interpolates the function of the mantissa, and the
exponent goes back in by a shift.
"""

import math

import numpy as np

from spec.sequences.base import Sequence
from spec.sequences.unary import STEP, entries16

_ONE = 1 << 15


def leading_zeros(value: int) -> int:
    """Of a positive int32."""
    return 32 - value.bit_length()


def reciprocal(s: Sequence, v: str, rank: int, low: int, high: int) -> tuple[str, float]:
    """1 / v for int32 v in low…high (1 ≤ low): 5 operators, or 6 where high / low exceeds 2^8.

    Relative error at most 2^−14 where high / low ≤ 2^8, else 2^−14 + (high / low)·2^−30; the result
    is below 2^31.
    """
    if not 1 <= low <= high < 1 << 31:
        raise ValueError(f"reciprocal of {low}…{high}: needs 1 <= low <= high < 2^31")
    fewest = leading_zeros(high)
    spread = leading_zeros(low) - fewest
    # v << clz is 2^31·m with 1 <= m < 2; as a signed number that is 2^31·(m − 2), and adding 2^30
    # centres it. The table is over t = 2^16·(m − 1.5).
    zeros = s.op("CLZ", v)
    mantissa = s.op("LOGICAL_LEFT_SHIFT", v, zeros)
    centred = s.op("ADD", mantissa, s.scalar(1 << 30, rank))
    t = s.rescale(centred, 2.0**-15, "int16")
    entries, step = entries16(lambda x: 1 / (1.5 + x), 2.0**-16)
    wide = s.table16(t, entries)
    lost = max(0, spread - 8)
    if lost:
        wide = s.rescale(wide, 2.0**-lost, "int32")
    by = s.op("SUB", zeros, s.scalar(fewest, rank))
    r = s.op("LOGICAL_LEFT_SHIFT", wide, by)
    return r, step / STEP * 2.0 ** (lost + fewest - 31)


def rsqrt(s: Sequence, v: str, rank: int) -> tuple[str, float]:
    """1 / √v for int32 v ≥ 0: 9 operators, relative error at most 2^−13; 0 counts as 1/2.

    The result is at most 2^30 and at least 2^14.
    """
    less = s.op("SUB", s.op("CLZ", v), s.scalar(1, rank))
    even = s.op("BITWISE_AND", less, s.scalar(30, rank))
    mantissa = s.op("LOGICAL_LEFT_SHIFT", v, even)  # 2^29 … 2^31
    t = s.rescale(s.op("SUB", mantissa, s.scalar(1 << 30, rank)), 2.0**-15, "int16")
    # Below a mantissa of 1/2 there is only v = 0: a constant keeps the entries' range small.
    entries, step = entries16(lambda x: 1 / np.sqrt(np.maximum(1 + x, 0.5)), 2.0**-15)
    wide = s.op("LOGICAL_LEFT_SHIFT", s.table16(t, entries), s.scalar(8, rank))
    half = s.rescale(s.op("SUB", s.scalar(30, rank), even), 0.5, "int32")
    r = s.op("ARITHMETIC_RIGHT_SHIFT", wide, half, round=True)
    # v = mantissa · 2^−even, so 1/√v = table · 2^−15 · 2^(even/2), and wide was shifted up by 8.
    return r, step / STEP * 2.0**-8


def shift_for(limit: float, bits: int = 30) -> int:
    """The MUL shift that brings magnitudes up to `limit` below 2^bits."""
    return max(0, math.ceil(math.log2(limit)) - bits)

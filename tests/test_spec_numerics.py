"""Numerics against Python's unbounded integers, and against TOSA's pseudo-code written out."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.isa import DType
from spec.numerics import (
    NUMPY,
    RANGES,
    SHIFT_MAX,
    apply_scale,
    reciprocal_scale,
    rescale,
    scale_to_multiplier,
    wrap32,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
MULTIPLIER = st.integers(0, (1 << 31) - 1)
SHIFT = st.integers(2, 62)


def wrapped(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def scaled(value: int, multiplier: int, shift: int) -> int:
    return wrapped((value * multiplier + (1 << (shift - 1))) >> shift)


@given(st.integers(-(1 << 62), 1 << 62))
def test_wrap32_is_twos_complement(value):
    assert int(wrap32(np.array(value))) == wrapped(value)


@given(INT32, MULTIPLIER, SHIFT)
@settings(max_examples=500)
def test_apply_scale_equals_unbounded_arithmetic(value, multiplier, shift):
    assert int(apply_scale(np.array(value), multiplier, shift)) == scaled(value, multiplier, shift)


@given(INT32, INT32, SHIFT)
def test_apply_scale_takes_negative_multipliers(value, multiplier, shift):
    assert int(apply_scale(np.array(value), multiplier, shift)) == scaled(value, multiplier, shift)


@pytest.mark.parametrize("value", [-(1 << 31), -1, 0, 1, (1 << 31) - 1])
@pytest.mark.parametrize("multiplier", [0, 1, 1 << 30, (1 << 31) - 1])
@pytest.mark.parametrize("shift", [2, 31, 32, 61, 62])
def test_apply_scale_at_the_corners(value, multiplier, shift):
    assert int(apply_scale(np.array(value), multiplier, shift)) == scaled(value, multiplier, shift)


def test_apply_scale_rounds_halves_up():
    values = np.array([-3, -2, -1, 1, 2, 3])
    assert apply_scale(values, 2, 2).tolist() == [-1, -1, 0, 1, 1, 2]  # × 1/2


def test_apply_scale_per_channel_broadcasts():
    x = np.array([[100, 100], [-100, -100]])
    got = apply_scale(x, np.array([1 << 30, 1 << 30]), np.array([30, 31]))
    assert got.tolist() == [[100, 50], [-100, -50]]


@given(st.sampled_from(list(DType)), st.lists(INT32, min_size=1, max_size=8), MULTIPLIER, SHIFT,
       st.integers(-128, 255), st.integers(-128, 127))  # fmt: skip
@settings(max_examples=300)
def test_rescale_equals_unbounded_arithmetic(out, values, multiplier, shift, zp_in, zp_out):
    # TOSA requires that value − zero point fits int32.
    values = [min(max(v, -(1 << 31) + 256), (1 << 31) - 257) for v in values]
    low, high = RANGES[out]
    want = [min(max(scaled(v - zp_in, multiplier, shift) + zp_out, low), high) for v in values]
    got = rescale(np.array(values), multiplier, shift, zp_in, zp_out, out)
    assert got.tolist() == want
    assert got.astype(NUMPY[out]).astype(np.int64).tolist() == want


@given(st.integers(1, 4096), st.integers(-(1 << 18), 1 << 18))
@settings(max_examples=500)
def test_reciprocal_scale_divides_to_the_nearest(count, total):
    multiplier, shift = reciprocal_scale(count)
    assert 0 < multiplier < 1 << 31
    assert 2 <= shift <= 62
    got = int(apply_scale(np.array(total), multiplier, shift))
    assert abs(got - Fraction(total, count)) <= Fraction(1, 2) + Fraction(abs(total), 1 << 29)


def test_reciprocal_scale_of_known_counts():
    # From the specification's pseudo-code, computed by hand: k = 32 − clz(n − 1).
    assert reciprocal_scale(1) == ((1 << 30) + 1, 30)
    assert reciprocal_scale(2) == ((1 << 30) + 1, 31)
    assert reciprocal_scale(3) == (4 * ((1 << 30) + 1) // 3, 32)
    assert reciprocal_scale(4) == ((1 << 30) + 1, 32)
    with pytest.raises(ValueError, match=r"^reciprocal_scale: count 0 must be at least 1$"):
        reciprocal_scale(0)


@given(st.floats(1e-9, 2.0**28, allow_nan=False))
@settings(max_examples=500)
def test_scale_to_multiplier_is_within_half_a_unit(scale):
    multiplier, shift = scale_to_multiplier(scale)
    assert 1 << 30 <= multiplier < 1 << 31 or shift == SHIFT_MAX
    assert 2 <= shift <= 62
    exact = Fraction(scale) * (1 << shift)
    assert abs(multiplier - exact) <= 1


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_scale_must_be_positive_and_finite(scale):
    with pytest.raises(ValueError, match=r"must be positive and finite$"):
        scale_to_multiplier(scale)


def test_scale_limits():
    assert scale_to_multiplier(1.0) == (1 << 30, 30)
    assert scale_to_multiplier(0.5) == (1 << 30, 31)
    assert scale_to_multiplier(1 - 2.0**-40) == (1 << 30, 30)  # rounds up to a power of two
    assert scale_to_multiplier(2.0**-80) == (0, 62)
    with pytest.raises(ValueError, match=r"is too large, RESCALE multiplies by less than 2\^29$"):
        scale_to_multiplier(2.0**29)


def test_ranges_match_the_array_types():
    for kind in DType:
        info = np.iinfo(NUMPY[kind])
        assert RANGES[kind] == (info.min, info.max)
        assert np.dtype(NUMPY[kind]).itemsize == kind.bytes

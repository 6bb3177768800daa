"""Softmax along the last axis: four passes over the values, the rest over one value a row.

    m = RESCALE(REDUCE_MAX(x));  e = TABLE(RESCALE(x) − m);  Σ = REDUCE_SUM(e)
    p = RESCALE(e · (1/Σ))

A sum with a mask comes before. Masked entries are exactly zero.

Largest error against float64 of the softmax of the integers: half a step of the output plus
2^−11 · p (measured: 0.6 · out_scale for int8, 5e-4 · p for int16).
"""

import math
from collections.abc import Sequence as Items

import numpy as np

from spec.sequences.base import Sequence, shape_of_rows
from spec.sequences.rows import reciprocal, shift_for
from spec.sequences.unary import STEP, entries16

INT8_SCALE, INT8_ZERO_POINT = 1 / 256, -128
"""Probabilities in int8: (q + 128) / 256. 1 saturates at 255/256."""

_WEIGHT_PEAK = 255 * STEP
"""The table's entry of e^0 where the results are int8 weights: 255 of them."""

MASKED = 1 << 26
"""How far below the others a masked score lies, in steps of the exponential's table."""


def exponent_range(keys: int) -> tuple[int, float]:
    """(table entry of e^0, R): sums of `keys` exponentials fit in int32, e^−R rounds to entry 0."""
    peak = min(32767, ((1 << 31) - 1) // (STEP * keys))
    if peak < 64:
        raise ValueError(f"softmax over {keys} values: at most {((1 << 31) - 1) // (STEP * 64)}")
    return peak, reach_of(peak)


def reach_of(peak: int) -> float:
    """R: e^−R rounds to entry 0 where e^0 has entry `peak`."""
    return math.log(2 * peak) + 0.01


def mask_value(in_scale: float, keys: int) -> int:
    """What to add to an int32 score of scale `in_scale` so that its probability is exactly 0."""
    ratio = in_scale * 32768 / exponent_range(keys)[1]
    return -min(1 << 29, max(1, math.ceil(MASKED / ratio)))


def attention_weights(
    shape: Items[int], in_scale: float, *, in_dtype: str = "int32", mask: bool = False
) -> tuple[Sequence, float]:
    """Softmax whose division waits until after the product with the values.

    Results: int8 weights w of zero point −128 in steps of 1/255 of the row's largest (which is
    255), and int32 r for each row; then softmax · v = (Σ w·v) · r · factor. Four passes over the
    scores; the weights use all of int8 in every row and sum to one exactly as rounded.
    """
    s = Sequence()
    keys, rank = shape[-1], len(shape)
    # A RESCALE by a power of two can be a part of the TABLE.
    e = _exponentials(s, shape, in_scale, in_dtype, mask, _WEIGHT_PEAK)
    w = s.rescale(e, 255 / (_WEIGHT_PEAK * STEP), "int8", output_zp=INT8_ZERO_POINT)
    centred = s.rescale(w, 1.0, "int32", input_zp=INT8_ZERO_POINT)
    total = s.op("REDUCE_SUM", centred, axis=rank - 1)
    rows, packed = shape_of_rows(shape)
    inverse, factor = reciprocal(s, s.reshape(total, packed), rank, 255, 255 * keys)
    s.outputs = [w, s.reshape(inverse, rows)]
    return s, factor


def _exponentials(
    s: Sequence, shape: Items[int], in_scale: float, in_dtype: str, mask: bool, peak: int
) -> str:
    """int32 e^(x − max); peak: the table's entry of e^0."""
    x = s.cast(s.input("x", in_dtype), "int32")
    axis = len(shape) - 1
    if mask:
        x = s.op("ADD", x, s.input("mask", "int32"))
    reach = reach_of(peak)
    # Both operands of SUB are rescaled, not its result: a step of the vector engine rescales two
    # values in two cycles, which TABLE takes anyway, and three in three.
    ratio = in_scale * 32768 / reach
    top = s.rescale(s.op("REDUCE_MAX", x, axis=axis), ratio, "int32")
    below = s.rescale(s.op("SUB", s.rescale(x, ratio, "int32"), top), 1.0, "int16")
    entries, _ = entries16(lambda v: np.exp(np.minimum(v, 0)), reach / 32768, peak)
    return s.table16(below, entries)


def softmax(
    shape: Items[int],
    in_scale: float,
    *,
    in_dtype: str = "int32",
    out_dtype: str = "int8",
    out_scale: float = INT8_SCALE,
    out_zp: int = INT8_ZERO_POINT,
    mask: bool = False,
) -> Sequence:
    """Of `shape`, along its last axis.

    `mask`: a second input, int32 of the scores' scale (`mask_value` masks a position), is added;
    it broadcasts. int16 output has scale `out_scale` and zero point 0.
    """
    s = Sequence()
    keys, rank = shape[-1], len(shape)
    peak, _ = exponent_range(keys)
    e = _exponentials(s, shape, in_scale, in_dtype, mask, peak)
    total = s.op("REDUCE_SUM", e, axis=rank - 1)
    rows, packed = shape_of_rows(shape)
    low = peak * STEP
    inverse, factor = reciprocal(s, s.reshape(total, packed), rank, low, low * keys)
    inverse = s.reshape(inverse, rows)
    shift = shift_for(1 / factor)
    p = s.mul(e, inverse, shift)
    s.outputs = [s.rescale(p, factor * 2.0**shift / out_scale, out_dtype, output_zp=out_zp)]
    return s

"""Per-row dynamic quantization: int16 values to int8 with a scale for each row."""

from collections.abc import Sequence as Items

from spec.sequences.base import Float, Sequence, shape_of_rows
from spec.sequences.rows import reciprocal, shift_for


def quantize_rows(shape: Items[int], ratios: Float | None = None) -> Sequence:
    """int8 q and the row's int32 magnitude m: x[…, c]·ratios[c] ≈ q · m / 127.

    `ratios` (per channel, at most 1, 1 where None) smooth the values first. Two passes: the row's
    largest magnitude, then the product with its reciprocal. Error of q: 1/2 + 127·2^−13.
    """
    s = Sequence()
    x = s.input("x", "int16")
    # int16 holds them all, and half as many bytes are moved.
    smooth = s.cast(x if ratios is None else s.rescale(x, ratios, "int16"), "int32")
    rank = len(shape)
    largest = s.op("REDUCE_MAX", s.op("ABS", smooth), axis=rank - 1)
    rows, packed = shape_of_rows(shape)
    m = s.op("MAXIMUM", s.reshape(largest, packed), s.scalar(1, rank))
    inverse, factor = reciprocal(s, m, rank, 1, 32768)
    shift = shift_for(1.01 / factor)
    q = s.mul(smooth, s.reshape(inverse, rows), shift)
    s.outputs = [s.rescale(q, 127 * factor * 2.0**shift, "int8"), s.reshape(m, rows)]
    return s

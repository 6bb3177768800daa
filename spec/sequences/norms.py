"""Norms of int16 values: layer norm and RMS norm along the last axis, group norm.

    layer:  m = RESCALE(REDUCE_SUM(x));  d = x − m;  n = d · rsqrt(Σd²)                4 passes
    RMS:                                             n = x · rsqrt(REDUCE_SUM(x·x >> k))   2 passes

Σd² is REDUCE_SUM(d·x >> k) − (m·Σd >> k), and Σd what rounding the mean has left: products of two
different values take one pass less on a machine whose second operand comes from slower memory.
Then y = γ·(n + β/γ): the sum and a product with γ are one pass. Where β/γ is far larger than n,
y = γ·n + β: the RESCALE by γ rides behind n, the sum is one pass.

A group of a group norm is a row: some channels of all pixels. Channels stay innermost: sums are of
each channel first, and what belongs to a group meets its channels again as a vector of channels.

Largest error against float64 of y for |γ| ≤ 2, relative to 1 + max|y| / 8, by the row's standard
deviation in steps of the input: 0.02 at 128 steps, 0.004 at 1000, 0.002 at 6000. What remains
comes from the mean, which is rounded to a step, and from squares that lose their low bits where the
deviation is small: in rows of more than 2^16 values, 0.02 at 1000 steps. Differences from the mean
saturate at int16.
"""

import math
from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np

from spec.numerics import SUMMANDS
from spec.sequences.base import Float, Sequence, shape_of_rows
from spec.sequences.rows import rsqrt, shift_for

_FAR = 64
"""How many times as large as n β/γ may be: n has as many times fewer steps."""

_FINE = 256
"""Steps of γ·n + β before it is rounded, for each step of the output."""


@dataclass(frozen=True)
class Rows:
    """Rows along the last axis of `shape`. Statistics are `packed` for arithmetic on them."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.shape[-1]

    @property
    def packed_shape(self) -> tuple[int, ...]:
        return shape_of_rows(self.shape)[1]

    def widened(self, s: Sequence, x: str) -> str:
        """As int32, once for all that a tile of whole rows needs."""
        made = (each.output for each in s.steps if each.kind == "CAST" and each.inputs == (x,))
        return next(made, None) or s.cast(x, "int32")

    def total(self, s: Sequence, values: str, dropped: int = 0) -> str:
        """The sum of each row, in units of 2^dropped."""
        values = _less(s, values, dropped)
        return s.op("REDUCE_SUM", values, axis=len(self.shape) - 1)

    def products(self, s: Sequence, a: str, b: str, shift: int) -> str:
        """The sum of a·b of each row, in units of 2^shift."""
        return self.total(s, s.mul(self.widened(s, a), self.widened(s, b), shift))

    def packed(self, s: Sequence, statistic: str) -> str:
        return s.reshape(statistic, self.packed_shape)

    def unpacked(self, s: Sequence, statistic: str) -> str:
        """A packed statistic, in the form in which elements meet it."""
        return s.reshape(statistic, shape_of_rows(self.shape)[0])

    def beside(self, s: Sequence, mean: str) -> str:
        """The mean of each row, in the form in which elements meet it."""
        return mean


@dataclass(frozen=True)
class Groups(Rows):
    """Rows of `shape` (samples, pixels, channels): a group of channels in all pixels."""

    count: int

    @property
    def channels(self) -> int:
        """Of a group."""
        return self.shape[2] // self.count

    @property
    def size(self) -> int:
        return self.shape[1] * self.channels

    @property
    def packed_shape(self) -> tuple[int, ...]:
        return (1, 1, self.shape[0] * self.count)

    def widened(self, s: Sequence, x: str) -> str:
        # Each pass over memory widens what it reads.
        return s.cast(x, "int32")

    def total(self, s: Sequence, values: str, dropped: int = 0) -> str:
        before = min(dropped, _dropped(self.shape[1]))
        return self._of_groups(s, _less(s, values, before), dropped - before)

    def products(self, s: Sequence, a: str, b: str, shift: int) -> str:
        # Sums of a channel have room for more bits than those of a group.
        late = min(shift, self.channels.bit_length() - 1)
        values = s.mul(self.widened(s, a), self.widened(s, b), shift - late)
        return self._of_groups(s, values, late)

    def _of_groups(self, s: Sequence, values: str, dropped: int) -> str:
        """The sum of each group; the sums of its channels lose low bits."""
        total = _less(s, s.op("REDUCE_SUM", values, axis=1), dropped)
        if self.channels == 1:
            return total
        total = s.reshape(total, (self.shape[0], self.count, self.channels))
        return s.op("REDUCE_SUM", total, axis=2)

    def unpacked(self, s: Sequence, statistic: str) -> str:
        samples, _, channels = self.shape
        if self.channels > 1:
            statistic = s.reshape(statistic, (samples, self.count, 1))
            zeros = s.constant(np.zeros((1, 1, self.channels)), "int32")
            statistic = s.op("ADD", statistic, zeros)
        return s.reshape(statistic, (samples, 1, channels))

    def beside(self, s: Sequence, mean: str) -> str:
        # A mean of int16 has 16 bits: a vector of them is half as many words to read.
        spread = mean if self.channels == 1 else self.unpacked(s, mean)
        return s.cast(s.rescale(spread, 1.0, "int16"), "int32")


def _dropped(size: int) -> int:
    """Low bits that a sum of so many int16 must do without."""
    return max(0, (size - 1).bit_length() - (SUMMANDS.bit_length() - 1))


def _less(s: Sequence, values: str, bits: int) -> str:
    return s.rescale(values, 2.0**-bits, "int32") if bits else values


def _reach(size: int, in_scale: float, eps: float) -> float:
    """Bound of |n|: √size, or what the largest difference is beside √eps where that is less."""
    most = 2.0**15 * in_scale
    return most / math.sqrt(eps) if most * most < size * eps else math.sqrt(size)


def normalized(
    s: Sequence,
    x: str,
    rows: Rows,
    in_scale: float,
    eps: float,
    *,
    centre: bool,
    reach: float,
) -> tuple[str, float]:
    """(int32 n, real value of one step of it); `centre` subtracts the mean (layer norm). reach:
    what has fewer than 2^30 steps, n at least.
    """
    size, rank = rows.size, len(rows.shape)
    k = size.bit_length() - 1  # size · 2^30 >> k stays below 2^31
    smallest = eps * size / in_scale**2
    if smallest > 2.0 ** (k + 20):
        # Σd² >> k and eps stay below 2^30 each. Bits that this takes from the products are nothing
        # beside eps: the smaller the variance, the nearer n = d / √eps.
        k = max(k + 1, math.frexp(smallest)[1] - 30)
    by = min(k, 62)  # leaves nothing of any product, as every k above 31
    dropped = _dropped(size)
    narrow = x
    if centre:
        # Mean and difference in one RESCALE each; the difference saturates at int16.
        total = rows.total(s, rows.widened(s, x), dropped)
        mean = s.rescale(total, 2.0**dropped / size, "int32")
        beside = rows.beside(s, mean)
        narrow = s.rescale(s.op("SUB", rows.widened(s, x), beside), 1.0, "int16")
    # Σ x·d is Σ d² + mean · Σ d, and Σ d is what rounding the mean has left.
    v = rows.packed(s, rows.products(s, narrow, x, by))
    if centre:
        middle = rows.packed(s, mean)
        if dropped:  # the total is not exact; that of the differences is, and small
            summed, known = s.scalar(0, rank), rows.total(s, rows.widened(s, narrow))
        else:
            summed, known = s.mul(middle, s.scalar(size, rank), 0), total
        less = s.op("SUB", summed, rows.packed(s, known))
        v = s.op("ADD", v, s.mul(less, middle, by))
    offset = round(smallest / 2.0**k)
    # Sums that would overflow with eps have a variance that dwarfs it.
    room = (1 << 31) - 1 - offset
    if centre:
        v = s.op("MAXIMUM", v, s.scalar(0, rank))
    if offset > 0:
        v = s.op("ADD", s.op("MINIMUM", v, s.scalar(room, rank)), s.scalar(offset, rank))
    inverse, factor = rsqrt(s, v, rank)
    inverse = rows.unpacked(s, inverse)
    # n = d / √(squares·2^k / size)
    step = factor * math.sqrt(size / 2.0**k)
    shift = shift_for(1.1 * reach / step)
    return s.mul(rows.widened(s, narrow), inverse, shift), step * 2.0**shift


def _before(gamma: Float | None, beta: Float | None, most: float) -> Float | None:
    """β/γ; None where a magnitude is above `most`."""
    if beta is None:
        return np.zeros(1)
    weights = np.asarray(1.0 if gamma is None else gamma, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        early = np.where(np.asarray(beta) == 0, 0.0, np.asarray(beta, np.float64) / weights)
    return early if (np.abs(early) <= most).all() else None


def affine(
    s: Sequence,
    n: str,
    step: float,
    rank: int,
    gamma: Float | None,
    beta: Float | None,
    out_scale: float | Float,
    out_dtype: str,
    early: Float | None = None,
) -> str:
    """γ·n + β in `out_dtype`; `out_scale` may be per channel. early: β/γ, to add before the product
    with γ.
    """
    scales = np.asarray(out_scale, np.float64)
    weights = np.asarray(1.0 if gamma is None else gamma, np.float64) / scales
    by_channel = (1,) * (rank - 1) + (-1,)
    signs = np.where(weights < 0, -1, 1)
    # A MUL has multipliers with signs, and one shift for all.
    shift = 30 - math.frexp(float(np.abs(weights).max()) * step)[1]
    if early is not None and ((signs > 0).all() or 30 <= shift <= 62):
        if early.any():
            n = s.op("ADD", n, s.constant(np.rint(early / step).reshape(by_channel), "int32"))
        if (signs > 0).all():
            ratios = step * weights
            return s.rescale(n, ratios if weights.ndim else float(ratios), out_dtype)
        factors = np.rint(weights * step * 2.0**shift).reshape(by_channel)
        return s.rescale(s.mul(n, s.constant(factors, "int32"), shift), 1.0, out_dtype)

    ratios = step * _FINE * np.abs(weights)
    scaled = s.rescale(n, ratios if weights.ndim else float(ratios), "int32")
    if (signs < 0).any():  # multipliers of RESCALE have no sign
        scaled = s.mul(scaled, s.constant(signs.reshape(by_channel), "int32"), 0)
    if beta is not None:
        offset = np.rint(np.asarray(beta, np.float64) / scales * _FINE)
        scaled = s.op("ADD", scaled, s.constant(offset.reshape(by_channel), "int32"))
    return s.rescale(scaled, 1 / _FINE, out_dtype)


def layer_norm(
    shape: Items[int],
    in_scale: float,
    eps: float,
    gamma: Float | None,
    beta: Float | None,
    out_scale: float | Float,
    out_dtype: str = "int16",
) -> Sequence:
    """Of int16 values of `shape` along the last axis, to int8 or int16.

    `out_scale` may be per channel: a smoothed operand of the next layer.
    """
    rows = Rows(tuple(shape))
    return _norm(rows, in_scale, eps, gamma, beta, out_scale, out_dtype, centre=True)


def rms_norm(
    shape: Items[int],
    in_scale: float,
    eps: float,
    gamma: Float | None,
    out_scale: float | Float,
    out_dtype: str = "int16",
) -> Sequence:
    """Of int16 values of `shape` along the last axis, to int8 or int16; see `layer_norm`."""
    rows = Rows(tuple(shape))
    return _norm(rows, in_scale, eps, gamma, None, out_scale, out_dtype, centre=False)


def group_norm(
    shape: Items[int],
    groups: int,
    in_scale: float,
    eps: float,
    gamma: Float | None,
    beta: Float | None,
    out_scale: float | Float,
    out_dtype: str = "int16",
) -> Sequence:
    """Of int16 values of `shape` (samples, pixels, channels), with a mean and a variance for each
    sample and group of channels; to int8 or int16, see `layer_norm`.
    """
    samples, pixels, channels = shape
    rows = Groups((samples, pixels, channels), groups)
    return _norm(rows, in_scale, eps, gamma, beta, out_scale, out_dtype, centre=True)


def _norm(
    rows: Rows,
    in_scale: float,
    eps: float,
    gamma: Float | None,
    beta: Float | None,
    out_scale: float | Float,
    out_dtype: str,
    *,
    centre: bool,
) -> Sequence:
    s = Sequence()
    x = s.input("x", "int16")
    reach, rank = _reach(rows.size, in_scale, eps), len(rows.shape)
    early = _before(gamma, beta, _FAR * reach)
    if early is not None:
        reach = max(reach, float(np.abs(early).max(initial=0.0)))
    n, step = normalized(s, x, rows, in_scale, eps, centre=centre, reach=reach)
    out = affine(s, n, step, rank, gamma, beta, out_scale, out_dtype, early)
    s.outputs = [out]
    return s

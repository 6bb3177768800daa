"""Functions of one value: GELU, SiLU, tanh, sigmoid, exp …, by TABLE.

int8: one TABLE of 256 entries, each rounded correctly: the error is half a step of the output.
int16: TABLE of 513 entries with interpolation, and one RESCALE to int8 or int16. Where a function
is curved around zero only (log, reciprocal, tanh of a wide range), a second TABLE over an inner
part of the range has what the first one lacks there.
Periodic functions of many periods (the sine of a position): TABLE over one period. CAST to int16
keeps the low bits of a value in steps of 2^−16 of the period, which is its place in the period.

Largest error of the int16 form against float64, for inputs that are exact multiples of `in_scale`:
half a step of the output, plus half an entry's step (max|f| / 65534, for int8 a 256th of the
output's), plus interpolation
(128·in_scale)²/8 · max|f″|, for GELU, SiLU, tanh and sigmoid at most 0.8, 0.5, 0.77, 0.1.
`error_bound` gives the sum.
"""

import math
from collections.abc import Callable

import numpy as np

from spec.sequences.base import Float, Sequence

ENTRIES = 513
STEP = 128
"""Inputs between two entries of an int16 table."""


def _erf(x: Float) -> Float:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sigmoid(x: Float) -> Float:
    """1 / (1 + e^−x), without overflow."""
    return 0.5 * (1 + np.tanh(x / 2))


def gelu(x: Float) -> Float:
    """x · Φ(x), the exact form."""
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def gelu_tanh(x: Float) -> Float:
    """The tanh approximation of GELU."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Float) -> Float:
    """x · sigmoid(x)."""
    return x * sigmoid(x)


FUNCTIONS: dict[str, tuple[Callable[[Float], Float], float]] = {
    "gelu": (gelu, 0.8),
    "gelu_tanh": (gelu_tanh, 0.82),
    "silu": (silu, 0.5),
    "sigmoid": (sigmoid, 0.1),
    "tanh": (np.tanh, 0.77),
    "relu": (lambda x: np.maximum(x, 0.0), 0.0),
}
"""Name: (function, largest magnitude of its second derivative)."""


def entries16(
    f: Callable[[Float], Float], in_scale: float, peak: int = 32767
) -> tuple[list[int], float]:
    """(513 entries of f over the int16 range, real value of one step of them).

    ValueError where f is nowhere different from zero, or not finite.
    """
    x = (np.arange(ENTRIES) - 256) * (STEP * in_scale)
    values = np.asarray(f(x), np.float64)
    top = float(np.abs(values).max())
    if not math.isfinite(top) or top == 0:
        raise ValueError(f"table of scale {in_scale}: largest value {top} is not usable")
    step = top / peak
    return [int(v) for v in np.rint(values / step)], step


TURNS = 4.0
"""A table over the whole range would be coarse for a function of more periods on either side."""

_TURN = 1 << 16
"""Steps of a period."""

_NEAR = (64, 32, 16, 8, 4, 2)
"""How much finer a second table may be, over as small a part of the range, around zero."""

ROUGH = 2.0**-8
"""Part of the largest value from which on an error of interpolation is worth a second table."""


def has_many_periods(in_scale: float, period: float) -> bool:
    """Whether a table of one period serves int16 values better than one of their range."""
    return period > 0 and 32768 * in_scale > TURNS * period


def _rest(
    f: Callable[[Float], Float], in_scale: float, entries: list[int], step: float, rough: float
) -> tuple[list[int], float, int] | None:
    """What a table of `f` lacks around zero: (entries over the inner part of the range, real value
    of one step of them, one of `_NEAR`); None where that is less than `rough` of the largest value,
    or where more than a quarter of it is lacking elsewhere too.
    """
    x = np.arange(-32768, 32769)
    table = np.interp(x, (np.arange(ENTRIES) - 256) * STEP, entries) * step
    lacking = np.asarray(f(x * in_scale), np.float64) - table
    worst = float(np.abs(lacking).max())
    if not (math.isfinite(worst) and worst >= rough * float(np.abs(entries).max()) * step):
        return None

    def left(finer: int) -> float:
        """What is lacking outside, or, next to a bend, inside."""
        return max(float(np.abs(lacking[np.abs(x) >= 32768 // finer]).max()), worst / finer)

    finer = min(_NEAR, key=left)
    if left(finer) > worst / 4:
        return None
    values = lacking[(np.arange(ENTRIES) - 256) * (STEP // finer) + 32768]
    if not values.any():
        return None
    unit = float(np.abs(values).max()) / 32767
    return [int(v) for v in np.rint(values / unit)], unit, finer


def error_bound(name: str, in_scale: float, out_scale: float) -> float:
    """Largest error of `unary` with an int16 input, where the output does not saturate."""
    f, curve = FUNCTIONS[name]
    _, step = entries16(f, in_scale)
    rounding = 0.5 * out_scale * (1 + 2.0**-14) + 0.5 * max(step, out_scale / STEP)
    return rounding + (STEP * in_scale) ** 2 / 8 * curve


def unary(
    name: str,
    in_scale: float,
    out_scale: float,
    *,
    in_dtype: str = "int16",
    out_dtype: str = "int8",
    in_zp: int = 0,
    out_zp: int = 0,
    channels: Float | None = None,
) -> Sequence:
    """A function of FUNCTIONS from `in_dtype` (int8, int16) to `out_dtype` (int8, int16).

    Values stand for scale · (integer − zero point). `channels`: the output's scale is
    out_scale · channels[c] (int16 input only). int8 input has int8 output.
    """
    return tabled(
        FUNCTIONS[name][0],
        in_scale,
        out_scale,
        in_dtype=in_dtype,
        out_dtype=out_dtype,
        in_zp=in_zp,
        out_zp=out_zp,
        channels=channels,
    )


def tabled(
    f: Callable[[Float], Float],
    in_scale: float,
    out_scale: float,
    *,
    in_dtype: str,
    out_dtype: str,
    in_zp: int = 0,
    out_zp: int = 0,
    channels: Float | None = None,
    period: float = 0.0,
    rough: float = ROUGH,
) -> Sequence:
    """As `unary`, for any function. `period`: it has one; used where an int16 input has more than
    `TURNS` of them on either side. rough: see `ROUGH`.
    """
    s = Sequence()
    x = s.input("x", in_dtype)
    if in_dtype == "int8":
        if out_dtype != "int8":
            raise ValueError(f"a table of int8 gives int8, not {out_dtype}")
        grid = (np.arange(-128, 128) - in_zp) * in_scale
        table = np.clip(np.rint(f(grid) / out_scale) + out_zp, -128, 127)
        s.outputs = [s.op("TABLE", x, s.constant(table, "int8"), dtype="int8")]
        return s
    if in_zp:
        raise ValueError(f"in_zp={in_zp}: int16 values have zero point 0")
    if has_many_periods(in_scale, period):
        turns = s.rescale(x, in_scale / period * _TURN, "int32")
        x, in_scale = s.op("CAST", turns, dtype="int16"), period / _TURN
    entries, step = entries16(f, in_scale)
    scale = out_scale if channels is None else out_scale * np.asarray(channels, np.float64)
    rest = _rest(f, in_scale, entries, step, rough)
    if rest is None and out_dtype == "int8" and channels is None:
        low, high = (STEP * (end - out_zp) for end in (-128, 127))
        grid = (np.arange(ENTRIES) - 256) * (STEP * in_scale)
        fine = np.clip(np.rint(np.asarray(f(grid), np.float64) / out_scale * STEP), low, high)
        # A RESCALE by a power of two can be a part of the TABLE.
        wide = s.table16(x, fine)
        s.outputs = [s.rescale(wide, 1 / STEP / STEP, "int8", output_zp=out_zp)]
        return s
    wide = s.table16(x, entries)
    if rest is not None:
        # Outside, the input saturates at an end, where the correction is next to 0.
        near = s.rescale(x, rest[2], "int16")
        wide = s.op("ADD", wide, s.rescale(s.table16(near, rest[0]), rest[1] / step, "int32"))
    s.outputs = [s.rescale(wide, step / STEP / scale, out_dtype, output_zp=out_zp)]
    return s

"""How a linear layer's input becomes int8: a factor per channel, and fixed or per-row scales.

After Xiao et al., SmoothQuant (2022): s_c = max|x_c|^α / max|W_c|^(1−α) divides the activation and
multiplies the weights. Where the columns of W are alike, their maxima differ by chance only, and
s_c = max|x_c|^α is better; with α = 0 that is one scale for all channels. Form and α are searched,
for each group of layers with one input, by the energy of the errors in the layers' results: δ²/12
for a step δ, and what saturates where half of the samples meets the range of the other half. Scales
by row follow the largest value of each row at run time (`spec.sequences.quantize_rows`, two passes
more); they are taken where they at least quarter that energy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sw.compiler.frontend.quantization.values import TINY
from sw.compiler.frontend.weights import Matrix, column_energy, column_tops, row_tops

Float = NDArray[np.float64]
Rows = Literal["auto", "never", "always"]
"""Scales by row: where they pay, nowhere, everywhere."""

ALPHAS = (0.0, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The first, without W, is one scale for all channels."""

GAIN = 4.0
"""Scales by row or channel that take more passes must lower the error's energy by this factor."""

_FLOOR = 2.0**-10


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing:
    """x_c / channels[c] is quantized, by row or with one scale.

    `error`: expected energy of the error in a row of the result, relative to the row; `plain`: the
    same with one scale for all rows and channels.
    """

    channels: Float
    by_row: bool
    error: float
    plain: float


def choose(
    largest: Float, samples: Float | None, weights: Sequence[Matrix], rows: Rows
) -> Smoothing:
    """The best smoothing of an input, by largest magnitude per channel and sample rows.

    `weights`: [out, in] of each layer that reads it.
    """
    if samples is None:
        samples = largest[None]
    x = floored(largest)
    w = floored(np.max([column_tops(m) for m in weights], axis=0))
    energy = np.sum([column_energy(m) for m in weights], axis=0)
    # By row, relative to the row's own result: what a norm makes of it later.
    signal = np.square(samples) @ energy
    signal = np.maximum(signal, signal.max() * _FLOOR**2 + TINY)
    forms = np.ones_like(w), w
    candidates = [partial(factors, w=form, alpha=alpha) for form in forms for alpha in ALPHAS]
    weight_error = _weight_errors(samples, weights, [f(x) for f in candidates])
    best: dict[bool, tuple[float, Float]] = {}

    def error(scales: Callable[[Float], Float], by_row: bool, rounding: Float) -> float:
        s = scales(x)
        tops = np.abs(samples / s).max(axis=1) if by_row else (x / s).max()
        steps = (tops / 127) ** 2 / 12 * float((s**2 * energy).sum())
        lost = 0.0 if by_row else _clipped(samples, energy, scales)
        return float(((steps + rounding + lost) / signal).mean())

    for scales, rounding in zip(candidates, weight_error, strict=True):
        for by_row in (False, True):
            found = error(scales, by_row, rounding)
            if by_row not in best or found < best[by_row][0]:
                best[by_row] = (found, scales(x))
    by_row = rows == "always" or (rows == "auto" and best[True][0] * GAIN < best[False][0])
    least, s = best[by_row]
    plain = error(candidates[0], False, weight_error[0])
    return Smoothing(channels=s, by_row=by_row, error=least, plain=plain)


def floored(values: Float) -> Float:
    """Positive values, none far below the largest."""
    return np.maximum(values, max(float(values.max()), TINY) * _FLOOR)


def factors(x: Float, w: Float, alpha: float) -> Float:
    """A scale for each channel, the largest 1, from the ranges of activation and weights."""
    s = x**alpha / w ** (1 - alpha)
    return np.asarray(s / s.max(), np.float64)


def _clipped(samples: Float, energy: Float, scales: Callable[[Float], Float]) -> Float:
    """Energy that saturation costs, by row: each half of the samples with the other half's range.

    What calibration has seen never saturates; new inputs do.
    """
    lost = np.zeros(len(samples))
    middle = len(samples) // 2  # samples of different calls, each with its special tokens
    for half in (slice(0, middle), slice(middle, None)):
        seen = np.ones(len(samples), bool)
        seen[half] = False
        if seen.any():
            x = floored(np.abs(samples[seen]).max(axis=0))
            s = scales(x)
            excess = np.maximum(np.abs(samples[half]) - s * (x / s).max(), 0)
            lost[half] = np.square(excess) @ energy
    return lost


def _weight_errors(
    samples: Float, weights: Sequence[Matrix], smoothings: list[Float]
) -> list[Float]:
    """Energy that rounding the weights adds to the layers' results, by row; for each smoothing."""
    tops = [row_tops(m, smoothings) for m in weights]
    found = []
    for i, s in enumerate(smoothings):
        power = np.square(samples / s).sum(axis=1)
        steps = sum(float(np.square(of_matrix[i] / 127).sum()) for of_matrix in tops)
        found.append(np.asarray(steps / 12 * power, np.float64))
    return found

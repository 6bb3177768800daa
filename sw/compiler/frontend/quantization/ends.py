"""Where the range of an int8 value ends: as far as lowers the expected error of new inputs.

Calibration sees a few inputs. Where the range ends at the largest of their values, it depends on
how many they were, and a new input exceeds it. Here an end follows from the distribution of each
input's largest value: rounding costs δ²/12 for each element, a step δ being the range / 255;
saturation costs the square of what an input's largest value has too much. For the largest of many
values, that excess falls exponentially (Gumbel's distribution). More inputs estimate the
distribution better; they do not widen the range.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sw.compiler.frontend.quantization.values import TINY, Format

Float = NDArray[np.float64]

SATURATION = 8.0
"""What saturation counts for beside rounding: it always errs to the same side, so that sums over
positions and channels keep all of it, and rather more values than the largest are cut.
"""

_PRIOR = 0.1
"""Deviation of an input's largest value, by its mean, that two inputs more would show."""

_FIRST, _LAST, _TRIED = 2.0, 12.0, 101
"""Ends that are tried, in units of the distribution's scale beyond the mean, and their number.

The first is where the largest of nine inputs ends on average. Nearer ends cost deep networks more
than the formula says.
"""

_GUMBEL_SCALE, _GUMBEL_MEAN = 6 / math.pi**2, 0.5772
"""Of Gumbel's distribution: scale² / variance, and (mean − location) / scale."""


def affine(ends: Sequence[tuple[float, float]], elements: int) -> Format:
    """int8 for a value of `elements` elements whose (least, largest) were `ends`, by input."""
    below, above = (np.maximum(side, 0.0) for side in (-_column(ends, 0), _column(ends, 1)))
    high = _end(above, elements, float(below.max()))
    low = _end(below, elements, high)
    if high + low <= TINY:  # what calibration saw only at zero may have any scale
        high = 1.0
    step = (high + low) / 255
    return Format(dtype="int8", scale=step, zero_point=round(low / step) - 128)


def _column(ends: Sequence[tuple[float, float]], at: int) -> Float:
    return np.asarray(ends, np.float64)[:, at]


def _end(largest: Float, elements: int, other: float) -> float:
    """One end of a range whose other end is `other`, by the largest magnitude of each input."""
    mean, count = float(largest.mean()), len(largest)
    if mean <= TINY:
        return 0.0
    variance = count * float(largest.var()) * _GUMBEL_SCALE + 2 * (_PRIOR * mean) ** 2
    scale = math.sqrt(variance / (count + 2))
    location = mean - _GUMBEL_MEAN * scale
    tried = mean + scale * np.linspace(_FIRST, _LAST, _TRIED)
    rounding = elements * np.square((tried + other) / 255) / 12
    beyond = np.minimum(1.0, np.exp((location - tried) / scale))
    error = rounding + SATURATION * 2 * scale**2 * beyond
    return float(tried[int(np.argmin(error))])

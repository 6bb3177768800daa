"""Scales for the channels of what convolutions read, where one scale loses much.

x_c / s_c becomes int8 with one step and one zero point, and the weights of channel c are multiplied
by s_c, as for linear layers (`smoothing.py`). Before a depthwise convolution that costs no weight
any bits: each output has one input. Candidates are the same powers of the channels' and the
weights' ranges. They are compared by the energy of the errors in the results: δ²/12 for a step δ of
the activation, and for a step of the weights what varies of the activation; its mean comes back
with the bias (`rules/mean_errors.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sw.compiler.frontend.quantization.calibrate import Images
from sw.compiler.frontend.quantization.ends import affine
from sw.compiler.frontend.quantization.smoothing import ALPHAS, GAIN, factors, floored
from sw.compiler.frontend.quantization.values import TINY
from sw.compiler.frontend.windows import by_weight

Float = NDArray[np.float64]

_STILL = 64
"""A channel whose deviation is a smaller part of its largest value is constant."""

_FINEST = 16
"""Steps of a channel of 16 bits for one of the largest channel, at most."""

_NOISE = 2.0**-10
"""Deviation that rounding to 16 bits may leave in a result, by the result's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A convolution: its real weights [out, in of a group, …], and how many groups it has."""

    kernel: Float
    groups: int

    def tops(self) -> Float:
        """The largest weight for each input channel."""
        magnitude = np.abs(self.kernel).reshape(*self.kernel.shape[:2], -1).max(axis=2)
        return self._grouped(magnitude).max(axis=1).reshape(-1)

    def energy(self) -> Float:
        """The sum of squares for each input channel."""
        squares = np.square(self.kernel).reshape(*self.kernel.shape[:2], -1).sum(axis=2)
        return self._grouped(squares).sum(axis=1).reshape(-1)

    def rounding(self, s: Float, variance: Float) -> float:
        """Energy that rounding the weights adds to a result, all outputs together."""
        taps = self.kernel[0, 0].size
        inputs = (*self.kernel.shape[:2], 1)
        magnitude = np.abs(self.kernel).reshape(*self.kernel.shape[:2], -1).max(axis=2)
        tops = (magnitude * by_weight(s, inputs, self.groups)[..., 0]).max(axis=1)
        power = by_weight(variance / s**2, inputs, self.groups)[..., 0].sum(axis=1)
        return float((np.square(tops / 127) / 12 * taps * power).sum())

    def _grouped(self, by_input: Float) -> Float:
        return by_input.reshape(self.groups, -1, by_input.shape[1])


def image_scales(images: Images, readers: Sequence[Reader], elements: int) -> Float | None:
    """A scale for each channel, the largest 1; None where one for all is nearly as good.

    elements: of the value that is read.
    """
    energy = np.sum([reader.energy() for reader in readers], axis=0)

    def error(s: Float) -> float:
        step = float(affine(images.ends(s), elements).scale)
        rounding = sum(reader.rounding(s, images.variance) for reader in readers)
        return step**2 / 12 * float((s**2 * energy).sum()) + rounding

    candidates = list(_candidates(images, readers))
    errors = [error(s) for s in candidates]
    best = int(np.argmin(errors))
    return candidates[best] if errors[best] * GAIN < errors[0] else None


def wide_scales(images: Images, readers: Sequence[Reader], step: float) -> Float | None:
    """As `image_scales`, of a value of 16 bits with this step; None where the step is fine enough.

    Scales follow the largest value that calibration saw of a channel. One that is constant there,
    or rarely active, may do in new inputs what others do: it has the scale of the largest channel.
    """
    energy = np.sum([reader.energy() for reader in readers], axis=0)
    noise, signal = step**2 / 12 * energy.sum(), (images.variance * energy).sum()
    if noise <= signal * _NOISE**2:
        return None
    low, high = (np.maximum(side, 0.0) for side in (-np.array(images.least), np.array(images.most)))
    largest = np.maximum(low, high)
    reach = largest.max(axis=0)
    mean = largest.mean(axis=0)
    known = (images.variance > np.square(mean / _STILL)) & (largest.std(axis=0) < mean)
    scales = np.where(known, reach / max(float(reach.max()), TINY), 1.0)
    return np.asarray(np.maximum(scales, 1 / _FINEST), np.float64)


def _candidates(images: Images, readers: Sequence[Reader]) -> Iterator[Float]:
    """One scale for all first."""
    x = floored(images.reach)
    w = floored(np.max([reader.tops() for reader in readers], axis=0))
    yield np.ones_like(x)
    for form in (np.ones_like(w), w):
        for alpha in ALPHAS[1:]:
            yield factors(x, form, alpha)

"""What rounding a convolution's weights takes from its mean result.

An activation behind a ReLU has a mean that is far from zero, so that the errors of the weights do
not cancel: each output channel is off by about the same number everywhere. Calibration knows the
mean of each input channel, and the bias takes that number back. After Nagel et al., Data-Free
Quantization (2019), section 4.2.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sw.compiler.frontend.windows import Windows

Float = NDArray[np.float64]


def mean_error(
    rounding: Float, mean: Float, w: Windows, extent: Sequence[int], made: Sequence[int]
) -> Float:
    """[out]: the mean over all positions of what `rounding` [out, in of a group, …] gives.

    mean: of each input channel. extent, made: the sizes of the input and of the result by spatial
    dimension. Padding counts as zero: what a tap does not read costs nothing.
    """
    taps = rounding.shape[2:]
    sizes = [(1,) * (len(taps) - len(each)) + tuple(each) for each in (extent, made)]
    for axis, count in enumerate(taps):
        shares = _shares(count, w, axis, sizes[0][axis], sizes[1][axis])
        rounding = rounding * shares.reshape(
            [-1 if i == axis + 2 else 1 for i in range(rounding.ndim)]
        )
    total = rounding.reshape(*rounding.shape[:2], -1).sum(axis=2)
    by_group = mean.reshape(w.groups, -1).repeat(len(rounding) // w.groups, axis=0)
    return np.asarray((total * by_group).sum(axis=1), np.float64)


def _shares(taps: int, w: Windows, axis: int, extent: int, made: int) -> Float:
    """By tap: the share of the results to which it adds an element of the input."""
    # A transposed convolution goes through the input and lands in the result.
    steps, limit = (extent, made) if w.transposed else (made, extent)
    at = np.arange(steps) * w.stride[axis] - w.pads[axis][0]
    at = at + np.arange(taps)[:, None] * w.dilation[axis]
    return np.asarray(((at >= 0) & (at < limit)).sum(axis=1) / made, np.float64)

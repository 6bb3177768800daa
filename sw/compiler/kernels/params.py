"""Parameter entries as they lie in memory: bias, multiplier and shift of each lane."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from sw.compiler.kernels.operands import Epilogue


def pack_params(passes: Sequence[Epilogue], o0: int, o1: int, config: NpuConfig) -> bytes:
    """Parameter entries of output channels o0…o1: bias, multiplier, shift per lane.

    Those of a column block lie together, one for each of `passes`.
    """
    out = []
    blocks = range(o0, o1, config.cols)
    for at, epilogue in itertools.product(blocks, passes):
        stop = min(at + config.cols, o1)
        bias = _lanes(epilogue.bias, at, stop, config.cols, 0)
        multiplier = _lanes(epilogue.multiplier, at, stop, config.cols, 0)
        shift = _lanes(epilogue.shift, at, stop, config.cols, 2)
        entry = (
            bias.astype("<i4").tobytes()
            + multiplier.astype("<i4").tobytes()
            + shift.astype(np.int8).tobytes()
        )
        out.append(entry + bytes(config.param_entry_bytes - len(entry)))
    return b"".join(out)


def _lanes(
    values: NDArray[np.generic] | None, start: int, stop: int, cols: int, fill: int
) -> NDArray[np.int64]:
    lanes = np.full(cols, fill, np.int64)
    if values is not None:
        lanes[: stop - start] = values if values.size == 1 else values[start:stop]
    return lanes

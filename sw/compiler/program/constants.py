"""Region 0: packed weights, parameter entries and tables, each distinct piece once."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.program import ALIGN, REGION_CONST
from sw.compiler.kernels.conv.geometry import Part
from sw.compiler.kernels.layers import Epilogue
from sw.compiler.program.draft import Buffer, Place


class ConstantPool:
    """Grows the bytes of region 0; `buffer` is its address space for nodes."""

    def __init__(self) -> None:
        self.buffer = Buffer(
            name="constants", place=Place.DRAM, size=0, region=REGION_CONST, address=0
        )
        self._pieces: list[bytes] = []
        self._known: dict[bytes, int] = {}

    def add(self, data: bytes) -> int:
        """Offset of `data` in the region, `ALIGN`-aligned."""
        at = self._known.get(data)
        if at is None:
            at = self.buffer.size
            self._known[data] = at
            padded = data + bytes(-len(data) % ALIGN)
            self._pieces.append(padded)
            self.buffer.size += len(padded)
        return at

    def array(self) -> NDArray[np.uint8]:
        """The region's bytes."""
        return np.frombuffer(b"".join(self._pieces), np.uint8).copy()


def pack_weights(weights: NDArray[np.int8], part: Part, o0: int, o1: int, cols: int) -> bytes:
    """Output channels o0…o1 of [OC,KH,KW,IC] weights as [block][c][kh][kw][col].

    The channel outermost keeps every stride regular when IC is no multiple of the array's rows.
    """
    piece = weights[o0:o1, part.kh0 : part.kh1, :, part.c0 : part.c1]
    blocks = [piece[i : i + cols].transpose(3, 1, 2, 0).tobytes() for i in range(0, o1 - o0, cols)]
    return b"".join(blocks)


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

"""Region 0: packed weights, parameter entries and tables, each distinct piece once."""

import numpy as np
from numpy.typing import NDArray

from spec.program import ALIGN, REGION_CONST
from sw.compiler.program.virtual import Buffer, Place


class ConstantPool:
    """Grows the bytes of region 0; `buffer` is its address space for instructions."""

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

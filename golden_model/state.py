"""What a machine remembers: memories on and off the chip."""

from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.isa import REGIONS

Bytes = NDArray[np.uint8]
_T = TypeVar("_T", bound=np.generic)
MARGIN = 128
"""Bytes after the scratchpad, so that whole array rows can be gathered near its end."""


def windows(memory: NDArray[_T], run: int) -> NDArray[_T]:
    """[memory.size - run + 1, run]: every `run` units; shares (and writes to) the memory.

    Indexing it with a vector of addresses gathers or scatters runs without per-unit indices.
    """
    unit = memory.itemsize
    return as_strided(memory, (memory.size - run + 1, run), (unit, unit))


class State:
    """Contents of one machine.

    spad, param, table: bytes; acc: [acc_vectors, cols] int32; memory: bytes of each region.
    """

    def __init__(self, config: NpuConfig) -> None:
        self.config = config
        self._spad = np.zeros(config.spad_bytes + MARGIN, np.uint8)
        self.spad = self._spad[: config.spad_bytes]
        self.acc = np.zeros((config.acc_vectors, config.cols), np.int32)
        self.param = np.zeros(config.param_bytes, np.uint8)
        self.table = np.zeros(config.table_entries, np.uint8)
        self.memory: list[Bytes] = [np.zeros(0, np.uint8) for _ in range(REGIONS)]
        entries = self.param.reshape(config.param_entries, config.param_entry_bytes)
        at = 4 * config.cols
        self.bias = entries[:, :at].view("<i4")
        self.multiplier = entries[:, at : 2 * at].view("<i4")
        self.shift = entries[:, 2 * at : 2 * at + config.cols].view(np.int8)

    def clear(self) -> None:
        """On-chip memories to zero, as before a run (memory regions are set by the run)."""
        for part in (self._spad, self.acc, self.param, self.table):
            part.fill(0)

    def spad_windows(self, run: int) -> Bytes:
        """`windows` of the scratchpad that may start at any byte and run into the margin."""
        if run > MARGIN:
            return windows(self.spad, run)
        return windows(self._spad, run)[: self.config.spad_bytes]

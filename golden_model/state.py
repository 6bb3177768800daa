"""What a machine remembers: memories on and off the chip."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model.lhs_cache import LhsCache
from spec.config import PARAM_PARTS, NpuConfig
from spec.exhaustive import exhaustive
from spec.isa import REGIONS, Space

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
MARGIN = 128
"""Bytes after the scratchpad, so that whole array rows can be gathered near its end."""
GUARD = 1 << 16
"""Bytes before and after the scratchpad, so that strided views may include what is not in use."""


def _runs(memory: NDArray[Any], run: int) -> NDArray[Any]:
    """[memory.size - run + 1]: every run of bytes as one opaque element, sharing the memory."""
    return np.ndarray((memory.size - run + 1,), f"V{run}", memory, strides=(1,))


def gather(memory: NDArray[Any], address: Ints, run: int) -> NDArray[Any]:
    """[..., run]: the `run` bytes at each address, in the (one-byte) dtype of the memory."""
    return _runs(memory, run)[address][..., None].view(memory.dtype)


def scatter(memory: Bytes, address: Ints, data: Bytes) -> None:
    """Write data [n, run] at the n addresses, in order (later runs win)."""
    run = data.shape[1]
    _runs(memory, run)[address] = np.ascontiguousarray(data).view(f"V{run}")[:, 0]


def mark(memory: NDArray[Any], address: Ints, run: int, values: NDArray[Any] | int) -> None:
    """Set `run` elements at each address to one value each (later addresses win)."""
    unit = memory.itemsize
    shape, strides = (memory.size - run + 1, run), (unit, unit)
    windows = np.lib.stride_tricks.as_strided(memory, shape, strides)
    windows[address] = values if isinstance(values, int) else values[:, None]


class State:
    """Contents of one machine.

    spad, param, table: bytes; acc: [acc_vectors, cols] int32; memory: bytes of each region.
    padded: the scratchpad, `MARGIN` bytes that runs may reach into, and one array row at `void`.
    guarded: the same from `GUARD` bytes before the scratchpad on. param_parts: [entries, cols] of
    each part of the parameter entries. parameters: parameter entries as VECTOR uses them, valid
    until an entry is written. lhs_cache: activations as MATRIX uses them.
    written: 1 for each byte of the output region that the run has written; None before a run.
    """

    def __init__(self, config: NpuConfig) -> None:
        self.config = config
        self.guarded = np.zeros(GUARD + config.spad_bytes + GUARD, np.uint8)
        self.padded = self.guarded[GUARD:]
        self.spad = self.padded[: config.spad_bytes]
        self.void = config.spad_bytes + MARGIN
        self.acc = np.zeros((config.acc_vectors, config.cols), np.int32)
        self.acc_bytes = self.acc.reshape(-1).view(np.uint8)
        self.param = np.zeros(config.param_bytes, np.uint8)
        self.table = np.zeros(config.table_bytes, np.uint8)
        self._loadable = exhaustive(
            "golden_model.state",
            Space,
            {Space.SPAD: self.spad, Space.PARAM: self.param, Space.TABLE: self.table},
            without=[Space.ACC],
        )
        self.parameters: dict[object, Any] = {}
        self.lhs_cache = LhsCache()
        self.written: Bytes | None = None
        self.memory: list[Bytes] = [np.zeros(0, np.uint8) for _ in range(REGIONS)]
        self._scratch = np.empty(0, np.float32)
        entries = self.param.reshape(config.param_entries, config.param_entry_bytes)
        self.param_parts: dict[str, NDArray[np.signedinteger[Any]]] = {}
        for part, size in PARAM_PARTS.items():
            at = config.param_offset(part)
            self.param_parts[part] = entries[:, at : at + size * config.cols].view(f"<i{size}")

    def bytes_of(self, space: Space) -> Bytes:
        """The bytes of an on-chip space that LOAD can write."""
        return self._loadable[space]

    def scratch(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Uninitialised room for operands; the same memory every time, as fresh pages are slow."""
        size = math.prod(shape)
        if size > self._scratch.size:
            self._scratch = np.empty(size, np.float32)
        return self._scratch[:size].reshape(shape)

    def clear(self) -> None:
        """On-chip memories to zero, as before a run (memory regions are set by the run)."""
        for part in (self.guarded, self.acc, self.param, self.table):
            part.fill(0)

    def forget(self) -> None:
        """Before a run: whatever was kept may have been changed from outside."""
        self.parameters.clear()
        self.lhs_cache.clear()

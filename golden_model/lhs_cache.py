"""Cache of the left-hand sides of products.

MATRIX often multiplies the same activations with several blocks of weights. Gathering them from
the scratchpad and converting them takes longer than the product.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LARGEST = 1 << 22
"""Most activations (float32) of one entry."""
_ENTRIES = 4


@dataclass(slots=True)
class _Entry:
    """Activations from scratchpad bytes `start` ... `end`-1. key None: no longer valid."""

    key: object
    start: int
    end: int
    size: int
    room: NDArray[np.float32]


class LhsCache:
    """The last few gathered activations, until the scratchpad bytes they come from are written."""

    def __init__(self) -> None:
        self._entries = [_Entry(None, 0, 0, 0, np.empty(0, np.float32)) for _ in range(_ENTRIES)]

    def get(self, key: object) -> NDArray[np.float32] | None:
        for i, entry in enumerate(self._entries):
            if entry.key == key:
                self._entries.insert(0, self._entries.pop(i))
                return entry.room[: entry.size]
        return None

    def new(self, key: object, start: int, end: int, size: int) -> NDArray[np.float32]:
        """Room for `size` activations, in place of the entry that was used longest ago."""
        entry = self._entries.pop()
        self._entries.insert(0, entry)
        # Memory that has been used before: fresh pages are slow.
        if entry.room.size < size:
            entry.room = np.empty(size, np.float32)
        entry.key, entry.start, entry.end, entry.size = key, start, end, size
        return entry.room[:size]

    def written(self, start: int, end: int) -> None:
        """Scratchpad bytes `start` ... `end`-1 are no longer what they were."""
        for entry in self._entries:
            if start < entry.end and entry.start < end:
                entry.key = None

    def clear(self) -> None:
        for entry in self._entries:
            entry.key = None

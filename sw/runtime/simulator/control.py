"""The two files shared with the simulator: memory and its control block.

`CONTROL` is the layout of `MemoryControl` in rtl/dpi_memory.h. Both files are written only while
the simulation stands still.
"""

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sw.runtime.scratch import no_room
from sw.runtime.simulator.errors import SimulationError

MAGIC = 0x334D415244545359
WINDOWS = 16
READ, WRITE = 1, 2

_WINDOW = np.dtype([("low", "<u8"), ("high", "<u8"), ("access", "<u8")])
_SETTINGS = ("magic", "generation", "base", "bytes", "latency", "stall", "seed")
_ERRORS = ("error_low", "error_high", "error_access")
DRAM = (
    *("present", "cycle", "controller", "access_bytes", "data", "groups", "banks", "page_bytes"),
    *("read_latency", "write_latency", "activate", "precharge", "active"),
    *("activate_other", "activate_group", "four_activates", "next_other", "next_group"),
    *("turn_other", "turn_group", "read_to_write", "write_recovery", "read_to_precharge"),
    *("refresh", "refresh_every"),
)
"""Fields of `DramTiming` in rtl/dram.h."""
_RESULTS = ("read_bursts", "write_bursts", "read_beats", "write_beats", "most_reads")
CONTROL = np.dtype(
    [
        *((name, "<u8") for name in _SETTINGS),
        *(
            (name, "<u8")
            for name in ("error_low", "error_high", "error_access", "lenient", "windows")
        ),
        ("window", _WINDOW, (WINDOWS,)),
        ("dram", [(name, "<u8") for name in DRAM]),
        *((name, "<u8") for name in (*_RESULTS, "rejected", "violations")),
        ("message", "S256"),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Addresses `low` … `high` - 1 that may be accessed; `access` is READ, WRITE or both."""

    low: int
    high: int
    access: int = READ | WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """What the memory saw since the last change of settings."""

    read_bursts: int
    write_bursts: int
    read_beats: int
    write_beats: int
    most_reads: int
    rejected: int
    violations: int
    message: str


class SharedMemory:
    """Creates and maps `memory.bin` and `control.bin` in `folder`.

    base: address of the first byte, multiple of 4096. The files' blocks are reserved before they
    are mapped: on a full disk an access to a mapped hole would end the process without a word.
    `SimulationError` says where there is no room, and what to do.
    """

    def __init__(self, folder: Path, base: int, size: int = 1 << 20) -> None:
        self.memory_path = folder / "memory.bin"
        self.control_path = folder / "control.bin"
        self.base = base
        _reserve(self.control_path, 0, CONTROL.itemsize)
        self._control: Any = np.memmap(self.control_path, CONTROL, "r+", shape=(1,))[0:1]
        self._set(magic=MAGIC, base=base, latency=100)
        self.data: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.resize(size)

    @classmethod
    def attach(cls, folder: Path) -> Self:
        """The files that another process made in `folder`, as they are."""
        self = cls.__new__(cls)
        self.memory_path = folder / "memory.bin"
        self.control_path = folder / "control.bin"
        self._control = np.memmap(self.control_path, CONTROL, "r+", shape=(1,))
        self.base = int(self._control["base"][0])
        self.data = np.memmap(str(self.memory_path), np.uint8, mode="r+")
        return self

    def resize(self, size: int) -> None:
        """Make the memory at least `size` bytes; contents stay, also where there is no room."""
        size = -(-size // 4096) * 4096
        if size <= self.data.size:
            return
        _reserve(self.memory_path, self.data.size, size)
        self.data = np.memmap(str(self.memory_path), np.uint8, mode="r+", shape=(size,))
        self._set(bytes=size)

    def configure(
        self,
        *,
        latency: int | None = None,
        stall: float | None = None,
        seed: int | None = None,
        errors: tuple[int, int, int] | None = None,
        windows: Sequence[Window] | None = None,
        lenient: bool | None = None,
    ) -> None:
        """Change what is given; results start from zero.

        latency: cycles, 1 or more. stall: probability per channel and cycle, 0 … 0.95. errors:
        (low, high, access) addresses that answer SLVERR. windows: what may be accessed, to the byte
        (empty: everything); a read of a bus word gives 0xEE beside its window. lenient: what lies
        outside is answered and counted (`MemoryReport.rejected`), not refused.
        """
        if latency is not None:
            if not 1 <= latency <= 1_000_000:
                raise SimulationError(f"latency={latency}: must lie in 1…1000000 cycles")
            self._set(latency=latency)
        if stall is not None:
            if not 0 <= stall <= 0.95:
                raise SimulationError(f"stall={stall}: must be a probability of at most 0.95")
            self._set(stall=int(stall * 2**32))
        if seed is not None:
            self._set(seed=seed % 2**64)
        if errors is not None:
            low, high, access = errors
            self._set(error_low=low, error_high=high, error_access=access)
        if lenient is not None:
            self._set(lenient=int(lenient))
        if windows is not None:
            if len(windows) > WINDOWS:
                raise SimulationError(f"{len(windows)} memory windows: at most {WINDOWS}")
            for i, w in enumerate(windows):
                self._control["window"][0, i] = (w.low, w.high, w.access)
            self._set(windows=len(windows))
        self._set(**dict.fromkeys((*_RESULTS, "rejected", "violations"), 0))
        self._control["message"][0] = b""
        self._set(generation=int(self._control["generation"][0]) + 1)

    def set_dram(self, timing: Mapping[str, int]) -> None:
        """A DRAM in place of a fixed latency: its `spec.dram.Dram.picoseconds`; empty: none."""
        row = self._control["dram"][0]
        for name in DRAM:
            row[name] = timing.get(name, 0)
        self._set(generation=int(self._control["generation"][0]) + 1)

    def report(self) -> MemoryReport:
        row = self._control[0]
        counts = {n: int(row[n]) for n in (*_RESULTS, "rejected", "violations")}
        return MemoryReport(**counts, message=bytes(row["message"]).decode(errors="replace"))

    def _set(self, **values: int) -> None:
        for name, value in values.items():
            self._control[name][0] = value


def _reserve(path: Path, old: int, size: int) -> None:
    """Make the file `size` bytes long, every block its own; as it was where that cannot be."""
    try:
        with path.open("ab") as file:
            try:
                os.posix_fallocate(file.fileno(), old, size - old)
            except OSError as error:
                file.truncate(old)
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
                # The file system cannot reserve: writing does it.
                for _ in range(old, size, 1 << 20):
                    file.write(bytes(min(1 << 20, size - file.tell())))
    except OSError as error:
        with contextlib.suppress(OSError):
            os.truncate(path, old)
        room = no_room("simulated memory", error, size - old, path.parent)
        raise SimulationError(str(room)) from None

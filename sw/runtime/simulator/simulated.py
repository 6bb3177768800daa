"""What devices share whose hardware is a simulation: its memory's report, and its end."""

from typing import Self

from sw.runtime.simulator.build import Build
from sw.runtime.simulator.control import MemoryReport, SharedMemory
from sw.runtime.simulator.process import SimulatorProcess


class Simulated:
    """A device that holds a build and the process of its simulation; use it in a `with`."""

    _build: Build
    _process: SimulatorProcess
    _memory: SharedMemory

    def memory_report(self) -> MemoryReport:
        """What the memory saw in the last run."""
        return self._memory.report()

    def close(self) -> None:
        """End the simulation; `SimulationError` if its cocotb test failed."""
        if hasattr(self, "_process"):
            self._process.close()
        self._build.release()

    def kill(self) -> None:
        """End the simulation at once, without its checks."""
        if hasattr(self, "_process"):
            self._process.kill()
        self._build.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()

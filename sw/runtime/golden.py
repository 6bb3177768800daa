"""The golden model as a device."""

import time

import numpy as np
from numpy.typing import NDArray

from golden_model import Machine, TensorError
from spec import Image, NpuConfig
from sw.runtime.device import RunResult, Tensor
from sw.runtime.timing import predicted_cycles


class GoldenDevice:
    """Executes images in NumPy, bit-exactly; it has no clock, so no cycles and no counters, but
    the cycles that the compiler predicts.

    check: look for hazards too (several times slower).
    """

    def __init__(self, config: NpuConfig, check: bool = True) -> None:
        self._machine = Machine(config)
        self._check = check
        self._missing: set[str] = set()
        self._predicted: int | None = None

    @property
    def config(self) -> NpuConfig:
        return self._machine.config

    def load(self, image: Image) -> None:
        """Take an image; `ImageError` if it is for another configuration."""
        image.check_device(self.config)
        self._machine.load(image)
        self._missing = {port.name for port in image.inputs}
        self._predicted = predicted_cycles(image)

    def write(self, name: str, array: Tensor) -> None:
        """Put an input in place; `TensorError` unless name, shape and dtype are a port's."""
        self._machine.write(name, array)
        self._missing.discard(name)

    def run(self) -> RunResult:
        """Execute; raises what `Machine.run` raises, `TensorError` for an input never written."""
        if self._missing:
            names = ", ".join(sorted(self._missing))
            raise TensorError(f"inputs not written before the run: {names}")
        start = time.perf_counter()
        self._machine.execute(self._check)
        wall = time.perf_counter() - start
        return RunResult(cycles=None, predicted_cycles=self._predicted, wall_s=wall)

    def read(self, name: str) -> Tensor:
        return self._machine.read(name)

    def memory(self, region: int) -> NDArray[np.uint8]:
        """A copy of all bytes of a region of the loaded image."""
        return self._machine.memory[region].copy()

    def close(self) -> None:
        """Nothing to free."""

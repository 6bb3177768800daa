"""What every device can do, and what a run reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from spec import Image, NpuConfig

Tensor = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Figures of one run.

    cycles: None where the device has no clock (golden). predicted_cycles: the compiler's, None for
    images that do not say. counters: engine -> stall cause -> cycles, names in lower case. vectors:
    activation vectors issued to the array. read_bytes, write_bytes: traffic to memory. wall_s:
    seconds that the run took here.
    """

    cycles: int | None
    predicted_cycles: int | None = None
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    vectors: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    wall_s: float = 0.0


class Device(Protocol):
    """Something that executes program images.

    Every error is a `SystolaError`. A device takes images of its own configuration only.
    """

    @property
    def config(self) -> NpuConfig: ...

    def load(self, image: Image) -> None:
        """Take a program image and put its constants in memory."""

    def write(self, name: str, array: Tensor) -> None:
        """Put an input tensor in memory; its shape and dtype are the port's."""

    def run(self) -> RunResult:
        """Execute the program once, to its end."""

    def read(self, name: str) -> Tensor:
        """An output tensor (copied) as it is in memory."""

    def close(self) -> None:
        """Free what the device holds."""

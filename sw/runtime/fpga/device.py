"""A board with an NPU as a device: programs and tensors by its serial line."""

import time
from collections.abc import Sequence

import numpy as np

from golden_model.memory import read_port, write_port
from spec.config import NpuConfig
from spec.isa import ISA_DIGEST
from spec.memmap import ID_VALUE, OFFSETS, Control, Status
from spec.program import REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP, Image
from sw.runtime.device import RunResult, Tensor
from sw.runtime.fpga.line import Line, LineError, Stream
from sw.runtime.simulator.registers import describe_instruction, read_fault, read_result, read_words

ALIGNMENT = 64
REGIONS = (REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP)
WATCHDOG = 1_000_000
"""Cycles without progress after which the NPU gives up."""
LONGEST_S = 600.0


class SerialDevice:
    """Runs program images of `config` on the board behind `stream`.

    longest_s: seconds that a run may take. Errors: `LineError`; `ImageError` and `TensorError` as
    every device.
    """

    def __init__(self, config: NpuConfig, stream: Stream, longest_s: float = LONGEST_S) -> None:
        self.config = config
        self._longest_s = longest_s
        self._line = Line(stream)
        self._image: Image | None = None
        self._program = 0
        self._places: dict[int, int] = {}
        self._inputs = np.zeros(0, np.uint8)
        self._identify()

    def load(self, image: Image) -> None:
        """Place program and regions, one behind the other, and write program and constants."""
        image.check_device(self.config)
        sizes = [image.program.size, *(image.region_bytes(region) for region in REGIONS)]
        ends = np.cumsum([-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]).tolist()
        if ends[-1] > self._line.memory_bytes:
            raise LineError(
                f"the program needs {ends[-1]:,} bytes of memory, the board has "
                f"{self._line.memory_bytes:,}; take a smaller model or a board with more"
            )
        self._image = image
        self._program, self._places = 0, dict(zip(REGIONS, ends[:-1], strict=True))
        self._inputs = np.zeros(image.region_bytes(REGION_INPUT), np.uint8)
        self._line.write(self._program, image.program.tobytes())
        self._line.write(self._places[REGION_CONST], image.constants.tobytes())

    def write(self, name: str, array: Tensor) -> None:
        """Set input `name`; `TensorError` unless shape and dtype are the port's."""
        write_port(self._inputs, self._loaded().inputs, name, array)

    def run(self) -> RunResult:
        """Execute the loaded program once; `LineError` if it faults or does not end in time."""
        image = self._loaded()
        self._line.write(self._places[REGION_INPUT], self._inputs.tobytes())
        for name, value in self._registers(image):
            self._line.set(OFFSETS[name], value)
        began = time.monotonic()
        self._line.set(OFFSETS["CONTROL"], Control.START)
        while not self._line.get(OFFSETS["STATUS"]) & (Status.DONE | Status.FAULT):
            if time.monotonic() - began > self._longest_s:
                raise LineError(f"the program does not end within {self._longest_s:g} s")
        wall = time.monotonic() - began
        fault = read_fault(self._read)
        if fault is not None:
            where = describe_instruction(image, fault.instruction)
            self._line.set(OFFSETS["CONTROL"], Control.RESET)
            raise LineError(
                f"{fault.cause} in {fault.engine}, instruction {fault.instruction}: {where}"
            )
        return read_result(self._read, wall, self.config)

    def read(self, name: str) -> Tensor:
        """A copy of output `name`."""
        image = self._loaded()
        size = image.region_bytes(REGION_OUTPUT)
        data = np.frombuffer(self._line.read(self._places[REGION_OUTPUT], size), np.uint8)
        return read_port(data, image.outputs, name)

    def close(self) -> None:
        """Nothing is held."""

    def _registers(self, image: Image) -> list[tuple[str, int]]:
        """Where everything lies. The addresses have 32 bits."""
        places = {"PROGRAM": self._program} | {f"BASE{r}": at for r, at in self._places.items()}
        low = [(f"{name}_LO", at) for name, at in places.items()]
        high = [(f"{name}_HI", 0) for name in places]
        limits = [(f"LIMIT{region}", image.region_bytes(region)) for region in REGIONS]
        rest = [("PROGRAM_BYTES", image.program.size), ("WATCHDOG", WATCHDOG)]
        return [*low, *high, *limits, *rest]

    def _read(self, offsets: Sequence[int]) -> list[int]:
        return [self._line.get(offset) for offset in offsets]

    def _loaded(self) -> Image:
        if self._image is None:
            raise LineError("no program is loaded: call load(image) first")
        return self._image

    def _identify(self) -> None:
        values = read_words(self._read, ["ID", "ISA_DIGEST", "CONFIG_DIGEST"])
        wanted = {"ID": ID_VALUE, "ISA_DIGEST": ISA_DIGEST, "CONFIG_DIGEST": self.config.digest()}
        for name, value in wanted.items():
            if values[name] != value:
                raise LineError(
                    f"register {name} of the board reads {values[name]:#x}, not {value:#x}: its "
                    f"bitstream is not of this release and configuration {self.config.name}"
                )

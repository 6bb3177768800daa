"""Where a program image's regions lie in the simulated memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden_model.memory import read_port, write_port
from spec.config import NpuConfig
from spec.isa import REGIONS
from spec.memmap import OFFSETS
from spec.places import IN_MEMORY, sizes, spread
from spec.program import (
    REGION_CONST,
    REGION_INPUT,
    REGION_OUTPUT,
    REGION_TEMP,
    Image,
)
from sw.runtime.simulator.control import READ, WRITE, SharedMemory, Window
from sw.runtime.simulator.errors import SimulationError

POISON = 0xA5
"""What outputs and temporary memory hold before a run: a result never written is no lucky zero."""

_ACCESS = {
    REGION_CONST: READ,
    REGION_INPUT: READ,
    REGION_OUTPUT: READ | WRITE,
    REGION_TEMP: READ | WRITE,
}


def memory_base(config: NpuConfig) -> int:
    """First address of the simulated memory: not 0, and beyond 32 bits where the NPU can."""
    return 1 << 32 if config.axi_addr_bits > 32 else 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """`size` bytes at byte `offset` of the memory file."""

    offset: int
    size: int


class MemoryLayout:
    """Program and regions of `image`, page by page, an unused page between any two.

    start: byte of the memory file where it begins; `size`: where it ends.
    """

    def __init__(self, image: Image, base: int, start: int = 0) -> None:
        self.image = image
        self._base = base
        found = sizes(image)
        offsets, at = spread(found, start)
        spans = [Span(offset=o, size=n) for o, n in zip(offsets, found, strict=True)]
        self.program = spans[0]
        self.regions = dict(zip(IN_MEMORY, spans[1:], strict=True))
        self.size = at
        space = 1 << image.config.axi_addr_bits
        if base + at > space:
            raise SimulationError(
                f"the program needs {at:,} bytes of memory from address {base:#x} on; "
                f"configuration {image.config.name} has {image.config.axi_addr_bits} address bits "
                f"(field axi_addr_bits), {space - base:,} bytes from there"
            )

    def windows(self, any_access: bool = False) -> list[Window]:
        """What the NPU may access, and how; `any_access`: a region has no rights, as in the NPU."""
        spans = [(self.program, READ), *((s, _ACCESS[r]) for r, s in self.regions.items())]
        return [
            Window(
                low=self._base + span.offset,
                high=self._base + span.offset + span.size,
                access=READ | WRITE if any_access and span is not self.program else access,
            )
            for span, access in spans
            if span.size
        ]

    def registers(self) -> list[tuple[int, int]]:
        """(offset, value) of the registers that tell the NPU where everything lies."""
        out = register_pair("PROGRAM", self._base + self.program.offset)
        out.append((OFFSETS["PROGRAM_BYTES"], self.program.size))
        for region, span in self.regions.items():
            out += register_pair(f"BASE{region}", self._base + span.offset)
        out += [(OFFSETS[f"LIMIT{i}"], self.region_bytes(i)) for i in range(REGIONS)]
        return out

    def region_bytes(self, region: int) -> int:
        """Size of a region, which is its limit; 0 for those that no image has."""
        return self.regions[region].size if region in self.regions else 0

    def place(self, memory: SharedMemory) -> None:
        """Write program and constants; poison the rest."""
        memory.resize(self.size)
        self._bytes(memory, self.program)[:] = self.image.program
        self.region(memory, REGION_CONST)[:] = self.image.constants
        for region in (REGION_INPUT, REGION_OUTPUT, REGION_TEMP):
            self.poison(memory, region)

    def poison(self, memory: SharedMemory, region: int) -> None:
        self.region(memory, region)[:] = POISON

    def write(self, memory: SharedMemory, name: str, array: NDArray[Any]) -> None:
        """Set input `name`; `TensorError` if `array` does not fit it."""
        write_port(self.region(memory, REGION_INPUT), self.image.inputs, name, array)

    def read(self, memory: SharedMemory, name: str) -> NDArray[Any]:
        """A copy of output `name`."""
        return read_port(self.region(memory, REGION_OUTPUT), self.image.outputs, name)

    def region(self, memory: SharedMemory, region: int) -> NDArray[np.uint8]:
        """The bytes of a region, writable."""
        return self._bytes(memory, self.regions[region])

    @staticmethod
    def _bytes(memory: SharedMemory, span: Span) -> NDArray[np.uint8]:
        return memory.data[span.offset : span.offset + span.size]


def register_pair(name: str, address: int) -> list[tuple[int, int]]:
    """(offset, value) of the registers `name`_LO and `name`_HI that hold an address."""
    return [
        (OFFSETS[f"{name}_LO"], address & 0xFFFF_FFFF),
        (OFFSETS[f"{name}_HI"], address >> 32),
    ]

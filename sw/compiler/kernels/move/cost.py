"""Cost model of a MoveLayer: load and store overlap, so the bytes count once."""

from spec.config import NpuConfig
from sw.compiler.machine.costs import MEMORY_LATENCY


def move_cycles(nbytes: int, config: NpuConfig, chip: bool = False) -> int:
    """Cycles of moving so many bytes: the first tile's load and the last one's store are bare.
    chip: one side is on chip, and there is but a load or a store.
    """
    # AXI reads and writes on channels of their own: neither waits for the other.
    return nbytes // config.bus_bytes + (1 if chip else 3) * MEMORY_LATENCY

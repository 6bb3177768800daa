"""Cost model: load, compute and store one after the other."""

from spec.config import NpuConfig
from sw.compiler.machine.costs import MEMORY_LATENCY


def offset_cycles(nbytes: int, config: NpuConfig) -> int:
    """Cycles for so many bytes."""
    return 2 * nbytes // config.bus_bytes + 2 * MEMORY_LATENCY

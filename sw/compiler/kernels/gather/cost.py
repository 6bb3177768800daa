"""Cost model of a GatherLayer: every row is a request of its own on the far side."""

import math

from spec.config import NpuConfig
from sw.compiler.kernels.gather.layer import GatherLayer
from sw.compiler.machine.costs import MEMORY_LATENCY


def gather_cycles(layer: GatherLayer, config: NpuConfig) -> int:
    """Bus words of the rows as the far side has them, and again as one run, one after the other."""
    rows = layer.batch * layer.rows
    beats = rows * -(-layer.row_bytes // config.bus_bytes)
    # Offsets come before the rows that they name, and rows before their store: latencies add up.
    return beats + math.ceil(rows * layer.row_bytes / config.bus_bytes) + 4 * MEMORY_LATENCY

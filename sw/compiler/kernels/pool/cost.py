"""Cost model of pools: the vector engine for a window. For the rest see `vector.cost`."""

from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.machine.costs import DEPENDENT_STEP_CYCLES, VECTOR_TILE_CYCLES


def window_cycles(layer: PoolLayer) -> int:
    """Cycles for a vector of results: one a tap, and one for the RESCALE of an average."""
    rows, cols = layer.kernel
    if layer.is_separate:
        return rows * layer.stride[1] + cols
    return rows * cols + (layer.average and not layer.sums)


def tile_cycles(layer: PoolLayer) -> int:
    """Cycles of a tile besides its vectors: of two VECTORs the second waits for the first."""
    return VECTOR_TILE_CYCLES + layer.is_separate * (VECTOR_TILE_CYCLES + DEPENDENT_STEP_CYCLES)

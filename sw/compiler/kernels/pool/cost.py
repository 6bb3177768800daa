"""Cost model of pools: the vector engine for a window. For the rest see `vector.cost`."""

from sw.compiler.kernels.pool.layer import PoolLayer


def window_cycles(layer: PoolLayer) -> int:
    """Cycles for a vector of results: one a tap, and one for the RESCALE of an average."""
    rows, cols = layer.kernel
    return rows * cols + (layer.average and not layer.sums)

"""Cost model of pools: steps of the vector engine for a window. For the rest see `vector.cost`."""

from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.kernels.pool.windows import pair_rows


def window_steps(layer: PoolLayer) -> int:
    """Steps per vector of results: one a tap; maxima take two rows in one step."""
    # Of an odd number of rows one is taken twice, which a maximum allows and a sum does not.
    rows, cols = layer.kernel
    return (rows if layer.average else pair_rows(rows)) * cols

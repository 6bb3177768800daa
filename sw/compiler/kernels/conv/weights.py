"""Constant weights in the order in which the array takes them."""

import numpy as np
from numpy.typing import NDArray

from sw.compiler.kernels.conv.geometry import KTile


def pack_weights(weights: NDArray[np.int8], k_tile: KTile, o0: int, o1: int, cols: int) -> bytes:
    """Output channels o0…o1 of [OC,KH,KW,IC] weights as [block][c][kh][kw][col].

    The channel outermost keeps every stride regular when IC is no multiple of the array's rows.
    """
    piece = weights[o0:o1, k_tile.kh0 : k_tile.kh1, :, k_tile.c0 : k_tile.c1]
    blocks = [piece[i : i + cols].transpose(3, 1, 2, 0).tobytes() for i in range(0, o1 - o0, cols)]
    return b"".join(blocks)

"""softmax(q·kᵀ·scale)·v for [heads, rows, size]: scores and weights stay on chip.

Blocks of rows pass through two stages. While the vector engine makes the weights of a block, the
array multiplies those of the block before by the values.
"""

from collections.abc import Iterator

import systola.language as nl
from spec.sequences.rows import shift_for
from systola.language import Tensor, Tile, int8, int32, tiles


def weigh(q: Tensor, keys: Tile, step: float, tile: int, weights: list, sums: Tile) -> Iterator:
    """int8 weights in steps of 1/255 of each row's largest, zero point −128, and their sums."""
    for i in tiles(q.shape[0], tile):
        e, one = nl.exponentials(nl.dot(nl.load(q[i]), keys.T), step, levels=255)
        weights.append(nl.keep(e.requantize(255 / one, -128)))
        nl.keep((weights[-1] + 128).sum(), into=sums[i])
        yield


def finish(out: Tensor, weights: list, values: Tile, inverse: Tile, scale: float) -> Iterator:
    """The weighted values, divided by the sums of the weights."""
    shift = shift_for(1.01 * 128 / scale)
    for i, w in zip(tiles(out.shape[0], weights[0].shape[0]), weights, strict=True):
        product = nl.dot(w, values, x_zero=-128).times(inverse[i], shift)
        nl.store(out[i], product.requantize(scale * 2.0**shift))
        yield


@nl.kernel(result=lambda q, v: int8[q.shape[0], q.shape[1], v.shape[2]])
def attention(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, step: float, block: int = 64, tile: int = 32
) -> None:
    """`step`: of a score, the scales of q and k over √size. The result has the scale of v."""
    before = iter(())
    for head in range(q.shape[0]):
        keys, values = nl.load(k[head]), None
        for part in tiles(q.shape[1], block):
            weights, sums = [], nl.empty(q, int32[part.stop - part.start, 1])
            nl.interleave(weigh(q[head, part], keys, step, tile, weights, sums), before)
            values = values or nl.load(v[head])  # needed later than the queries
            inverse, factor = nl.reciprocal(sums, 255, 255 * keys.shape[0])
            before = finish(out[head, part], weights, values, nl.keep(inverse), factor)
    nl.interleave(before)

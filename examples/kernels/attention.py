"""softmax(q·kᵀ·scale)·v for [heads, rows, size]: scores and weights stay on chip.

Blocks of rows pass through two stages. While the vector engine makes the weights of a block, the
array multiplies those of the block before by the values.
"""

from collections.abc import Iterator

from spec.sequences.rows import shift_for
from systola.language import (
    Tensor,
    Tile,
    dot,
    empty,
    exponentials,
    int8,
    int32,
    interleave,
    keep,
    kernel,
    load,
    reciprocal,
    store,
    tiles,
)


def weigh(q: Tensor, keys: Tile, step: float, tile: int, weights: list, sums: Tile) -> Iterator:
    """int8 weights in steps of 1/255 of each row's largest, zero point −128, and their sums."""
    for i in tiles(q.shape[0], tile):
        e, one = exponentials(dot(load(q[i]), keys.T), step)
        weights.append(keep(e.requantize(255 / one, -128)))
        keep((weights[-1] + 128).sum(), into=sums[i])
        yield


def finish(
    out: Tensor, weights: list, values: Tile, inverse: Tile, scale: float, tile: int
) -> Iterator:
    """The weighted values, divided by the sums of the weights; `scale` is of the quotient."""
    shift = shift_for(1.01 * 128 / scale[0])
    for i, w in zip(tiles(out.shape[0], tile), weights, strict=True):
        product = dot(w, values, x_zero=-128).times(inverse[i], shift)
        store(out[i], product.requantize(scale[0] * scale[1] * 2.0**shift))
        yield


@kernel(result=lambda q, v: int8[q.shape[0], q.shape[1], v.shape[2]])
def attention(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, step: float, out_scale: float,
    block: int = 64, tile: int = 32,
) -> None:  # fmt: skip
    """`step`: of a score, the scales of q and k over √size; `out_scale`: v's over out's."""
    before = iter(())
    for head in range(q.shape[0]):
        keys, values = load(k[head]), load(v[head])
        for part in tiles(q.shape[1], block):
            weights, sums = [], empty(q, int32[part.stop - part.start, 1])
            interleave(weigh(q[head, part], keys, step, tile, weights, sums), before)
            inverse, factor = reciprocal(sums, 255, 255 * keys.shape[0])
            inverse, scale = keep(inverse), (factor, out_scale)
            before = finish(out[head, part], weights, values, inverse, scale, tile)
    interleave(before)

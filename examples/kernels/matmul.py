"""out[m, n] = requantize(a[m, k] · b[k, n]): tiles of rows keep their operand, columns pass by."""

from collections.abc import Sequence

from systola.language import Tensor, dot, int8, kernel, load, store, tiles


@kernel(result=lambda a, b: int8[a.shape[0], b.shape[1]])
def matmul(a: Tensor, b: Tensor, out: Tensor, scale: float, tile: Sequence[int] = (64, 16, 32)):
    for i in tiles(a.shape[0], tile[0]):
        x = {}
        for j in tiles(b.shape[1], tile[2]):
            sums = None
            for k in tiles(a.shape[1], tile[1]):
                w = load(b[k, j])
                if j.start == 0:
                    x[k.start] = load(a[i, k])
                sums = dot(x[k.start], w, sums)
            for n in tiles(sums.shape[1], a.config.cols):
                store(out[i, j][:, n], sums[:, n].requantize(scale))

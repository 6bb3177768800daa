from systola.language import Tensor, dot, int8, kernel, load, store, tiles


@kernel(result=lambda a, b: int8[a.shape[0], b.shape[1]])
def matmul(a: Tensor, b: Tensor, out: Tensor, scale: float = 2.0**-7, tile: int = 64) -> None:
    (m, k), n = a.shape, b.shape[1]
    for j in tiles(n, tile):
        for i in tiles(m, tile):
            sums = None
            for p in tiles(k, tile):
                sums = dot(load(a[i, p]), load(b[p, j]), sums)
            store(out[i, j], sums.requantize(scale))

"""Runs of pool outputs that are computed alike: averages of equally many taps, rows in pairs."""

from collections.abc import Iterator
from itertools import groupby

from sw.compiler.kernels.pool.layer import PoolLayer


def pair_rows(rows: int) -> int:
    """Steps that take `rows` kernel rows in pairs: rows i and rows - pair_rows + i together."""
    return -(-rows // 2)


def pair_runs(
    start: int, stop: int, layer: PoolLayer, size: int
) -> Iterator[tuple[int, int, bool]]:
    """Runs of output rows (from, to) that can take their kernel rows in pairs, and that cannot.

    What the first row of a pair says about being inside holds for both: the second must lie inside
    with it, and must be the first of another pair if the first is outside.
    """
    kernel, stride, pad = layer.kernel[0], layer.stride[0], layer.pad[0]
    outside = 2 * pair_rows(kernel) - kernel

    def fits(row: int) -> bool:
        top = row * stride - pad
        return kernel > 1 and top >= -outside and top + kernel <= size

    for good, run in groupby(range(start, stop), fits):
        rows = list(run)
        yield rows[0], rows[-1] + 1, good


def same_taps(start: int, stop: int, layer: PoolLayer, axis: int) -> Iterator[tuple[int, int, int]]:
    """Runs of output positions with equally many taps inside the input: (from, to, taps)."""
    size = layer.input.shape[1 + axis]
    kernel, stride, pad = layer.kernel[axis], layer.stride[axis], layer.pad[axis]

    def taps(at: int) -> int:
        first = at * stride - pad
        return min(first + kernel, size) - max(first, 0)

    while start < stop:
        end = start + 1
        while end < stop and taps(end) == taps(start):
            end += 1
        yield start, end, taps(start)
        start = end

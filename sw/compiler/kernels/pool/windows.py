"""Runs of pool outputs that are computed alike: averages of equally many taps."""

from collections.abc import Iterator

from sw.compiler.kernels.pool.layer import PoolLayer


def same_taps(start: int, stop: int, layer: PoolLayer, axis: int) -> Iterator[tuple[int, int, int]]:
    """Runs of output positions whose averages count equally many taps: (from, to, taps)."""
    if layer.counts_padding:
        yield start, stop, layer.kernel[axis]
        return
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

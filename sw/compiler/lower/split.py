"""Windows over images that are larger than an instruction's coordinates, or mostly over padding.

Coordinates in an image are 16 bits. Larger layers are cut into pieces of the output, each over the
rows and columns that it reads, with the kernel's rows and columns that meet the input at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sw.compiler.kernels.layers import ConvLayer, DepthwiseLayer, Layer, PoolLayer
from sw.compiler.kernels.views import View

LIMIT = 16_384
"""Largest size, reach or padding that is left as it is."""

KERNEL = 256
"""Most kernel rows, or columns, that a layer keeps without a look at which meet the input."""

_Window = ConvLayer | DepthwiseLayer | PoolLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One dimension of a window layer."""

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    @property
    def fits(self) -> bool:
        reach = (self.kernel - 1) * self.dilation
        return max(self.size, self.out, reach, self.pad, self.stride) <= LIMIT and (
            self.kernel <= KERNEL
        )

    def taps(self, at: int) -> tuple[int, int]:
        """The kernel rows of output `at` that lie in the input; (0, 0) for none."""
        first = at * self.stride - self.pad
        low = max(0, -(first // self.dilation))
        high = min(self.kernel, (self.size - 1 - first) // self.dilation + 1)
        return (low, high) if low < high else (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Outputs o0…o1 from inputs i0…i1 with kernel rows t0…t1 and `pad` before the inputs."""

    o0: int
    o1: int
    i0: int
    i1: int
    t0: int
    t1: int
    pad: int


def pieces(axis: Axis) -> Iterator[Piece]:
    """Pieces that cover the outputs; one that changes nothing where everything fits."""
    if axis.fits:
        size = axis.size
        yield Piece(o0=0, o1=axis.out, i0=0, i1=size, t0=0, t1=axis.kernel, pad=axis.pad)
        return
    start = 0
    while start < axis.out:
        stop, taps = start + 1, axis.taps(start)
        while stop < axis.out:
            more = _union(taps, axis.taps(stop))
            reach = (stop - start) * axis.stride + (more[1] - more[0]) * axis.dilation
            grown = more[1] - more[0] > KERNEL and more != taps
            if reach > LIMIT or grown:
                break
            taps, stop = more, stop + 1
        yield _piece(axis, start, stop, taps)
        start = stop


def _union(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    known = [taps for taps in (a, b) if taps[0] < taps[1]]
    return (min(t[0] for t in known), max(t[1] for t in known)) if known else (0, 0)


def _piece(axis: Axis, start: int, stop: int, taps: tuple[int, int]) -> Piece:
    if taps[0] == taps[1]:
        # Nothing but padding: any row of the kernel, just before the input.
        return Piece(o0=start, o1=stop, i0=0, i1=1, t0=0, t1=1, pad=(stop - start) * axis.stride)
    first = start * axis.stride - axis.pad + taps[0] * axis.dilation
    last = (stop - 1) * axis.stride - axis.pad + (taps[1] - 1) * axis.dilation
    i0 = min(max(0, first), axis.size - 1)
    return Piece(
        o0=start,
        o1=stop,
        i0=i0,
        i1=max(i0 + 1, min(axis.size, last + 1)),
        t0=taps[0],
        t1=taps[1],
        pad=i0 - first,
    )


def split(layer: Layer) -> Iterator[Layer]:
    """The pieces of a layer, or the layer itself."""
    if not isinstance(layer, ConvLayer | DepthwiseLayer | PoolLayer):
        yield layer
        return
    dilation = (1, 1) if isinstance(layer, PoolLayer) else layer.dilation
    axes = [
        Axis(
            size=layer.input.shape[1 + i],
            out=layer.output.shape[1 + i],
            kernel=layer.kernel[i],
            stride=layer.stride[i],
            dilation=dilation[i],
            pad=layer.pad[i],
        )
        for i in range(2)
    ]
    pointwise = isinstance(layer, ConvLayer) and layer.is_pointwise
    if pointwise or all(axis.fits for axis in axes):
        yield layer
        return
    for y in pieces(axes[0]):
        for x in pieces(axes[1]):
            yield _cut(layer, y, x)


def _cut(layer: _Window, y: Piece, x: Piece) -> _Window:
    """The part of a layer that computes outputs y.o0…y.o1, x.o0…x.o1."""
    part = replace(
        layer,
        name=f"{layer.name}.y{y.o0}x{x.o0}",
        output=_crop(layer.output, (y.o0, y.o1), (x.o0, x.o1)),
        input=_crop(layer.input, (y.i0, y.i1), (x.i0, x.i1)),
        pad=(y.pad, x.pad),
    )
    if isinstance(part, PoolLayer):
        return replace(part, kernel=(y.t1 - y.t0, x.t1 - x.t0))
    if part.residual is not None:
        operand = part.residual.operand
        view = _crop(operand.view, (y.o0, y.o1), (x.o0, x.o1))
        cut: Any = replace(part.residual, operand=replace(operand, view=view))
        part = replace(part, residual=cut)
    rows, cols = slice(y.t0, y.t1), slice(x.t0, x.t1)
    kept = part.weight_view
    if isinstance(part, DepthwiseLayer):
        weights = None if part.weights is None else part.weights[rows, cols]
        if kept is not None:
            kept = _crop(kept, (y.t0, y.t1), (x.t0, x.t1))
        return replace(part, weights=weights, weight_view=kept)
    if kept is not None:
        skip = y.t0 * part.weight_row + x.t0 * kept.strides[2]
        kept = replace(kept, offset=kept.offset + skip)
    return replace(
        part,
        kernel=(y.t1 - y.t0, x.t1 - x.t0),
        weights=None if part.weights is None else part.weights[:, rows, cols],
        weight_view=kept,
        weight_pitch=0 if kept is None else part.weight_row,
    )


def _crop(view: View, rows: tuple[int, int], cols: tuple[int, int]) -> View:
    n, _, _, c = view.shape
    _, line, pixel = view.strides
    return replace(
        view,
        shape=(n, rows[1] - rows[0], cols[1] - cols[0], c),
        offset=view.offset + rows[0] * line + cols[0] * pixel,
    )

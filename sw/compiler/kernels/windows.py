"""Windows over images that are larger than an instruction's coordinates, or mostly over padding.

Coordinates in an image are 16 bits. Larger layers are cut into pieces of the output, each over the
rows and columns that it reads, with the kernel's rows and columns that meet the input at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from sw.compiler.kernels.operands import Residual, RowFactor
from sw.compiler.kernels.views import View

LIMIT = 16_384
"""Largest size, reach or padding that is left as it is."""

KERNEL = 256
"""Most kernel rows, or columns, that a layer keeps without a look at which meet the input."""


class WindowLayer(Protocol):
    """What layers with a window have in common."""

    @property
    def input(self) -> View: ...
    @property
    def output(self) -> View: ...
    @property
    def kernel(self) -> tuple[int, int]: ...
    @property
    def stride(self) -> tuple[int, int]: ...
    @property
    def pad(self) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAxis:
    """One dimension of a window layer."""

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    @staticmethod
    def of(layer: WindowLayer, dilation: tuple[int, int]) -> "tuple[WindowAxis, WindowAxis]":
        """Rows and columns of `layer`."""
        rows, cols = (
            WindowAxis(
                size=layer.input.shape[1 + i],
                out=layer.output.shape[1 + i],
                kernel=layer.kernel[i],
                stride=layer.stride[i],
                dilation=dilation[i],
                pad=layer.pad[i],
            )
            for i in range(2)
        )
        return rows, cols

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
class WindowPart:
    """Outputs o0…o1 from inputs i0…i1 with kernel rows t0…t1 and `pad` before the inputs."""

    o0: int
    o1: int
    i0: int
    i1: int
    t0: int
    t1: int
    pad: int

    @property
    def outputs(self) -> tuple[int, int]:
        return self.o0, self.o1

    @property
    def inputs(self) -> tuple[int, int]:
        return self.i0, self.i1

    @property
    def taps(self) -> int:
        return self.t1 - self.t0


def pieces(axis: WindowAxis) -> Iterator[WindowPart]:
    """Pieces that cover the outputs; one that changes nothing where everything fits."""
    if axis.fits:
        size = axis.size
        yield WindowPart(o0=0, o1=axis.out, i0=0, i1=size, t0=0, t1=axis.kernel, pad=axis.pad)
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


def _piece(axis: WindowAxis, start: int, stop: int, taps: tuple[int, int]) -> WindowPart:
    if taps[0] == taps[1]:
        # Nothing but padding: any row of the kernel, just before the input.
        return WindowPart(
            o0=start, o1=stop, i0=0, i1=1, t0=0, t1=1, pad=(stop - start) * axis.stride
        )
    first = start * axis.stride - axis.pad + taps[0] * axis.dilation
    last = (stop - 1) * axis.stride - axis.pad + (taps[1] - 1) * axis.dilation
    i0 = min(max(0, first), axis.size - 1)
    return WindowPart(
        o0=start,
        o1=stop,
        i0=i0,
        i1=max(i0 + 1, min(axis.size, last + 1)),
        t0=taps[0],
        t1=taps[1],
        pad=i0 - first,
    )


def window_parts(
    axes: tuple[WindowAxis, WindowAxis],
) -> Iterator[tuple[WindowPart, WindowPart] | None]:
    """Pieces of rows and columns that cover the outputs; None for a layer that fits as it is."""
    if all(axis.fits for axis in axes):
        yield None
        return
    for y in pieces(axes[0]):
        for x in pieces(axes[1]):
            yield y, x


Added = TypeVar("Added", Residual, RowFactor, Residual | RowFactor)


def cut_residual(residual: Added, y: WindowPart, x: WindowPart) -> Added:
    """What a product adds (or is multiplied by) in some of its outputs."""
    operand = residual.operand
    return replace(
        residual, operand=replace(operand, view=crop(operand.view, y.outputs, x.outputs))
    )


def crop(view: View, rows: tuple[int, int], cols: tuple[int, int]) -> View:
    n, _, _, c = view.shape
    _, line, pixel = view.strides
    return replace(
        view,
        shape=(n, rows[1] - rows[0], cols[1] - cols[0], c),
        offset=view.offset + rows[0] * line + cols[0] * pixel,
    )

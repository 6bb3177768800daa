"""Geometry of a depthwise layer: boxes of outputs, what they read, and passes over the kernel.

One DEPTHWISE takes up to KERNEL_ROWS kernel rows and `taps` kernel columns. Larger kernels take
several passes, each an instruction that adds to the sums of those before it.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from spec.fields import field_of
from spec.isa import KERNEL_ROWS, Opcode
from sw.compiler.kernels.boxes import Box, clip
from sw.compiler.kernels.depthwise.layer import DepthwiseLayer

MAX_STEP = field_of(Opcode.DEPTHWISE, "row_step").maximum
"""Largest stride and dilation that the fields `row_step` and `col_step` hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Kernel rows kh0…kh1 and `cols` kernel columns from kw0 on.

    Inputs `step` columns apart are read; `stride` of them lie between neighbouring outputs.
    """

    kh0: int
    kh1: int
    kw0: int
    cols: int
    stride: int
    step: int

    @property
    def rows(self) -> int:
        return self.kh1 - self.kh0

    def reads(self, outputs: int) -> int:
        """Input columns that a row of `outputs` reads."""
        return (outputs - 1) * self.stride + self.cols


def passes(layer: DepthwiseLayer, taps: int) -> tuple[Pass, ...]:
    """Passes that cover the kernel once."""
    return kernel_passes(layer.kernel, layer.stride[1], layer.dilation[1], taps)


def kernel_passes(
    kernel: tuple[int, int], stride: int, dilation: int, taps: int
) -> tuple[Pass, ...]:
    """Passes that cover a kernel once. `stride`, `dilation`: of its columns."""
    kh, kw = kernel
    return tuple(
        Pass(kh0=k, kh1=min(k + KERNEL_ROWS, kh), kw0=t, cols=cols, stride=apart, step=step)
        for k in range(0, kh, KERNEL_ROWS)
        for t, cols, apart, step in _columns(kw, stride, dilation, taps)
    )


def _columns(kw: int, stride: int, dilation: int, taps: int) -> Iterator[tuple[int, int, int, int]]:
    """(first kernel column, columns, stride, step) of each pass over the kernel's columns.

    Neighbouring kernel columns share the inputs that they read where outputs lie a whole number of
    dilations apart; a pass of several columns must have at least as many as that number.
    """
    apart = stride // dilation if stride % dilation == 0 else taps + 1
    at = 0
    while at < kw:
        cols = min(taps, kw - at)
        if cols >= apart:
            yield at, cols, apart, dilation
            at += cols
        else:
            # One column at a time, from one output's input straight to the next one's.
            yield at, 1, 1, stride
            at += 1


def inputs_of(layer: DepthwiseLayer, box: Box) -> Box:
    """The inputs that `box` of the output reads, clipped to the input."""
    _, h, w, _ = layer.input.shape
    (kh, kw), (sy, sx) = layer.kernel, layer.stride
    (dy, dx), (py, px) = layer.dilation, layer.pad
    y0, y1 = clip(box.y0 * sy - py, (box.y1 - 1) * sy - py + (kh - 1) * dy + 1, h)
    x0, x1 = clip(box.x0 * sx - px, (box.x1 - 1) * sx - px + (kw - 1) * dx + 1, w)
    return replace(box, y0=y0, y1=y1, x0=x0, x1=x1)


def units(box: Box, lanes: int, room: int, channels_first: bool = False) -> Iterator[Box]:
    """Pieces of `box` of at most `room` accumulator vectors, nearly equal.

    `lanes`: channels of a vector. A row of `box` must fit. All channels of some rows come before
    the next rows, or with `channels_first` all rows of some channels before the next channels.
    """
    rows = _piece(box.rows, max(1, room // box.cols))
    blocks = -(-box.channels // lanes)
    channels = lanes * _piece(blocks, max(1, room // (rows * box.cols)))
    ys, cs = range(box.y0, box.y1, rows), range(box.c0, box.c1, channels)
    corners = ((y, c) for c in cs for y in ys) if channels_first else itertools.product(ys, cs)
    for y, c in corners:
        yield replace(box, y0=y, y1=min(y + rows, box.y1), c0=c, c1=min(c + channels, box.c1))


def _piece(size: int, limit: int) -> int:
    """The size of nearly equal pieces of at most `limit`."""
    count = -(-size // limit)
    return -(-size // count)

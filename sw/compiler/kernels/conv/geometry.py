"""Geometry of a convolution on the array: dimensions, tiles of K, and what a tile reads.

Few channels would leave most array rows idle. In NHWC the kw x C values of a window row lie next to
each other, so a layer that packs *rows* takes them as one vector of kw x C channels and loops over
no kernel columns. Such a vector straddles the padding at the sides: tiles then hold it as filled
columns.

A layer that packs *windows* takes all kh x kw x C values as one vector. A tile then holds, for each
output column, the window rows of that column one below the other, so that a vector begins where
the window's first row lies; windows that overlap vertically share their rows. See `window_loads`.

Few pixels would leave the array waiting for weights: a fold lasts at least as long as the next
fold's weights take to load. Where a batch's samples share weights, a tile can hold several of them,
one below the other (`stacked`), and a fold serves all of them.
"""

import enum
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from sw.compiler.kernels.boxes import Range, Tile, clip
from sw.compiler.kernels.conv.layer import ConvLayer
from sw.compiler.kernels.views import View
from sw.compiler.machine.costs import weight_cycles

MIN_SLICED = 32
"""Vectors from which slices of the first load, the last epilogue and store pay."""


class Packing(enum.Enum):
    """What one activation vector spans besides the channels of a pixel."""

    NONE = "plain"
    ROWS = "rows packed"
    WINDOWS = "windows packed"


def equal_parts(rows: int) -> int:
    """Into how many parts rows are cut that are waited for: equal, as iterations of a loop are."""
    return next(n for n in (4, 3, 2, 1) if rows % n == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KTile:
    """A piece of the reduction: kernel rows kh0…kh1 and input channels c0…c1."""

    kh0: int
    kh1: int
    c0: int
    c1: int

    @property
    def channels(self) -> int:
        return self.c1 - self.c0

    @property
    def kernel_rows(self) -> int:
        return self.kh1 - self.kh0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvGeometry:
    """A ConvLayer's dimensions. A pointwise layer over dense tensors is one tall column of pixels.

    n, h, w: input; c: channels of a vector; pixel: bytes of an input pixel in a tile, where it
    holds all channels (WINDOWS: of a window row); oh, ow, oc: output.
    stacked: samples that a tile holds. `input`, `output` and `residual`, n and oh are then of
    images that are so many samples high; h stays the height of one sample.
    """

    layer: ConvLayer
    input: View
    output: View
    residual: View | None
    n: int
    h: int
    w: int
    c: int
    oh: int
    ow: int
    oc: int
    pixel: int
    packing: Packing
    stacked: int = 1

    @property
    def kernel(self) -> tuple[int, int]:
        """Kernel rows and columns that are loops."""
        kh, kw = self.layer.kernel
        return {Packing.NONE: (kh, kw), Packing.ROWS: (kh, 1), Packing.WINDOWS: (1, 1)}[
            self.packing
        ]

    @property
    def batched(self) -> bool:
        """Whether there are several samples: what rotates should come around within few of them."""
        return self.layer.input.shape[0] > 1 and not self.layer.weights_by_image

    @property
    def bounds(self) -> tuple[bool, bool]:
        """Whether MATRIX must check rows, and columns, against the input's size."""
        # Packed tiles hold padding as filled bytes: ROWS at the sides, WINDOWS on all sides.
        checked = not self.layer.is_pointwise and self.packing is not Packing.WINDOWS
        return checked, checked and self.packing is Packing.NONE

    @property
    def row_step(self) -> int:
        """WINDOWS: stored window rows from one output row to the next."""
        return self.layer.stride[0] if self.shares_rows else self.layer.kernel[0]

    @property
    def shares_rows(self) -> bool:
        """WINDOWS: whether stored rows are consecutive rows of the input, shared by windows."""
        return self.layer.dilation[0] == 1 and self.layer.stride[0] <= self.layer.kernel[0]

    @property
    def weights(self) -> NDArray[np.int8] | None:
        """Constant weights as [OC,KH,KW,C] over the loops of `kernel`."""
        weights = self.layer.weights
        if weights is None or self.packing is Packing.NONE:
            return weights
        return weights.reshape(self.oc, self.kernel[0], 1, self.c)

    def stored(self, k_tile: KTile) -> int:
        """Bytes of a pixel in a tile that is loaded for `k_tile`."""
        return k_tile.channels if self.packing is Packing.NONE else self.pixel

    def window_rows(self, rows: int) -> int:
        """WINDOWS: window rows that a tile of `rows` output rows stores."""
        return (rows - 1) * self.row_step + self.layer.kernel[0]

    def walk(self, rows: int, cols: int, pixel: int) -> tuple[int, int]:
        """Bytes between the vectors of output rows, and of output columns, in a tile.

        The tile holds `rows` x `cols` pixels of `pixel` bytes.
        """
        if self.packing is Packing.WINDOWS:
            return self.row_step * pixel, rows * pixel
        return self.layer.stride[0] * cols * pixel, self.layer.stride[1] * pixel

    def cuts(self, size: int, most: int) -> list[Range]:
        """Pieces of `size` outputs of at most `most`, as few as there can be.

        Of several images they differ by 1 at most, the longer ones first: while a short one is
        computed, too little time would pass to load a long one of the next image. Of one image the
        last is as short as it comes: what it leaves over is finished with nothing beside it.
        """
        pieces = -(-size // most)
        if self.n == 1:
            return [(at, min(at + most, size)) for at in range(0, size, most)]
        short, longer = divmod(size, pieces)
        return list(itertools.pairwise(i * short + min(i, longer) for i in range(pieces + 1)))

    def tiles(self, th: int, tw: int) -> Iterator[Tile]:
        """Tiles of at most th x tw outputs in row-major order, image by image."""
        for b in range(self.n):
            for y0, y1 in self.cuts(self.oh, th):
                for x0, x1 in self.cuts(self.ow, tw):
                    yield Tile(batch=b, y0=y0, y1=y1, x0=x0, x1=x1)

    def input_rows(self, y0: int, y1: int, k_tile: KTile) -> Range:
        """The rows of the input that output rows y0…y1 read, clipped to the input.

        WINDOWS: the window rows that a tile stores, counted from the first one of output row 0.
        """
        if self.packing is Packing.WINDOWS:
            return y0 * self.row_step, y0 * self.row_step + self.window_rows(y1 - y0)
        if self.stacked > 1:
            # A tile holds whole samples.
            return 0, self.stacked * self.h
        s, d, p = self.layer.stride[0], self.layer.dilation[0], self.layer.pad[0]
        return clip(
            y0 * s - p + k_tile.kh0 * d, (y1 - 1) * s - p + (k_tile.kh1 - 1) * d + 1, self.h
        )

    def input_cols(self, x0: int, x1: int) -> Range:
        """The columns of the input that output columns x0…x1 read; ROWS: with the padding.

        WINDOWS: the output columns themselves.
        """
        if self.packing is Packing.WINDOWS:
            return x0, x1
        s, d, p = self.layer.stride[1], self.layer.dilation[1], self.layer.pad[1]
        start, stop = x0 * s - p, (x1 - 1) * s - p + (self.layer.kernel[1] - 1) * d + 1
        return (start, stop) if self.packing is Packing.ROWS else clip(start, stop, self.w)

    def memory_cols(self, x0: int, x1: int) -> Range:
        """Those of them that lie in the input (WINDOWS: all)."""
        start, stop = self.input_cols(x0, x1)
        return (start, stop) if self.packing is Packing.WINDOWS else clip(start, stop, self.w)

    def memory_rows(self, y0: int, y1: int, k_tile: KTile) -> int:
        """How many of `input_rows` lie in the input."""
        start, stop = self.input_rows(y0, y1, k_tile)
        if self.packing is not Packing.WINDOWS:
            return stop - start
        kernel, dilation = self.layer.kernel[0], self.layer.dilation[0]
        stride, pad = self.layer.stride[0], self.layer.pad[0]
        if self.shares_rows:
            start, stop = clip(start - pad, stop - pad, self.h)
            return stop - start
        taps = (y * stride - pad + k * dilation for y in range(y0, y1) for k in range(kernel))
        return sum(0 <= row < self.h for row in taps)


def packings(layer: ConvLayer, rows: int) -> list[Packing]:
    """The ways of packing `layer` that can pay on an array of `rows`: fewer folds than plain."""
    (kh, kw), c = layer.kernel, layer.input.shape[3]
    plain = kh * kw * -(-c // rows)
    out = [Packing.NONE]
    # Taps must be neighbours in memory, and weights can only be rearranged beforehand.
    if layer.dilation[1] > 1 or layer.weights is None:
        return out
    if kh * -(-kw * c // rows) < plain:
        out.append(Packing.ROWS)
    # Windows that leave pixels out read less than rows do.
    skips = layer.stride[0] > kh or layer.stride[1] > kw
    # A window row is one run in memory: its pixels must lie next to each other.
    dense = layer.input.strides[2] == c * layer.input.item
    if kh > 1 and dense and (-(-kh * kw * c // rows) < plain or skips):
        out.append(Packing.WINDOWS)
    return out


def stacks(layer: ConvLayer, config: NpuConfig) -> list[int]:
    """How many samples a tile of `layer` may hold besides one, most first.

    None where a single one has as many vectors as the weights of a fold take cycles.
    """
    geo = geometry(layer)
    views = [geo.input, geo.output, *([] if geo.residual is None else [geo.residual])]
    follow = all(view.strides[0] == view.shape[1] * view.strides[1] for view in views)
    if layer.weights_by_image or not follow:
        return []
    pixels = geo.oh * geo.ow
    few = pixels < weight_cycles(config, layer.transposed)
    counts = [count for count in range(geo.n, 1, -1) if few and geo.n % count == 0]
    return [count for count in counts if count * pixels <= config.acc_half]


def geometry(layer: ConvLayer, packing: Packing = Packing.NONE, stacked: int = 1) -> ConvGeometry:
    """Dimensions of `layer`; images of dense pointwise layers are joined into one column."""
    view, out = layer.input, layer.output
    added = None if layer.residual is None else layer.residual.operand.view
    n, h, w, c = view.shape
    kh, kw = layer.kernel
    _, oh, ow, oc = out.shape
    dense = view.is_dense and out.is_dense and (added is None or added.is_dense)
    if layer.is_pointwise and dense:
        # One tall column tiles in any number of pixels, whatever the image's width.
        # Images with weights of their own stay apart.
        images = n if layer.weights_by_image else 1
        pixels = n * h * w // images
        view = _column(view, images, pixels)
        out = _column(out, images, pixels)
        added = None if added is None else _column(added, images, pixels)
        n, h, w, oh, ow = images, pixels, 1, pixels, 1
    if stacked > 1:
        view, out = _stacked(view, stacked), _stacked(out, stacked)
        added = None if added is None else _stacked(added, stacked)
        n, oh = n // stacked, oh * stacked
    return ConvGeometry(
        layer=layer,
        input=view,
        output=out,
        residual=added,
        n=n,
        h=h,
        w=w,
        c=c * {Packing.NONE: 1, Packing.ROWS: kw, Packing.WINDOWS: kh * kw}[packing],
        oh=oh,
        ow=ow,
        oc=oc,
        pixel=c * kw if packing is Packing.WINDOWS else c,
        packing=packing,
        stacked=stacked,
    )


def _stacked(view: View, images: int) -> View:
    n, h, w, c = view.shape
    image, line, pixel = view.strides
    shape, strides = (n // images, h * images, w, c), (image * images, line, pixel)
    return replace(view, shape=shape, strides=strides)


def _column(view: View, images: int, pixels: int) -> View:
    pixel = view.shape[3] * view.item
    return View(
        tensor=view.tensor,
        dtype=view.dtype,
        shape=(images, pixels, 1, view.shape[3]),
        strides=(pixels * pixel, pixel, pixel),
        offset=view.offset,
    )

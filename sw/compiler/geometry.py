"""Geometry of a convolution on the array: dimensions, k parts, and what a tile reads.

Few channels would leave most array rows idle. In NHWC the kw x C values of a window row lie next to
each other, so a *packed* layer takes them as one vector of kw x C channels and loops over no kernel
columns. Such a vector straddles the padding at the sides: tiles then hold it as filled columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sw.compiler.layers import ConvLayer, View

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
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
class Tile:
    """Output rows y0…y1 and columns x0…x1 of one image."""

    batch: int
    y0: int
    y1: int
    x0: int
    x1: int

    @property
    def rows(self) -> int:
        return self.y1 - self.y0

    @property
    def cols(self) -> int:
        return self.x1 - self.x0

    @property
    def vectors(self) -> int:
        return self.rows * self.cols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvGeometry:
    """A ConvLayer's dimensions. A pointwise layer over dense tensors is one tall column of pixels.

    n, h, w: input; c: channels of a vector; pixel: bytes of an input pixel in a tile, where it
    holds all channels; oh, ow, oc: output.
    """

    layer: ConvLayer
    input: View
    output: View
    n: int
    h: int
    w: int
    c: int
    oh: int
    ow: int
    oc: int
    pixel: int
    packed: bool

    @property
    def kernel(self) -> tuple[int, int]:
        """Kernel rows and columns that are loops."""
        kh, kw = self.layer.kernel
        return (kh, 1) if self.packed else (kh, kw)

    @property
    def bounds(self) -> tuple[bool, bool]:
        """Whether MATRIX must check rows, and columns, against the input's size."""
        checked = not self.layer.is_pointwise
        return checked, checked and not self.packed

    @property
    def weights(self) -> NDArray[np.int8] | None:
        """Constant weights as [OC,KH,KW,C] over the loops of `kernel`."""
        weights = self.layer.weights
        if weights is None or not self.packed:
            return weights
        return weights.reshape(self.oc, self.kernel[0], 1, self.c)

    def stored(self, part: Part) -> int:
        """Bytes of a pixel in a tile that is loaded for `part`."""
        return self.pixel if self.packed else part.channels

    def tiles(self, th: int, tw: int) -> Iterator[Tile]:
        """Tiles of at most th x tw outputs in row-major order, image by image."""
        for b in range(self.n):
            for y in range(0, self.oh, th):
                for x in range(0, self.ow, tw):
                    yield Tile(
                        batch=b,
                        y0=y,
                        y1=min(y + th, self.oh),
                        x0=x,
                        x1=min(x + tw, self.ow),
                    )

    def input_rows(self, y0: int, y1: int, part: Part) -> Range:
        """The rows of the input that output rows y0…y1 read, clipped to the input."""
        s, d, p = self.layer.stride[0], self.layer.dilation[0], self.layer.pad[0]
        return _clip(y0 * s - p + part.kh0 * d, (y1 - 1) * s - p + (part.kh1 - 1) * d + 1, self.h)

    def input_cols(self, x0: int, x1: int) -> Range:
        """The columns of the input that output columns x0…x1 read; packed: with the padding."""
        s, d, p = self.layer.stride[1], self.layer.dilation[1], self.layer.pad[1]
        start, stop = x0 * s - p, (x1 - 1) * s - p + (self.layer.kernel[1] - 1) * d + 1
        return (start, stop) if self.packed else _clip(start, stop, self.w)

    def memory_cols(self, x0: int, x1: int) -> Range:
        """Those of them that lie in the input."""
        start, stop = self.input_cols(x0, x1)
        return _clip(start, stop, self.w)


def _clip(start: int, stop: int, size: int) -> Range:
    start = min(max(start, 0), size)
    return start, max(start, min(stop, size))


def can_pack(layer: ConvLayer, rows: int) -> bool:
    """Whether packing makes fewer folds on an array of `rows`."""
    (_, kw), c = layer.kernel, layer.input.shape[3]
    fewer = -(-kw * c // rows) < kw * -(-c // rows)
    return fewer and layer.dilation[1] == 1 and layer.weights is not None


def geometry(layer: ConvLayer, packed: bool = False) -> ConvGeometry:
    """Dimensions of `layer`; images of dense pointwise layers are joined into one column."""
    view, out = layer.input, layer.output
    n, h, w, c = view.shape
    _, oh, ow, oc = out.shape
    if layer.is_pointwise and view.is_dense and out.is_dense:
        images = 1 if layer.weight_view is None else n
        pixels = n * h * w // images
        view = _column(view, images, pixels)
        out = _column(out, images, pixels)
        n, h, w, oh, ow = images, pixels, 1, pixels, 1
    return ConvGeometry(
        layer=layer,
        input=view,
        output=out,
        n=n,
        h=h,
        w=w,
        c=c * layer.kernel[1] if packed else c,
        oh=oh,
        ow=ow,
        oc=oc,
        pixel=c,
        packed=packed,
    )


def _column(view: View, images: int, pixels: int) -> View:
    pixel = view.shape[3] * view.item
    return View(
        tensor=view.tensor,
        dtype=view.dtype,
        shape=(images, pixels, 1, view.shape[3]),
        strides=(pixels * pixel, pixel, pixel),
        offset=view.offset,
    )

"""The copies and fills that lay out a tile of packed windows.

A tile holds output columns one after another; a column holds window rows of kw x C bytes, from the
top row of its first output to the bottom row of its last. The windows of neighbouring columns
overlap in memory, so a LOAD with runs of kw x C bytes writes the same bytes to several places.
Where a window leaves the input, its bytes are filled with the zero point and the run is shorter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from sw.compiler.kernels.boxes import Range, Tile
from sw.compiler.kernels.conv.geometry import ConvGeometry
from sw.compiler.kernels.dma import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowMove:
    """Runs of `run` bytes to `chip` bytes into the tile, from `mem` bytes into the image.

    `mem` None: a fill.
    """

    chip: int
    mem: int | None
    run: int
    box: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRows:
    """Stored window rows of a kind: `outer` x `inner` of them, from stored row `first` on.

    outer, inner: (count, step in input rows, step in stored rows). `mem`: the first one's row in
    the input; None: they lie outside.
    """

    first: int
    mem: int | None
    outer: tuple[int, int, int]
    inner: tuple[int, int, int]

    @property
    def count(self) -> int:
        return self.outer[0] * self.inner[0]


def window_moves(geo: ConvGeometry, tile: Tile) -> Iterator[WindowMove]:
    """Moves that write every byte of the tile once."""
    line = geo.pixel
    column = geo.window_rows(tile.rows) * line
    width, (_, row, pixel) = geo.layer.kernel[1], geo.input.strides
    item, stride, pad = line // width, geo.layer.stride[1], geo.layer.pad[1]
    for rows in window_rows(geo, tile):
        (outer, skip, down), (inner, step, next_row) = rows.outer, rows.inner
        if rows.mem is None:
            box = [(outer, 0, down * line), (tile.cols, 0, column), (inner, line, next_row * line)]
            yield WindowMove(chip=rows.first * line, mem=None, run=line, box=box)
            continue
        for (x0, x1), (k0, k1) in window_columns(geo, tile):
            at = rows.first * line + (x0 - tile.x0) * column
            box = [(outer, skip * row, down * line), (inner, step * row, next_row * line)]
            box.append((x1 - x0, stride * pixel, column))
            for a, b in ((0, k0), (k1, width)):
                if a < b:
                    yield WindowMove(chip=at + a * item, mem=None, run=(b - a) * item, box=box)
            # What lies in the input is copied, left and right of it is the zero point.
            if k0 < k1:
                mem = rows.mem * row + (x0 * stride - pad + k0) * pixel
                yield WindowMove(chip=at + k0 * item, mem=mem, run=(k1 - k0) * item, box=box)


def window_columns(geo: ConvGeometry, tile: Tile) -> list[tuple[Range, Range]]:
    """(output columns, their kernel columns that lie in the input), neighbours alike joined."""
    stride, pad = geo.layer.stride[1], geo.layer.pad[1]
    taps = [_taps(x * stride - pad, geo.layer.kernel[1], 1, geo.w) for x in range(tile.x0, tile.x1)]
    return [((tile.x0 + a, tile.x0 + b), key) for a, b, key in _alike(taps)]


def window_rows(geo: ConvGeometry, tile: Tile) -> Iterator[WindowRows]:
    """The stored rows of the tile, in groups of a kind."""
    layer, kernel = geo.layer, geo.layer.kernel[0]
    (stride, _), dilation, pad = layer.stride, layer.dilation[0], layer.pad[0]
    if geo.shares_rows:
        # One stretch of input rows, with padding above and below it.
        start = tile.y0 * stride - pad
        stop = start + geo.window_rows(tile.rows)
        a = min(max(start, 0), stop)
        b = max(a, min(stop, geo.h))
        for first, last, mem in ((start, a, None), (a, b, a), (b, stop, None)):
            if first < last:
                rows = (last - first, 1, 1)
                yield WindowRows(first=first - start, mem=mem, outer=(1, 0, 0), inner=rows)
        return
    taps = [_taps(y * stride - pad, kernel, dilation, geo.h) for y in range(tile.y0, tile.y1)]
    for y0, y1, (k0, k1) in _alike(taps):
        top = (tile.y0 + y0) * stride - pad
        for a, b, inside in ((0, k0, False), (k0, k1, True), (k1, kernel, False)):
            if a < b:
                yield WindowRows(
                    first=y0 * kernel + a,
                    mem=top + a * dilation if inside else None,
                    outer=(y1 - y0, stride, kernel),
                    inner=(b - a, dilation, 1),
                )


def _taps(start: int, kernel: int, dilation: int, size: int) -> Range:
    """The taps start, start + dilation, … of a kernel that lie in 0…size; (0, 0) if none does."""
    a = min(kernel, max(0, -(start // dilation)))
    b = min(kernel, max(0, -(-(size - start) // dilation)))
    return (a, b) if a < b else (0, 0)


def _alike(keys: list[Range]) -> Iterator[tuple[int, int, Range]]:
    """Runs of equal keys: (from, to, key)."""
    at = 0
    for key, run in groupby(keys):
        count = len(list(run))
        yield at, at + count, key
        at += count

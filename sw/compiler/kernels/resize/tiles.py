"""The plan of a RESIZE: tiles of outputs, the phases in them, and the weights of a phase."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.depthwise.tiles import heights
from sw.compiler.kernels.resize.layer import ResizeLayer

MOST_WEIGHT = 255
"""The largest weight that an int8 and its zero point make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePlan:
    """Tiles of th x tw outputs and tc channels; of every image, the first and the last tile have
    `edge_rows` rows (0: th). `shared`: a product runs beside.

    `cycles`, `traffic`: estimates, the latter in bytes.
    """

    th: int
    tw: int
    tc: int
    edge_rows: int
    slots: int
    act_bytes: int
    out_bytes: int
    weight_bytes: int
    shared: bool
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return self.slots * (self.act_bytes + self.out_bytes) + self.weight_bytes

    def __str__(self) -> str:
        return (
            f"tile {self.th}x{self.tw}x{self.tc} edge rows {self.edge_rows}; {self.slots} x "
            f"({self.act_bytes} in, {self.out_bytes} out) weights {self.weight_bytes}; "
            f"{self.cycles} cycles {self.traffic} bytes"
        )


def tile_rows(layer: ResizeLayer, th: int, edge_rows: int) -> Iterator[tuple[int, int]]:
    """Output rows (from, to) of the tiles of the layer's first image."""
    phases, out = layer.rows.phases, layer.rows.out
    start = 0
    for rows in heights(-(-out // phases), th // phases, edge_rows // phases, True, True):
        stop = min(start + rows * phases, out)
        yield start, stop
        start = stop


def boxes(layer: ResizeLayer, plan: ResizePlan) -> list[Box]:
    """Output boxes in execution order: row by row, all channels of a row before the next."""
    n, _, w, c = layer.output.shape
    return [
        Box(
            batch=batch,
            y0=y0,
            y1=y1,
            x0=x0,
            x1=min(x0 + plan.tw, w),
            c0=c0,
            c1=min(c0 + plan.tc, c),
        )
        for batch in range(n)
        for y0, y1 in tile_rows(layer, plan.th, plan.edge_rows)
        for c0 in range(0, c, plan.tc)
        for x0 in range(0, w, plan.tw)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWeights:
    """The kernels whose sum weighs the inputs of a phase: each [KH,KW], 0…MOST_WEIGHT."""

    kernels: tuple[NDArray[np.int64], ...]

    @property
    def shape(self) -> tuple[int, int]:
        kh, kw = self.kernels[0].shape
        return kh, kw


def phase_weights(layer: ResizeLayer, y: int, x: int) -> PhaseWeights:
    """The weights of output y, x."""
    left = np.multiply.outer(layer.rows.weights(y), layer.cols.weights(x)).astype(np.int64)
    kernels: list[NDArray[np.int64]] = []
    while not kernels or left.any():
        kernels.append(np.minimum(left, MOST_WEIGHT))
        left = left - kernels[-1]
    return PhaseWeights(kernels=tuple(kernels))


def zero_point(layer: ResizeLayer) -> int:
    """What is taken from every int8 weight, so that the largest has its value."""
    return 0 if layer.rows.most * layer.cols.most <= 127 else -128

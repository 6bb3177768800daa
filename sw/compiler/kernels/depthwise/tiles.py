"""The plan of a depthwise layer: tiles of outputs, in the order in which they are computed."""

from collections.abc import Iterator
from dataclasses import dataclass

from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.buffers import Buffers
from sw.compiler.kernels.depthwise.layer import DepthwiseLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwisePlan(Buffers):
    """Tiles of th x tw outputs and tc channels, `edge_rows` rows in the first and last one (0: th).

    What `ahead` tiles need is loaded ahead.
    `held_in`, `held_out`: the input lies, or the result stays, on chip. `shared`: a product runs
    beside.
    """

    th: int
    tw: int
    tc: int
    ahead: int
    held_in: bool
    held_out: bool
    shared: bool
    row_order: bool
    edge_rows: int = 0
    cycles: int = 0
    traffic: int = 0

    def __str__(self) -> str:
        return (
            f"tile {self.th}x{self.tw}x{self.tc} edge rows {self.edge_rows}"
            f"{' from chip' if self.held_in else ''}{' stays' if self.held_out else ''}"
            f"{' rowwise' if self.row_order else ''}; "
            f"{self.buffers_text}; {self.cycles} cycles {self.traffic} bytes"
        )


def boxes(layer: DepthwiseLayer, plan: DepthwisePlan) -> list[Box]:
    """Output boxes in execution order: row by row, or channels outermost, so that weights stay."""
    n, h, w, c = layer.output.shape
    groups = range(0, c, plan.tc)
    if plan.row_order:
        # Behind a writer that makes row after row, all channels of a row come before the next.
        return [
            box
            for batch in range(n)
            for y0, y1 in _rows(h, plan, batch == 0, batch == n - 1)
            for c0 in groups
            for box in _row_of_boxes(w, c, plan, (batch, y0, y1, c0))
        ]
    return [
        box
        for c0 in groups
        for batch in range(n)
        # Only the layer's own first and last tiles are low: in between, loads run ahead anyway.
        for y0, y1 in _rows(h, plan, c0 == batch == 0, batch == n - 1 and c0 + plan.tc >= c)
        for box in _row_of_boxes(w, c, plan, (batch, y0, y1, c0))
    ]


def _row_of_boxes(
    w: int, c: int, plan: DepthwisePlan, place: tuple[int, int, int, int]
) -> Iterator[Box]:
    batch, y0, y1, c0 = place
    c1 = min(c0 + plan.tc, c)
    for x0 in range(0, w, plan.tw):
        yield Box(batch=batch, y0=y0, y1=y1, x0=x0, x1=min(x0 + plan.tw, w), c0=c0, c1=c1)


def _rows(h: int, plan: DepthwisePlan, first: bool, last: bool) -> Iterator[tuple[int, int]]:
    y0 = 0
    for rows in heights(h, plan.th, plan.edge_rows, first, last):
        yield y0, y0 + rows
        y0 += rows


def heights(size: int, th: int, edge_rows: int, first: bool, last: bool) -> Iterator[int]:
    """Rows of the tiles of an image; `first`, `last`: the layer begins or ends with it."""
    # What is stored after the engine has ended delays the layer's end: the last tile is low too,
    # unless the image is no higher than that.
    tail = edge_rows if last and edge_rows and size > edge_rows else 0
    rest, step = size - tail, edge_rows if first and edge_rows else th
    while rest:
        rows = min(step, th, rest)
        yield rows
        # Heights double: the next tile is loaded while this one is computed.
        rest, step = rest - rows, 2 * step
    if tail:
        yield tail

"""Tiles of layers that only the vector engine computes: pooling and elementwise.

A tile is a box of output pixels and channels. Elementwise layers over dense tensors without
per-channel values are cut as one flat row of elements, whatever their shape.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from spec.config import NpuConfig
from spec.isa import Scale
from sw.compiler.errors import CompileError
from sw.compiler.kernels.conv.cost import HANDOVER, LATENCY
from sw.compiler.kernels.conv.geometry import Box
from sw.compiler.kernels.layers import ElementwiseLayer, PoolLayer
from sw.compiler.kernels.views import View, dense
from sw.compiler.placement.residency import Room

VectorLayer = ElementwiseLayer | PoolLayer
TILE_CYCLES = 20
"""Cycles that the pipeline loses per tile."""

OVERLAP = 6
"""Tiles that a layer is cut into, if not too small, so that load, compute and store overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlan:
    """Tiles of th x tw pixels and tc channels; bytes of each operand's and the result's slots.

    `flat`: the layer's tensors are taken as one row of elements. `rowwise`: see `boxes`. Operands
    and results that lie on chip have no slots. `cycles`, `traffic`: estimates, the latter in bytes.
    """

    th: int
    tw: int
    tc: int
    flat: bool
    slots: int
    in_bytes: tuple[int, ...]
    out_bytes: int
    rowwise: bool = False
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return self.slots * (sum(self.in_bytes) + self.out_bytes)

    def __str__(self) -> str:
        return (
            f"tile {self.th}x{self.tw}x{self.tc}{' flat' if self.flat else ''}; "
            f"{self.slots} x ({'+'.join(map(str, self.in_bytes))} in, {self.out_bytes} out); "
            f"{self.cycles} cycles {self.traffic} bytes"
        )


def is_flat(layer: VectorLayer) -> bool:
    """Whether every element is treated alike and lies dense."""
    return (
        isinstance(layer, ElementwiseLayer)
        and layer.epilogue.scale is not Scale.CHANNEL
        and all(v.is_dense for v in (*layer.inputs, layer.output))
    )


def flatten(view: View) -> View:
    """A dense view as one row of one-channel pixels."""
    n, h, w, c = view.shape
    return replace(dense(view.tensor, view.dtype, (1, 1, n * h * w * c, 1)), offset=view.offset)


def views(layer: VectorLayer, flat: bool) -> tuple[tuple[View, ...], View]:
    """Input views and output view as the plan sees them."""
    if flat:
        return tuple(flatten(v) for v in layer.inputs), flatten(layer.output)
    return layer.inputs, layer.output


def boxes(layer: VectorLayer, plan: VectorPlan) -> Iterator[Box]:
    """Output boxes in execution order: rowwise, or channels outermost, so that parameters stay."""
    n, h, w, c = views(layer, plan.flat)[1].shape
    corners = itertools.product(range(0, c, plan.tc), range(n), range(0, h, plan.th))
    for c0, b, y0 in sorted(corners, key=_rows_first) if plan.rowwise else corners:
        for x0 in range(0, w, plan.tw):
            yield Box(
                batch=b,
                y0=y0,
                y1=min(y0 + plan.th, h),
                x0=x0,
                x1=min(x0 + plan.tw, w),
                c0=c0,
                c1=min(c0 + plan.tc, c),
            )


def _rows_first(corner: tuple[int, int, int]) -> tuple[int, int]:
    _, batch, y0 = corner
    return batch, y0


def input_box(layer: VectorLayer, box: Box, plan: VectorPlan) -> Box:
    """What `box` reads of the input, clipped to it (equal to `box` for elementwise layers)."""
    if isinstance(layer, ElementwiseLayer):
        return box
    _, h, w, _ = layer.input.shape
    (ky, kx), (sy, sx), (py, px) = layer.kernel, layer.stride, layer.pad
    y0, x0 = box.y0 * sy - py, box.x0 * sx - px
    y1, x1 = (box.y1 - 1) * sy - py + ky, (box.x1 - 1) * sx - px + kx
    return replace(box, y0=max(0, y0), y1=min(h, y1), x0=max(0, x0), x1=min(w, x1))


def halvings(size: int, unit: int) -> list[int]:
    """size, then about half as often as possible, in multiples of `unit`."""
    out = [size]
    while out[-1] > unit:
        out.append(max(unit, -(-(out[-1] // 2) // unit) * unit))
        if out[-1] == out[-2]:
            break
    return out


def plan_vector(layer: VectorLayer, config: NpuConfig, room: Room) -> VectorPlan:
    """The largest tiles that fit twice, yet several per layer; `CompileError` if none fits.

    Windows that overlap make tiles of few rows read much twice: pools take the fastest plan.
    """
    plan = _fitting(layer, config, room)
    plans = [plan]
    if isinstance(layer, PoolLayer):
        plans += _pool_plans(layer, config, room)
    costs = [_cost(layer, config, room, p) for p in plans]
    (cycles, traffic), plan = min(zip(costs, plans, strict=True), key=lambda pair: pair[0])
    # Parameters change with the channels: such layers keep their order.
    rowwise = room.rowwise and layer.epilogue.scale is not Scale.CHANNEL
    return replace(plan, cycles=cycles, traffic=traffic, rowwise=rowwise)


def _pool_plans(layer: PoolLayer, config: NpuConfig, room: Room) -> Iterator[VectorPlan]:
    """Tiles of whole rows, few or many, of all channels or some, that fit twice."""
    _, h, w, c = layer.output.shape
    for tc in halvings(c, config.cols):
        for th in halvings(h, 1):
            plan = _sized(layer, config, room, (th, w, tc), False, 2)
            if plan.spad_bytes <= room.buffer_bytes:
                yield plan


def _cost(layer: VectorLayer, config: NpuConfig, room: Room, plan: VectorPlan) -> tuple[int, int]:
    """(cycles, bytes moved)."""
    ins, out = views(layer, plan.flat)
    n, h, w, c = out.shape
    vectors = -(-c * w // config.cols) if plan.flat else w * -(-c // config.cols)
    tiles = n * -(-h // plan.th) * -(-w // plan.tw) * -(-c // plan.tc)
    steps = n * h * vectors * window_steps(layer) + TILE_CYCLES * tiles
    load = sum(
        tiles * _loaded(layer, plan.th, plan.tw) * plan.tc * v.item
        if isinstance(layer, PoolLayer)
        else math.prod(v.shape) * v.item
        for v in ins
        if v.tensor not in room.held
    )
    store = 0 if out.tensor in room.held else math.prod(out.shape) * out.item
    cycles = max(steps, load / config.bus_bytes, store / config.bus_bytes)
    if load:
        cycles += load / tiles / config.bus_bytes + LATENCY
    if store:
        cycles += store / tiles / config.bus_bytes + 2 * LATENCY
    return math.ceil(cycles + HANDOVER), load + store


def window_steps(layer: VectorLayer) -> int:
    """Steps of the vector engine per vector of results; maxima take two rows in one step."""
    if not isinstance(layer, PoolLayer):
        return 1
    rows, cols = layer.kernel
    return (rows if layer.average else pair_rows(rows)) * cols


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


def _fitting(layer: VectorLayer, config: NpuConfig, room: Room) -> VectorPlan:
    flat = is_flat(layer)
    _, out = views(layer, flat)
    _, h, w, c = out.shape
    channel = layer.epilogue.scale is Scale.CHANNEL
    target = max(h * w * c // OVERLAP, 64 * config.cols)
    fallback: VectorPlan | None = None
    for slots in (2, 1):
        for tc in halvings(c, config.cols) if c > 1 else [1]:
            if channel and -(-tc // config.cols) > config.param_entries // (1 if tc == c else 2):
                continue
            for tw in halvings(w, config.cols if flat else 1):
                for th in range(h, 0, -1) if tw == w else [1]:
                    plan = _sized(layer, config, room, (th, tw, tc), flat, slots)
                    if plan.spad_bytes > room.buffer_bytes:
                        continue
                    fallback = plan
                    if th * tw * tc <= target:
                        return plan
                if fallback is not None and th == 1 and not flat and tw * tc <= target:
                    return fallback
        if fallback is not None:
            return fallback
    raise CompileError(
        f"no tile of this layer fits in {room.buffer_bytes} bytes of scratchpad",
        node=layer.name,
        source=layer.source,
        hint="use a configuration with a larger scratchpad, or a smaller window",
    )


def _loaded(layer: VectorLayer, th: int, tw: int) -> int:
    """Pixels of an operand that a tile of th x tw pixels reads."""
    if not isinstance(layer, PoolLayer):
        return th * tw
    _, h, w, _ = layer.input.shape
    rows = min(h, (th - 1) * layer.stride[0] + layer.kernel[0])
    return rows * min(w, (tw - 1) * layer.stride[1] + layer.kernel[1])


def _sized(
    layer: VectorLayer,
    config: NpuConfig,
    room: Room,
    tile: tuple[int, int, int],
    flat: bool,
    slots: int,
) -> VectorPlan:
    th, tw, tc = tile
    ins, out = views(layer, flat)
    pixels = _loaded(layer, th, tw)
    word = config.word_bytes
    return VectorPlan(
        th=th,
        tw=tw,
        tc=tc,
        flat=flat,
        slots=slots,
        in_bytes=tuple(
            0 if v.tensor in room.held else -(-pixels * tc * v.item // word) * word for v in ins
        ),
        out_bytes=0 if out.tensor in room.held else -(-th * tw * tc * out.item // word) * word,
    )

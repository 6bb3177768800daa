"""Lowering of RESIZE: copies, a convolution for each phase, or neighbours that are gathered.

NEAREST by a regular step is copies. BILINEAR of int8 is a ResizeLayer where there is a depthwise
engine and the outputs have few phases. Everything else gathers its neighbours, and BILINEAR weighs
them in a fused layer.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.isa import Alu, DType
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.depthwise.geometry import MAX_STEP
from sw.compiler.kernels.fused.builder import FusedBuilder, Value
from sw.compiler.kernels.layers import ResizeLayer
from sw.compiler.kernels.resize.axis import ResizeAxis
from sw.compiler.kernels.resize.plan import plan_resize
from sw.compiler.kernels.resize.tiles import MOST_WEIGHT
from sw.compiler.kernels.views import Placed, dense, row_major, to_nhwc
from sw.compiler.lower.context import Context
from sw.compiler.lower.copies import CopyAxis, add_copy, merged
from sw.compiler.lower.elementwise.operators import append_fused, finish_last_step
from sw.compiler.lower.elementwise.steps import times
from sw.compiler.lower.fusion.epilogues import plain
from sw.compiler.lower.gathers import flat, gathered
from sw.compiler.lower.resize_products import add_products, find_products
from sw.compiler.tosa.graph import Op

MAX_COPIES = 4
"""Copies that are worth more than a gather, which takes a cycle for each pixel at least."""

MAX_PHASES = 256
"""Phases of a RESIZE whose convolutions are looked at."""

MAX_KERNELS = 4
"""Kernels of 8 bits into which the weights of a phase may be cut."""

FUSED_CYCLES = 12
"""Cycles of the general way for each vector of results, besides one for each neighbour's row."""


def resize(ctx: Context, op: Op) -> None:
    """RESIZE: the cheapest of the ways that can compute it."""
    axes = _axes(ctx, op)
    if op.attributes["mode"] == "NEAREST":
        if not _copied(ctx, op, axes):
            _general(ctx, op)
        return
    if not _convolved(ctx, op, axes):
        _general(ctx, op)


def _axes(ctx: Context, op: Op) -> tuple[ResizeAxis, ResizeAxis]:
    """Rows and columns."""
    scale, offset, _ = (ctx.graph.constant(name) for name in op.inputs[1:])
    sizes, outs = ctx.shape(op.inputs[0]), ctx.shape(op.outputs[0])

    def axis(i: int) -> ResizeAxis:
        size, out = sizes[1 + i], outs[1 + i]
        found = ResizeAxis(
            size=size,
            out=out,
            scale=int(scale[2 * i]),
            step=int(scale[2 * i + 1]),
            offset=int(offset[i]),
        )
        # Of one input every output is that input, wherever it lies.
        return replace(found, step=found.scale, offset=0) if size == 1 else found

    return axis(0), axis(1)


# BILINEAR as convolutions -----------------------------------------------------------------


def _convolved(ctx: Context, op: Op, axes: tuple[ResizeAxis, ResizeAxis]) -> bool:
    """Add convolutions, one way or the other; False where the general way is faster."""
    if ctx.dtype(op.inputs[0]) != "int8":
        return False
    shape = to_nhwc(ctx.shape(op.outputs[0]))
    vectors = math.prod(shape[:3]) * -(-shape[3] // ctx.config.cols)
    most = FUSED_CYCLES * vectors + 4 * math.prod(shape[:3])
    layer = _resize_layer(ctx, op, axes)
    if layer is not None:
        cycles = plan_resize(layer, ctx.config, MemoryBudget.whole(ctx.config)).cycles
        layer, most = (layer, cycles) if cycles <= most else (None, most)
    products = find_products(ctx, op, axes)
    if products is not None and products.cycles > most:
        products = None
    if layer is None and products is None:
        return False
    names = [op.kind]
    out, epilogue = op.outputs[0], plain(DType.I32)
    following = ctx.fusion.next(out, "RESCALE")
    # Parameters of channels would be a RESCALE of its own.
    if following is None or not following.attributes["per_channel"]:
        out, epilogue = ctx.fusion.after_int32(out, names)
    output = ctx.output(out, shape)
    if products is not None:
        add_products(ctx, op, products, output, epilogue, names)
    elif layer is not None:
        ctx.layers.append(replace(layer, output=output, ops=tuple(names), epilogue=epilogue))
    return True


def _resize_layer(ctx: Context, op: Op, axes: tuple[ResizeAxis, ResizeAxis]) -> ResizeLayer | None:
    """The layer without what follows it; None if there can be none."""
    rows, cols = axes
    phases = min(rows.phases, rows.out) * min(cols.phases, cols.out)
    kernels = -(-rows.most * cols.most // MOST_WEIGHT)
    if not ctx.config.depthwise or phases > MAX_PHASES or kernels > MAX_KERNELS:
        return None
    if max(rows.stride, cols.stride) > MAX_STEP:
        return None
    out = op.outputs[0]
    layer = ResizeLayer(
        name=op.name,
        output=dense(out, ctx.dtype(out), to_nhwc(ctx.shape(out))),
        source=op.source,
        input=ctx.image(op.inputs[0]),
        epilogue=plain(DType.I32),
        rows=rows,
        cols=cols,
    )
    try:
        plan_resize(layer, ctx.config, MemoryBudget.whole(ctx.config))
    except CompileError:
        return None
    return layer


# NEAREST as copies ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """`count` inputs from `source` on, `step` apart, each `repeats` times.

    The first output is `at`, and those of the next input come `pitch` outputs later.
    """

    at: int
    count: int
    repeats: int
    source: int
    step: int
    pitch: int


def _copied(ctx: Context, op: Op, axes: tuple[ResizeAxis, ResizeAxis]) -> bool:
    """Add copies; False where they would be too many."""
    rows, cols = (_stretches(_nearest(axis)) for axis in axes)
    if len(rows) * len(cols) > MAX_COPIES:
        return False
    view = ctx.image(op.inputs[0])
    n, _, _, c = view.shape
    target = ctx.output(op.outputs[0], to_nhwc(ctx.shape(op.outputs[0])))
    image, line, pixel = view.strides
    to_image, to_line, to_pixel = target.strides
    for y, x in itertools.product(rows, cols):
        dims = [
            CopyAxis(n, image, to_image),
            CopyAxis(y.count, y.step * line, y.pitch * to_line),
            CopyAxis(y.repeats, 0, to_line),
            CopyAxis(x.count, x.step * pixel, x.pitch * to_pixel),
            CopyAxis(x.repeats, 0, to_pixel),
            CopyAxis(c, view.item, view.item),
        ]
        source = (view.tensor, view.offset + y.source * line + x.source * pixel)
        to = y.at * to_line + x.at * to_pixel
        add_copy(ctx, op, source, target, merged(dims), op.name, kind=op.kind, to=to)
    return True


def _nearest(axis: ResizeAxis) -> list[int]:
    """The input that every output is."""
    found = []
    for at in range(axis.out):
        part = (at * axis.step + axis.offset) % axis.scale
        near = axis.low(at) + (2 * part >= axis.scale)
        found.append(min(max(near, 0), axis.size - 1))
    return found


def _stretches(inputs: Sequence[int]) -> list[_Stretch]:
    """The outputs whose inputs are `inputs` in few stretches."""
    runs: list[tuple[int, int, int]] = []
    for source, group in itertools.groupby(range(len(inputs)), lambda at: inputs[at]):
        places = list(group)
        runs.append((places[0], source, len(places)))
    joined: list[_Stretch] = []
    for at, source, repeats in runs:
        last = joined[-1] if joined else None
        if last is not None and last.repeats == repeats:
            step = source - last.source - (last.count - 1) * last.step
            if last.count == 1 or step == last.step:
                joined[-1] = replace(last, count=last.count + 1, step=step)
                continue
        joined.append(
            _Stretch(at=at, count=1, repeats=repeats, source=source, step=0, pitch=repeats)
        )
    return joined


# Neighbours that are gathered -------------------------------------------------------------


def _general(ctx: Context, op: Op) -> None:
    """Each neighbour is gathered; BILINEAR weighs them."""
    x, out = op.inputs[0], op.outputs[0]
    n, h, w, c = ctx.shape(x)
    scale, offset, border = (ctx.graph.constant(name) for name in op.inputs[1:])
    rows = _neighbours(h, scale[:2], int(offset[0]), int(border[0]))
    cols = _neighbours(w, scale[2:], int(offset[1]), int(border[1]))
    values = flat(ctx, x)
    row = c * values.item

    def picked(name: str, y: NDArray[Any], at: NDArray[Any]) -> None:
        which = ((y[:, None] * w + at[None, :]) * row).reshape(1, -1)
        every = np.broadcast_to(which, (n, which.size))
        constant = ctx.graph.add_constant(f"{name}.offsets", every, "int32")
        offsets = flat(ctx, constant)
        gathered(ctx, op, values, offsets, name, n, h * w * row, row, y.size * at.size)

    if op.attributes["mode"] == "NEAREST":
        ny, nx = int(scale[0]), int(scale[2])
        nearest = (
            np.where(2 * part < size, low, high)
            for (low, high, part), size in ((rows, ny), (cols, nx))
        )
        picked(out, *nearest)
        return
    corners = []
    for i, y in enumerate(rows[:2]):
        for j, at in enumerate(cols[:2]):
            name = f"{out}.corner{i}{j}"
            shape = (n, y.size, at.size, c)
            name = ctx.storage.add_temp(name, math.prod(shape))
            picked(name, y, at)
            corners.append(
                Placed(root=name, shape=shape, strides=row_major(shape, 1), offset=0, item=1)
            )
    _weighted_sum(ctx, op, corners, (int(scale[0]), rows[2]), (int(scale[2]), cols[2]))


def _weighted_sum(
    ctx: Context,
    op: Op,
    corners: list[Placed],
    rows: tuple[int, NDArray[Any]],
    cols: tuple[int, NDArray[Any]],
) -> None:
    """The layer that interpolates along the columns, then along the rows."""
    builder = FusedBuilder()
    x = [builder.source(p, "int8") for p in corners]

    def weights(size: int, part: NDArray[Any], axis: int) -> list[Value]:
        shape = tuple(part.size if d == axis else 1 for d in range(4))
        found = []
        for values in (size - part, part):
            name = ctx.graph.add_constant(f"{op.name}.weights", values, "int32")
            placed = ctx.storage.get(name)
            strides = tuple(4 if d == axis else 0 for d in range(4))
            found.append(builder.source(replace(placed, shape=shape, strides=strides), "int32"))
        return found

    wx, wy = weights(*cols, 2), weights(*rows, 1)
    lines = [
        builder.step(
            times(builder, x[2 * i], wx[0]), times(builder, x[2 * i + 1], wx[1]), alu=Alu.ADD
        )
        for i in range(2)
    ]
    builder.step(times(builder, lines[0], wy[0]), times(builder, lines[1], wy[1]), alu=Alu.ADD)
    names = [op.kind]
    out = finish_last_step(ctx, builder, op.outputs[0], names)
    append_fused(ctx, builder, op, out, names)


def _neighbours(
    size: int, scale: NDArray[Any], offset: int, border: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(lower, upper neighbour, how far between them in parts of scale[0]) of every output."""
    n, d = int(scale[0]), int(scale[1])
    count = ((size - 1) * n - offset + border) // d + 1
    at = np.arange(count, dtype=np.int64) * d + offset
    low = at // n
    return np.clip(low, 0, size - 1), np.clip(low + 1, 0, size - 1), at - low * n

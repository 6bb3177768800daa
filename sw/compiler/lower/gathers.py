"""Lowering of GATHER, SCATTER and RESIZE: rows by offsets."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.isa import Alu, Scale
from sw.compiler.errors import CompileError
from sw.compiler.kernels.fused.builder import FusedBuilder, Target, Value
from sw.compiler.kernels.gather.layer import GatherLayer
from sw.compiler.kernels.views import ITEM, Placed, View, dense, row_major, to_nhwc
from sw.compiler.lower.context import Context
from sw.compiler.lower.elementwise.operators import append_fused, finish_last_step
from sw.compiler.lower.elementwise.steps import times
from sw.compiler.tosa.graph import Op

_MOST = 1 << 29
"""Bytes of a row, times four, are a multiplier."""


def gather(ctx: Context, op: Op) -> None:
    """GATHER: values [N,K,C] by indices [N,W]."""
    n, k, c = ctx.shape(op.inputs[0])
    out = op.outputs[0]
    values = _flat(ctx, op.inputs[0])
    row = c * ITEM[ctx.dtype(out)]
    _gathered(ctx, op, values, _offsets(ctx, op, op.inputs[1], row), out, n, k * row, row)


def scatter(ctx: Context, op: Op) -> None:
    """SCATTER: a copy of values_in, over which the rows of input go."""
    n, k, c = ctx.shape(op.inputs[0])
    out = op.outputs[0]
    dtype = ctx.dtype(out)
    row = c * ITEM[dtype]
    offsets = _offsets(ctx, op, op.inputs[1], row)
    # Rows that no index names keep the values of the copy.
    target = dense(ctx.storage.add(out), dtype, to_nhwc((n, k, c)))
    ctx.move(op.inputs[0], target.tensor, f"{op.name}.copy", op.source)
    ctx.layers.append(
        GatherLayer(
            name=op.name,
            output=target,
            ops=(op.kind,),
            source=op.source,
            values=_flat(ctx, op.inputs[2]),
            offsets=offsets,
            batch=n,
            rows=ctx.shape(op.inputs[1])[1],
            row_bytes=row,
            far_bytes=k * row,
            scatter=True,
        )
    )


def resize(ctx: Context, op: Op) -> None:
    """RESIZE: each neighbour is gathered; BILINEAR weighs them."""
    x, out = op.inputs[0], op.outputs[0]
    n, h, w, c = ctx.shape(x)
    scale, offset, border = (ctx.graph.constant(name) for name in op.inputs[1:])
    rows = _neighbours(h, scale[:2], int(offset[0]), int(border[0]))
    cols = _neighbours(w, scale[2:], int(offset[1]), int(border[1]))
    values = _flat(ctx, x)
    row = c * values.item

    def picked(name: str, y: NDArray[Any], at: NDArray[Any]) -> None:
        which = ((y[:, None] * w + at[None, :]) * row).reshape(1, -1)
        every = np.broadcast_to(which, (n, which.size))
        constant = ctx.graph.add_constant(f"{name}.offsets", every, "int32")
        offsets = _flat(ctx, constant)
        _gathered(ctx, op, values, offsets, name, n, h * w * row, row, y.size * at.size)

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


# Offsets ----------------------------------------------------------------------------------


def _flat(ctx: Context, name: str) -> View:
    """Tensor `name` as one dense row."""
    shape = ctx.shape(name)
    return ctx.view(name, (1, 1, 1, math.prod(shape)))


def _offsets(ctx: Context, op: Op, indices: str, row: int) -> View:
    """[N,W] indices times the bytes of a row."""
    tensor = ctx.graph.tensors[indices]
    if tensor.data is not None and ctx.fold:
        name = ctx.graph.add_constant(
            f"{op.name}.offsets", tensor.data.astype(np.int64) * row, "int32"
        )
        return _flat(ctx, name)
    if row >= _MOST:
        raise CompileError(f"{op.kind}: rows of {row} bytes are too long", node=op.name)
    root = ctx.storage.add_temp(f"{op.outputs[0]}.offsets", tensor.nbytes)
    builder = FusedBuilder()
    source = builder.source(ctx.storage.get(indices), "int32")
    # (4·row·i + 2) >> 2 is row·i exactly.
    builder.step(source, None, a_scale=Scale.TENSOR, a_mult=4 * row, a_shift=2)
    target = dense(root, "int32", (1, 1, 1, tensor.size))
    ctx.layers.append(
        builder.layer(
            Target(target, 0, row_major(tensor.shape, 4)),
            name=f"{op.name}.offsets",
            ops=(op.kind,),
            source=op.source,
        )
    )
    return target


def _gathered(
    ctx: Context,
    op: Op,
    values: View,
    offsets: View,
    out: str,
    batch: int,
    far: int,
    row: int,
    rows: int = 0,
) -> None:
    """A layer that gathers to `out`: a tensor of the graph, or a root that exists."""
    known = out in ctx.graph.tensors
    dtype = ctx.dtype(out) if known else values.dtype
    rows = rows or ctx.shape(out)[1]
    root = ctx.storage.add(out) if known else out
    ctx.layers.append(
        GatherLayer(
            name=op.name,
            output=dense(root, dtype, (1, 1, batch * rows, row // ITEM[dtype])),
            ops=(op.kind,),
            source=op.source,
            values=values,
            offsets=offsets,
            batch=batch,
            rows=rows,
            row_bytes=row,
            far_bytes=far,
        )
    )


def _neighbours(
    size: int, scale: NDArray[Any], offset: int, border: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(lower, upper neighbour, how far between them in parts of scale[0]) of every output."""
    n, d = int(scale[0]), int(scale[1])
    count = ((size - 1) * n - offset + border) // d + 1
    at = np.arange(count, dtype=np.int64) * d + offset
    low = at // n
    return np.clip(low, 0, size - 1), np.clip(low + 1, 0, size - 1), at - low * n

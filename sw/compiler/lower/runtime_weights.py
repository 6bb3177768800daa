"""Weights and biases that are tensors in memory: brought into the order in which they are read."""

import math
from dataclasses import replace

import numpy as np

from sw.compiler.kernels.layers import Epilogue, MoveLayer
from sw.compiler.kernels.params import pack_params
from sw.compiler.kernels.views import Placed, View, dense, row_major
from sw.compiler.lower.context import Context
from sw.compiler.tosa.graph import Op

Rows = list[tuple[int, int, int]]
"""(size, source stride, target stride) by dimension, bytes."""


def conv_weights(
    ctx: Context,
    op: Op,
    name: str,
    perms: tuple[int, ...] = (3, 1, 2, 0),
) -> View:
    """Weights as [1, IC, KH·KW, OC]: output channels next to each other.

    `perms`: their dimensions in that order, the last three KH, KW and OC.
    """
    placed = ctx.storage.get(name)
    sizes = [placed.shape[p] for p in perms]
    steps = [placed.strides[p] for p in perms]
    kh, kw, oc = sizes[-3:]
    ic = math.prod(sizes[:-3])
    root = ctx.storage.add_temp(f"{op.outputs[0]}.weights", math.prod(sizes))
    view = View(
        tensor=root,
        dtype="int8",
        shape=(1, ic, kh * kw, oc),
        strides=(0, kh * kw * oc, oc),
    )
    rows = list(zip(sizes, steps, row_major(tuple(sizes), 1), strict=True))
    copy_elements(ctx, op, (placed.root, placed.offset), view, rows, f"{op.name}.weights")
    return view


def diagonal_weights(ctx: Context, op: Op, name: str, c0: int, c1: int, zero_point: int) -> View:
    """Channels c0…c1 of [KH,KW,C,M] weights as a product's, off the diagonal the zero point."""
    placed = ctx.storage.get(name)
    kh, kw, _, m = placed.shape
    n, taps = c1 - c0, kh * kw
    oc = n * m
    root = ctx.storage.add_temp(f"{op.outputs[0]}.weights{c0}", n * taps * oc)
    view = dense(root, "int8", (1, n, taps, oc))
    label = f"{op.name}.weights"
    fill(ctx, op, placed, dense(root, "int8", (1, 1, 1, n * taps * oc)), zero_point)
    a = placed.strides
    rows = [(n, a[2], taps * oc + m), (kh, a[0], kw * oc), (kw, a[1], oc), (m, a[3], 1)]
    copy_elements(ctx, op, (placed.root, placed.offset + c0 * a[2]), view, rows, label)
    return view


def fill(ctx: Context, op: Op, placed: Placed, view: View, value: int) -> None:
    """A layer that fills the row `view` with a value; it reads nothing of `placed`."""
    ctx.layers.append(
        MoveLayer(
            name=f"{op.name}.fill",
            output=view,
            ops=("PAD",),
            source=op.source,
            tensor=placed.root,
            offset=0,
            source_shape=(0,),
            source_strides=(0,),
            before=(0,),
            value=value,
            shape=(view.shape[3],),
            target_strides=(view.item,),
        )
    )


def repeat_channels(ctx: Context, op: Op, name: str, times: int) -> View:
    """NHWC tensor `name` with every channel `times` times in a row."""
    placed = ctx.storage.get(name)
    n, h, w, c = placed.shape
    root = ctx.storage.add_temp(f"{op.outputs[0]}.repeated", n * h * w * c * times)
    view = dense(root, "int8", (n, h, w, c * times))
    steps = (*view.strides, times)
    rows = list(zip(placed.shape, placed.strides, steps, strict=True))
    rows = [*rows, (times, 0, 1)]
    copy_elements(ctx, op, (placed.root, placed.offset), view, rows, f"{op.name}.repeated")
    return view


def pack_bias(
    ctx: Context, op: Op, epilogue: Epilogue, bias: Placed, outs: tuple[int, int], label: str
) -> Epilogue:
    """The epilogue with parameter entries of output channels `outs` made when it runs.

    `bias`: of all channels, or one for all.
    """
    start, stop = outs
    cols, entry = ctx.config.cols, ctx.config.param_entry_bytes
    data = pack_params((replace(epilogue, bias=None),), 0, stop - start, ctx.config)
    template = ctx.graph.add_constant(f"{label}.params", np.frombuffer(data, np.int8), "int8")
    root = ctx.storage.add_temp(f"{label}.packed", len(data))
    ctx.move(template, root, f"{op.name}.params", op.source)
    placed = bias
    step = placed.strides[0] if placed.shape[0] > 1 else 0
    whole, rest = divmod(stop - start, cols)
    base = placed.offset + start * step
    view = dense(root, "int32", (1, 1, 1, len(data) // 4))
    name = f"{op.name}.bias"
    if whole:
        rows = [(whole, cols * step, entry), (cols, step, 4)]
        copy_elements(ctx, op, (placed.root, base), view, rows, name)
    if rest:
        offset = whole * entry
        view = replace(view, offset=offset)
        rows, base = [(rest, step, 4)], base + whole * cols * step
        copy_elements(ctx, op, (placed.root, base), view, rows, name)
    packed = dense(root, "int8", (1, 1, 1, len(data)))
    return replace(epilogue, bias=None, params=packed)


def copy_elements(
    ctx: Context,
    op: Op,
    source: tuple[str, int],
    target: View,
    rows: Rows,
    label: str,
    to: int = 0,
) -> None:
    """A layer that copies elements from `source` (root, byte offset) to `target` + `to`."""
    root, offset = source
    ctx.layers.append(
        MoveLayer(
            name=label,
            output=target,
            ops=("IDENTITY",),
            source=op.source,
            tensor=root,
            offset=offset,
            source_shape=tuple(r[0] for r in rows),
            source_strides=tuple(r[1] for r in rows),
            before=(0,) * len(rows),
            shape=tuple(r[0] for r in rows),
            target_offset=target.offset + to,
            target_strides=tuple(r[2] for r in rows),
        )
    )

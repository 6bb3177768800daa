"""Weights and biases that are tensors in memory: brought into the order in which they are read."""

import math
from dataclasses import replace

import numpy as np

from sw.compiler.kernels.layers import Epilogue
from sw.compiler.kernels.params import pack_params
from sw.compiler.kernels.views import Placed, View, dense, row_major
from sw.compiler.lower.context import Context
from sw.compiler.lower.copies import CopyAxis, add_copy, add_fill, copy_axes
from sw.compiler.tosa.graph import Op


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
    dims = copy_axes(sizes, steps, row_major(tuple(sizes), 1))
    add_copy(ctx, op, (placed.root, placed.offset), view, dims, f"{op.name}.weights")
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
    add_fill(ctx, op, placed.root, dense(root, "int8", (1, 1, 1, n * taps * oc)), zero_point)
    a = placed.strides
    dims = copy_axes((n, kh, kw, m), (a[2], a[0], a[1], a[3]), (taps * oc + m, kw * oc, oc, 1))
    add_copy(ctx, op, (placed.root, placed.offset + c0 * a[2]), view, dims, label)
    return view


def repeat_channels(ctx: Context, op: Op, name: str, times: int) -> View:
    """NHWC tensor `name` with every channel `times` times in a row."""
    placed = ctx.storage.get(name)
    n, h, w, c = placed.shape
    root = ctx.storage.add_temp(f"{op.outputs[0]}.repeated", n * h * w * c * times)
    view = dense(root, "int8", (n, h, w, c * times))
    dims = [*copy_axes(placed.shape, placed.strides, (*view.strides, times)), CopyAxis(times, 0, 1)]
    add_copy(ctx, op, (placed.root, placed.offset), view, dims, f"{op.name}.repeated")
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
    step = bias.strides[0] if bias.shape[0] > 1 else 0
    whole, rest = divmod(stop - start, cols)
    base = bias.offset + start * step
    view = dense(root, "int32", (1, 1, 1, len(data) // 4))
    name = f"{op.name}.bias"
    if whole:
        dims = [CopyAxis(whole, cols * step, entry), CopyAxis(cols, step, 4)]
        add_copy(ctx, op, (bias.root, base), view, dims, name)
    if rest:
        base += whole * cols * step
        view = replace(view, offset=whole * entry)
        add_copy(ctx, op, (bias.root, base), view, [CopyAxis(rest, step, 4)], name)
    packed = dense(root, "int8", (1, 1, 1, len(data)))
    return replace(epilogue, bias=None, params=packed)

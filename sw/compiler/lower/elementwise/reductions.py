"""Lowering of reductions and ARGMAX.

An axis that is longer than a tile is reduced in pieces, whose results are reduced again. Along the
innermost dimension the lanes are combined too; there what is left of whole vectors is a second
source, because an instruction's last block of lanes cannot be shorter within a reduction.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from spec.isa import Alu, DType, Reduce
from sw.compiler.kernels.fused.builder import FusedBuilder, Target, Value
from sw.compiler.kernels.views import DTYPE, ITEM, Placed, dense, row_major, to_nhwc
from sw.compiler.lower.context import Context
from sw.compiler.lower.elementwise.operators import finish_last_step
from sw.compiler.lower.elementwise.steps import REDUCTIONS, times
from sw.compiler.tosa.graph import Op

Combine = tuple[Reduce, Alu]
_MAX, _MIN = (Reduce.MAX, Alu.MAX), (Reduce.MIN, Alu.MIN)
_SHARE = 16
"""An axis is cut where it would take more than this part of the scratchpad."""

_IMMEDIATE = (1 << 17) - 1


def reduction(ctx: Context, op: Op) -> None:
    """REDUCE_SUM, MAX, MIN, ALL or ANY."""
    name, out = op.inputs[0], op.outputs[0]
    tensor = ctx.graph.tensors[name]
    axis, how = op.attributes["axis"], REDUCTIONS[op.kind]
    placed = _bounded(ctx, op, ctx.storage.get(name), axis, tensor.dtype, how, f"{out}.part")
    names, builder = [op.kind], FusedBuilder()
    parts = _parts(ctx, placed, axis)
    values = [builder.source(p, tensor.dtype) for p, _, _ in parts]
    _combined(ctx, builder, values, parts, how, DTYPE[tensor.dtype])
    out = finish_last_step(ctx, builder, out, names)
    _append(ctx, builder, op, out, names, placed)


def argmax(ctx: Context, op: Op) -> None:
    """ARGMAX: the least of k − size where x_k is the maximum, and 0 elsewhere; plus size."""
    name, axis = op.inputs[0], op.attributes["axis"]
    placed, dtype = ctx.storage.get(name), ctx.dtype(name)
    size = placed.shape[axis]
    if size > min(_IMMEDIATE, _longest(ctx, placed, axis, ITEM["int32"])):
        _long_argmax(ctx, op, placed, axis, dtype)
        return
    builder = FusedBuilder()
    parts = _parts(ctx, placed, axis)
    values = [builder.source(p, dtype) for p, _, _ in parts]
    most = _combined(ctx, builder, values, parts, _MAX, DTYPE[dtype])
    found = []
    for value, (part, at, start) in zip(values, parts, strict=True):
        same = builder.step(value, most, alu=Alu.EQ)
        places = builder.source(_places(ctx, op, part, at, start, size), "int32")
        found.append(times(builder, same, places, reduce=Reduce.MIN, axis=at))
    if len(found) > 1:
        builder.step(found[0], found[1], alu=Alu.MIN)
    builder.steps[-1].values["o_zp"] = size
    _append(ctx, builder, op, op.outputs[0], [op.kind], placed)


def _long_argmax(ctx: Context, op: Op, placed: Placed, axis: int, dtype: str) -> None:
    """The same, each step through memory."""
    size, out = placed.shape[axis], op.outputs[0]
    most = _bounded(ctx, op, placed, axis, dtype, _MAX, f"{out}.most")
    found = replace(
        placed,
        root=ctx.storage.add_temp(f"{out}.places", 4 * math.prod(placed.shape)),
        strides=row_major(placed.shape, 4),
        offset=0,
        item=4,
    )
    peak = _single(ctx, op, most, axis, dtype, f"{out}.peak")
    builder = FusedBuilder()
    same = builder.step(builder.source(placed, dtype), builder.source(peak, dtype), alu=Alu.EQ)
    places = _places(ctx, op, placed, axis, 0, size)
    times(builder, same, builder.source(places, "int32"))
    whole = dense(found.root, "int32", (1, 1, 1, math.prod(placed.shape)))
    target = Target(whole, 0, found.strides)
    shared: dict[str, Any] = {
        "name": f"{op.name}.places",
        "ops": (op.kind,),
        "source": op.source,
    }
    ctx.layers.append(builder.layer(target, **shared))
    least = _bounded(ctx, op, found, axis, "int32", _MIN, f"{out}.least")
    builder = FusedBuilder()
    parts = _parts(ctx, least, axis)
    values = [builder.source(p, "int32") for p, _, _ in parts]
    lowest = _combined(ctx, builder, values, parts, _MIN, DType.I32)
    rank = len(lowest.shape)
    constant = ctx.storage.get(ctx.graph.add_constant(f"{op.name}.size", [size], "int32"))
    constant = replace(constant, shape=(1,) * rank, strides=(4,) * rank)
    builder.step(lowest, builder.source(constant, "int32"), alu=Alu.ADD)
    _append(ctx, builder, op, out, [op.kind], least)


def _single(ctx: Context, op: Op, placed: Placed, axis: int, dtype: str, root: str) -> Placed:
    """The maxima along an axis that a tile holds, as a tensor with 1 there."""
    builder = FusedBuilder()
    parts = _parts(ctx, placed, axis)
    values = [builder.source(p, dtype) for p, _, _ in parts]
    _combined(ctx, builder, values, parts, _MAX, DTYPE[dtype])
    shape = (*placed.shape[:axis], 1, *placed.shape[axis + 1 :])
    size = math.prod(shape)
    root = ctx.storage.add_temp(root, size * placed.item)
    steps = row_major(shape, placed.item)
    target = Target(dense(root, dtype, (1, 1, 1, size)), 0, (*steps[: axis + 1], *steps[axis:]))
    shared: dict[str, Any] = {
        "name": f"{op.name}.peak",
        "ops": (op.kind,),
        "source": op.source,
    }
    ctx.layers.append(builder.layer(target, **shared))
    return replace(placed, root=root, shape=shape, strides=steps, offset=0)


def _places(ctx: Context, op: Op, placed: Placed, axis: int, start: int, size: int) -> Placed:
    """A constant with k − size along `axis`, which is a part of the real axis from `start`."""
    n = placed.shape[axis]
    data = np.arange(start - size, start - size + n, dtype=np.int32)
    name = ctx.graph.add_constant(f"{op.name}.places", data, "int32")
    held = ctx.storage.get(name)
    rank = range(len(placed.shape))
    return replace(
        held,
        shape=tuple(n if d == axis else 1 for d in rank),
        strides=tuple(4 if d == axis else 0 for d in rank),
    )


# Parts of the axis ------------------------------------------------------------------------


def _combined(
    ctx: Context,
    builder: FusedBuilder,
    values: list[Value],
    parts: list[tuple[Placed, int, int]],
    how: Combine,
    kind: DType,
) -> Value:
    """The steps that reduce every part, and bring two together."""
    reduce, alu = how
    done = [
        builder.step(value, None, kind, reduce=reduce, axis=axis)
        for value, (_, axis, _) in zip(values, parts, strict=True)
    ]
    return done[0] if len(done) == 1 else builder.step(done[0], done[1], kind, alu=alu)


def _parts(ctx: Context, placed: Placed, axis: int) -> list[tuple[Placed, int, int]]:
    """(piece, its axis, where it begins) of whole vectors and of the rest; with one more
    dimension, so that each has an axis of its own.
    """
    size, cols = placed.shape[axis], ctx.config.cols
    whole = size - size % cols
    innermost = math.prod(placed.shape[axis + 1 :]) == 1
    cut = innermost and 0 < whole < size

    def piece(start: int, n: int, own: int) -> Placed:
        pair = tuple(n if i == own else 1 for i in range(2))
        stride = placed.strides[axis]
        return replace(
            placed,
            shape=(*placed.shape[:axis], *pair, *placed.shape[axis + 1 :]),
            strides=(*placed.strides[:axis], stride, stride, *placed.strides[axis + 1 :]),
            offset=placed.offset + start * stride,
        )

    if not cut:
        return [(piece(0, size, 0), axis, 0)]
    return [
        (piece(0, whole, 0), axis, 0),
        (piece(whole, size - whole, 1), axis + 1, whole),
    ]


def _append(
    ctx: Context, builder: FusedBuilder, op: Op, out: str, names: list[str], placed: Placed
) -> None:
    """The layer that writes tensor `out`: `placed` without its axis, or with 1 there."""
    axis, tensor = op.attributes["axis"], ctx.graph.tensors[out]
    shape = (*placed.shape[:axis], 1, 1, *placed.shape[axis + 1 :])
    ctx.layers.append(
        builder.layer(
            Target(
                dense(ctx.storage.add(out), tensor.dtype, to_nhwc(tensor.shape)),
                0,
                row_major(shape, ITEM[tensor.dtype]),
            ),
            name=op.name,
            ops=tuple(names),
            source=op.source,
        )
    )


# Long axes --------------------------------------------------------------------------------


def _longest(ctx: Context, placed: Placed, axis: int, item: int) -> int:
    """The longest axis that a tile holds."""
    inner = min(math.prod(placed.shape[axis + 1 :]), ctx.config.cols)
    most = ctx.config.spad_bytes // _SHARE // (item * inner)
    if inner == 1:
        most -= most % ctx.config.cols
    return max(most, ctx.config.cols)


def _bounded(
    ctx: Context, op: Op, placed: Placed, axis: int, dtype: str, how: Combine, root: str
) -> Placed:
    """`placed`, or a smaller tensor of the results of pieces of its axis."""
    longest = _longest(ctx, placed, axis, placed.item)
    count = 0
    while (size := placed.shape[axis]) > longest:
        pieces, rest = divmod(size, longest)
        shape = (*placed.shape[:axis], pieces + bool(rest), *placed.shape[axis + 1 :])
        name = ctx.storage.add_temp(f"{root}{count}", math.prod(shape) * placed.item)
        target = replace(
            placed, root=name, shape=shape, strides=row_major(shape, placed.item), offset=0
        )
        _partial(ctx, op, placed, target, axis, dtype, how, longest, pieces, 0)
        if rest:
            _partial(ctx, op, placed, target, axis, dtype, how, rest, 1, pieces)
        placed, count = target, count + 1
    return placed


def _partial(
    ctx: Context,
    op: Op,
    placed: Placed,
    target: Placed,
    axis: int,
    dtype: str,
    how: Combine,
    length: int,
    pieces: int,
    done: int,
) -> None:
    """Reduce `pieces` pieces of `length`, after `done` pieces of the longest length."""
    stride = placed.strides[axis]
    start = placed.shape[axis] - length if done else 0
    before, after = placed.shape[:axis], placed.shape[axis + 1 :]
    source = replace(
        placed,
        shape=(*before, pieces, length, *after),
        strides=(
            *placed.strides[:axis],
            length * stride,
            stride,
            *placed.strides[axis + 1 :],
        ),
        offset=placed.offset + start * stride,
    )
    builder = FusedBuilder()
    parts = _parts(ctx, source, axis + 1)
    values = [builder.source(p, dtype) for p, _, _ in parts]
    _combined(ctx, builder, values, parts, how, DTYPE[dtype])
    steps = (
        *target.strides[: axis + 1],
        target.strides[axis],
        target.strides[axis],
        *target.strides[axis + 1 :],
    )
    size = math.prod(target.shape)
    ctx.layers.append(
        builder.layer(
            Target(dense(target.root, dtype, (1, 1, 1, size)), done * target.strides[axis], steps),
            name=f"{op.name}.part",
            ops=(op.kind,),
            source=op.source,
        )
    )

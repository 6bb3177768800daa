"""Lowering of ARGMAX: the least of k − size where x_k is the maximum, and 0 elsewhere; plus size.

k − size is negative, so that the least of all is that of the first maximum.
"""

import math
from dataclasses import replace

import numpy as np

from spec.isa import Alu, Reduce
from sw.compiler.kernels.fused.builder import FusedBuilder
from sw.compiler.kernels.views import ITEM, Placed, row_major
from sw.compiler.lower.context import Context
from sw.compiler.lower.elementwise.reductions import (
    ReducedAxis,
    add_reduction,
    append_reduced,
    append_temporary,
    combine,
    shorten,
)
from sw.compiler.lower.elementwise.steps import times
from sw.compiler.tosa.graph import Op

_MAX, _MIN = (Reduce.MAX, Alu.MAX), (Reduce.MIN, Alu.MIN)
_ZERO_POINT_MAX = (1 << 17) - 1
"""Largest size that a step can add as its zero point."""


def argmax(ctx: Context, op: Op) -> None:
    """One layer where a tile holds the axis as int32, or several through memory."""
    name, out = op.inputs[0], op.outputs[0]
    axis = ReducedAxis(ctx.storage.get(name), op.attributes["axis"], ctx.dtype(name))
    if axis.size > min(_ZERO_POINT_MAX, axis.longest(ctx, ITEM["int32"])):
        _long_argmax(ctx, op, axis)
        return
    builder = FusedBuilder()
    parts = axis.parts(ctx.config.cols)
    values = [builder.source(part.placed, axis.dtype) for part in parts]
    most = combine(builder, values, parts, _MAX, axis.dtype)
    least = []
    for value, part in zip(values, parts, strict=True):
        same = builder.step(value, most, alu=Alu.EQ)
        places = _places(ctx, op, part.placed, part.axis, part.start, axis.size)
        source = builder.source(places, "int32")
        least.append(times(builder, same, source, reduce=Reduce.MIN, axis=part.axis))
    if len(least) > 1:
        builder.step(least[0], least[1], alu=Alu.MIN)
    builder.steps[-1].values["o_zp"] = axis.size
    append_reduced(ctx, builder, op, out, [op.kind], axis)


def _long_argmax(ctx: Context, op: Op, axis: ReducedAxis) -> None:
    """Maximum, places of the maxima, least place and sum with the size, each through memory."""
    out = op.outputs[0]
    short = shorten(ctx, op, axis, _MAX, f"{out}.most")
    root = ctx.storage.add_temp(f"{out}.places", 4 * math.prod(axis.placed.shape))
    strides = row_major(axis.placed.shape, 4)
    where = replace(axis.placed, root=root, strides=strides, offset=0, item=4)
    peak = _peak(ctx, op, short)
    builder = FusedBuilder()
    value, most = (builder.source(placed, axis.dtype) for placed in (axis.placed, peak))
    same = builder.step(value, most, alu=Alu.EQ)
    places = _places(ctx, op, axis.placed, axis.axis, 0, axis.size)
    times(builder, same, builder.source(places, "int32"))
    append_temporary(ctx, builder, op, where, "int32", where.strides, "places")
    least = shorten(ctx, op, ReducedAxis(where, axis.axis, "int32"), _MIN, f"{out}.least")
    builder = FusedBuilder()
    lowest = add_reduction(ctx, builder, least, _MIN)
    rank = len(lowest.shape)
    size = ctx.storage.get(ctx.graph.add_constant(f"{op.name}.size", [axis.size], "int32"))
    size = replace(size, shape=(1,) * rank, strides=(4,) * rank)
    builder.step(lowest, builder.source(size, "int32"), alu=Alu.ADD)
    append_reduced(ctx, builder, op, out, [op.kind], least)


def _peak(ctx: Context, op: Op, axis: ReducedAxis) -> Placed:
    """The maxima along an axis that a tile holds, as a tensor with 1 there."""
    builder = FusedBuilder()
    add_reduction(ctx, builder, axis, _MAX)
    shape = axis.shape(1)
    nbytes = math.prod(shape) * axis.placed.item
    root = ctx.storage.add_temp(f"{op.outputs[0]}.peak", nbytes)
    peak = axis.moved(root, 1)
    # The builder has the axis as two dimensions of size 1.
    steps = peak.placed.strides
    twice = (*steps[: axis.axis + 1], *steps[axis.axis :])
    append_temporary(ctx, builder, op, peak.placed, axis.dtype, twice, "peak")
    return peak.placed


def _places(ctx: Context, op: Op, placed: Placed, axis: int, start: int, size: int) -> Placed:
    """A constant with k − size along `axis`, which is a part of the real axis from `start`."""
    n = placed.shape[axis]
    data = np.arange(start - size, start - size + n, dtype=np.int32)
    held = ctx.storage.get(ctx.graph.add_constant(f"{op.name}.places", data, "int32"))
    rank = range(len(placed.shape))
    return replace(
        held,
        shape=tuple(n if d == axis else 1 for d in rank),
        strides=tuple(4 if d == axis else 0 for d in rank),
    )

"""Lowering of pools. Windows that do not fit in the scratchpad are computed in parts."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from spec.isa import Alu, DType, Scale, Table
from spec.numerics import reciprocal_scale
from sw.compiler.kernels.fused.builder import FusedBuilder, Target, Value
from sw.compiler.kernels.layers import PoolLayer
from sw.compiler.kernels.pool.windows import same_taps
from sw.compiler.kernels.views import DTYPE, ITEM, Placed, View, dense, to_nhwc
from sw.compiler.lower.capacity import pool_fits
from sw.compiler.lower.context import Context
from sw.compiler.lower.fusion.epilogues import plain
from sw.compiler.tosa.graph import Op


def pool(ctx: Context, op: Op) -> None:
    """A PoolLayer, or several and what brings them together."""
    x = op.inputs[0]
    average = op.kind == "AVG_POOL2D"
    kind = ctx.kind(x)
    epilogue = plain(kind, zero_point=ctx.integer(op.inputs[2]) if average else 0)
    names = [op.kind]
    shape = to_nhwc(ctx.shape(op.outputs[0]))
    out, epilogue = ctx.fusion.follow(op.outputs[0], epilogue, names)
    top, _, left, _ = op.attributes["pad"]
    padded = ctx.padded.get(id(op))
    if padded is not None:
        x, (top, left) = padded.source, padded.pad
    layer = PoolLayer(
        name=op.name,
        output=ctx.output(out, shape),
        ops=tuple(names),
        source=op.source,
        input=ctx.image(x),
        epilogue=epilogue,
        average=average,
        kernel=op.attributes["kernel"],
        stride=op.attributes["stride"],
        pad=(top, left),
        input_zp=ctx.integer(op.inputs[1]) if average else 0,
        counts_padding=padded is not None,
    )
    if pool_fits(layer, ctx.config):
        ctx.layers.append(layer)
    else:
        _in_parts(ctx, layer)


def _in_parts(ctx: Context, layer: PoolLayer) -> None:
    """Maxima or sums over parts of the window, then what they come to together."""
    kind = DType.I32 if layer.average else DTYPE[layer.input.dtype]
    dtype = "int32" if layer.average else layer.input.dtype
    whole = replace(layer, sums=layer.average, epilogue=plain(kind))
    parts: list[View] = []
    for i, part in enumerate(_windows(ctx, whole)):
        size = math.prod(layer.output.shape)
        root = ctx.storage.add_temp(f"{layer.output.tensor}.part{i}", size * ITEM[dtype])
        view = dense(root, dtype, layer.output.shape)
        ctx.layers.append(replace(part, name=f"{layer.name}.part{i}", output=view))
        parts.append(view)
    if not layer.average:
        _together(ctx, layer, parts, None)
        return
    # At the edges windows have fewer elements: each such region has its own divisor.
    axes = [list(same_taps(0, layer.output.shape[1 + i], layer, i)) for i in range(2)]
    for rows, cols in itertools.product(*axes):
        _together(ctx, layer, parts, (rows, cols))


def _windows(ctx: Context, layer: PoolLayer) -> Iterator[PoolLayer]:
    """The layer's window in halves, until they fit; one input element always does."""
    if layer.kernel == (1, 1) or pool_fits(layer, ctx.config):
        yield layer
        return
    axis = 0 if layer.kernel[0] > 1 else 1
    half = layer.kernel[axis] // 2
    for start, stop in ((0, half), (half, layer.kernel[axis])):
        kernel, pad = list(layer.kernel), list(layer.pad)
        kernel[axis], pad[axis] = stop - start, pad[axis] - start
        part = replace(layer, kernel=(kernel[0], kernel[1]), pad=(pad[0], pad[1]))
        yield from _windows(ctx, part)


def _together(
    ctx: Context,
    layer: PoolLayer,
    parts: list[View],
    region: tuple[tuple[int, int, int], tuple[int, int, int]] | None,
) -> None:
    """The maximum, or the average of outputs (from, to, taps) in both dimensions."""
    n, h, w, c = layer.output.shape
    rows, cols = region or ((0, h, 1), (0, w, 1))
    shape = (n, rows[1] - rows[0], cols[1] - cols[0], c)

    def within(view: View) -> int:
        return view.offset + rows[0] * view.strides[1] + cols[0] * view.strides[2]

    builder = FusedBuilder()
    values: list[Value] = []
    for view in parts:
        strides = (*view.strides, view.item)
        placed = Placed(
            root=view.tensor, shape=shape, strides=strides, offset=within(view), item=view.item
        )
        values.append(builder.source(placed, view.dtype))
    total = values[0]
    alu = Alu.ADD if region else Alu.MAX
    for value in values[1:]:
        total = builder.step(total, value, values[0].kind, alu=alu)
    last, epilogue = builder.steps[-1], layer.epilogue
    last.out.kind = epilogue.dtype
    last.values |= {"o_zp": epilogue.zero_point, "o_min": epilogue.low, "o_max": epilogue.high}
    if region:
        multiplier, shift = reciprocal_scale(rows[2] * cols[2])
        last.values |= {"o_scale": Scale.TENSOR, "o_mult": multiplier, "o_shift": shift}
    if epilogue.table is not None:
        builder.look_up(last, epilogue.table, Table.I8)
    target = layer.output
    ctx.layers.append(
        builder.layer(
            Target(target, within(target), (*target.strides, target.item)),
            name=layer.name,
            ops=layer.ops,
            source=layer.source,
        )
    )

"""Lowering of elementwise operators: an ElementwiseLayer where it can do it, or a FusedLayer."""

from dataclasses import replace

from spec.isa import Scale, Table
from sw.compiler.kernels.fused.builder import FusedBuilder, Target
from sw.compiler.kernels.layers import ElementwiseLayer, Epilogue, Operand
from sw.compiler.kernels.views import DTYPE, UNSIGNED, in_rows, to_nhwc
from sw.compiler.lower.context import Context
from sw.compiler.lower.elementwise.steps import add_steps
from sw.compiler.lower.fusion.epilogues import plain, rescale_values, zero_point
from sw.compiler.lower.fusion.fusion import ALU
from sw.compiler.tosa.graph import Op

LEAST = 64
"""Vectors from which a sample makes tiles enough by itself."""


def binary(ctx: Context, op: Op) -> None:
    """ADD, SUB, MAXIMUM or MINIMUM with the RESCALEs of its operands and what follows it."""
    shapes = [ctx.shape(name) for name in op.inputs]
    if shapes[0] != shapes[1]:
        elementwise(ctx, op)
        return
    names = [op.kind]
    shape = to_nhwc(shapes[0])
    a, b = (ctx.operand(name, shape) for name in op.inputs)
    out, epilogue = ctx.fusion.after_int32(op.outputs[0], names)
    layer = ElementwiseLayer(
        name=op.name,
        output=ctx.output(out, shape),
        ops=tuple(names),
        source=op.source,
        a=a,
        b=b,
        alu=ALU[op.kind],
        epilogue=epilogue,
    )
    ctx.layers.append(_in_rows(ctx, layer))


def rescale(ctx: Context, op: Op) -> None:
    """A RESCALE that no layer before it could take."""
    names = [op.kind]
    unsigned = op.attributes["input_unsigned"]
    epilogue = Epilogue(**rescale_values(ctx.graph, op))
    out, epilogue = ctx.fusion.follow(op.outputs[0], epilogue, names)
    a = Operand(
        view=ctx.view(op.inputs[0], to_nhwc(ctx.shape(op.inputs[0]))),
        dtype=(UNSIGNED if unsigned else DTYPE)[ctx.dtype(op.inputs[0])],
        zero_point=zero_point(ctx.graph, op.inputs[3], unsigned),
    )
    _append_unary(ctx, op, names, a, out, epilogue)


def clamp(ctx: Context, op: Op) -> None:
    """A CLAMP that no layer before it could take."""
    names = [op.kind]
    epilogue = plain(ctx.kind(op.inputs[0]))
    epilogue = replace(
        epilogue,
        low=max(epilogue.low, op.attributes["min_val"]),
        high=min(epilogue.high, op.attributes["max_val"]),
    )
    out, epilogue = ctx.fusion.follow(op.outputs[0], epilogue, names)
    _append_unary(ctx, op, names, _as_it_is(ctx, op.inputs[0]), out, epilogue)


def table(ctx: Context, op: Op) -> None:
    """A TABLE that no layer before it could take; that of int16, interpolated, gives int32."""
    if ctx.dtype(op.inputs[0]) == "int16":
        elementwise(ctx, op)
        return
    names: list[str] = []
    epilogue = plain(ctx.kind(op.inputs[0]), table=ctx.graph.constant(op.inputs[1]))
    out = ctx.fusion.absorb(op, names)
    _append_unary(ctx, op, names, _as_it_is(ctx, op.inputs[0]), out, epilogue)


def _as_it_is(ctx: Context, name: str) -> Operand:
    return Operand(view=ctx.view(name, to_nhwc(ctx.shape(name))), dtype=ctx.kind(name))


def _append_unary(
    ctx: Context, op: Op, names: list[str], a: Operand, out: str, epilogue: Epilogue
) -> None:
    layer = ElementwiseLayer(
        name=op.name,
        output=ctx.output(out, a.view.shape),
        ops=tuple(names),
        source=op.source,
        a=a,
        epilogue=epilogue,
    )
    ctx.layers.append(_in_rows(ctx, layer))


def _in_rows(ctx: Context, layer: ElementwiseLayer) -> ElementwiseLayer:
    """The layer with many small samples in rows: a tile is of one sample."""
    n, h, w, c = layer.output.shape
    if n == 1 or (h > 1 and h * w * c >= LEAST * ctx.config.cols):
        return layer
    channels = layer.epilogue.scale is Scale.CHANNEL
    output, a, *b = in_rows([layer.output, *layer.inputs], channels=channels)
    second = replace(layer.b, view=b[0]) if layer.b is not None else None
    return replace(layer, output=output, a=replace(layer.a, view=a), b=second)


def elementwise(ctx: Context, op: Op) -> None:
    """Any elementwise operator, whatever its operands' ranks and shapes, as a FusedLayer."""
    builder, names = FusedBuilder(), [op.kind]
    add_steps(ctx, builder, op)
    out = finish_last_step(ctx, builder, op.outputs[0], names)
    append_fused(ctx, builder, op, out, names)


def finish_last_step(ctx: Context, builder: FusedBuilder, out: str, names: list[str]) -> str:
    """Let the last step RESCALE, clamp and look up what it has; returns what that makes."""
    follows = ctx.fusion.next(out, "RESCALE")
    last = builder.steps[-1]
    used = {"o_scale", "o_zp", "table"} & set(last.values)
    if follows is None or follows.attributes["per_channel"] or used:
        return out
    out, epilogue = ctx.fusion.after_int32(out, names)
    if epilogue.multiplier is None or epilogue.shift is None:
        return out  # it subtracts a zero point first
    last.values |= {
        "o_scale": Scale.TENSOR,
        "o_mult": int(epilogue.multiplier[0]),
        "o_shift": int(epilogue.shift[0]),
        "o_zp": epilogue.zero_point,
        "o_min": epilogue.low,
        "o_max": epilogue.high,
    }
    last.out.kind = epilogue.dtype
    if epilogue.table is not None:
        builder.look_up(last, epilogue.table, Table.I8)
    return out


def append_fused(ctx: Context, builder: FusedBuilder, op: Op, out: str, names: list[str]) -> None:
    """The layer whose last step writes tensor `out`, densely."""
    view = ctx.output(out, to_nhwc(ctx.shape(out)))
    target = Target(view, view.offset, ctx.storage.get(out).strides)
    layer = builder.layer(target, name=op.name, ops=tuple(names), source=op.source)
    ctx.layers.append(layer)

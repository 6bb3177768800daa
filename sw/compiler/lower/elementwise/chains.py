"""Lowering of chains of elementwise operators and reductions as one fused layer (FusedLayer).

What one operator of a chain writes the next ones read on chip, tile by tile; only the last results
go to memory. A reduction keeps its axis whole in a tile. Row statistics that a RESHAPE packs as
channels ([…, rows, 1] to [1, …, rows]) stay as they are: one element a row lies densely anyway.

A chain of which no tile would fit on chip (see `capacity`) is cut from its end until one fits.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from spec.isa import DType
from sw.compiler.kernels.fused.builder import Factors, FusedBuilder, Target, Value
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.fused.simplify import simplify
from sw.compiler.kernels.views import ITEM, Placed, dense, reshaped, row_major, to_nhwc
from sw.compiler.lower.capacity import fused_fits
from sw.compiler.lower.context import Context
from sw.compiler.lower.elementwise.members import (
    SINGLE,
    Chain,
    closed,
    leaving,
    longest_chain,
    until_second_sum,
    users,
)
from sw.compiler.lower.elementwise.steps import add_steps
from sw.compiler.lower.fusion.permutes import Ahead
from sw.compiler.lower.moves import in_place
from sw.compiler.tosa.graph import Op


def lower_chain(ctx: Context, op: Op) -> bool:
    """Lower the longest chain that begins with `op`; False if there is none."""
    if op.kind == "MATMUL":
        return _lower_product(ctx, op)
    found = longest_chain(ctx, Chain(), op)
    while len(found) > 1:
        first = until_second_sum(ctx, found)
        layer = _layer(ctx, first, FusedBuilder())
        if layer is not None:
            _append(ctx, layer, first)
            return True
        found = closed(ctx, found[:-1])
    return False


def _append(ctx: Context, layer: FusedLayer, ops: Sequence[Op]) -> None:
    ctx.layers.append(layer)
    ctx.fusion.done.update(id(member) for member in ops)


def _lower_product(ctx: Context, op: Op) -> bool:
    """Lower a MATMUL together with a chain that is more than an epilogue."""
    product, before = op.outputs[0], [op]
    readers = ctx.fusion.users[product]
    if len(readers) == 1 and readers[0].kind == "RESHAPE" and product not in ctx.graph.outputs:
        before.append(readers[0])
        product = readers[0].outputs[0]
    factors = _factors(ctx, op, product)
    if factors is None or id(op) in ctx.fusion.sum_of or product in ctx.graph.outputs:
        return False
    chain = Chain(made={product}, shape=ctx.shape(product), product=True)
    found = longest_chain(ctx, chain, before[-1])
    members = {id(member) for member in found}
    if not found or any(id(user) not in members for user in users(ctx, product)):
        return False
    if _is_epilogue(ctx, found):
        return False
    builder = FusedBuilder()
    value = Value(DType.I32, ctx.shape(product))
    builder.made[product] = value
    builder.product = (value, factors)
    layer = _layer(ctx, found, builder)
    if layer is None:
        return False
    _append(ctx, replace(layer, product_name=op.name), [*before, *found])
    return True


def _is_epilogue(ctx: Context, ops: list[Op]) -> bool:
    """Whether the layer of the product itself can do as much: perhaps a factor a row, and passes
    of operators that other layers compute as well.
    """
    first, *others = [op for op in ops if op.kind != "RESHAPE"]
    if first.kind in SINGLE:
        return all(op.kind in SINGLE for op in others)
    rows = any(ctx.shape(name)[-1:] == (1,) for name in first.inputs[:2])
    return first.kind == "MUL" and rows and all(op.kind in SINGLE for op in others)


def _factors(ctx: Context, op: Op, product: str) -> Factors | None:
    """The operands of a MATMUL whose result has the shape of `product`, if rows and columns
    are still its last dimensions, and tiles can be made of it.
    """
    shape = ctx.shape(product)
    n, m, depth = ctx.shape(op.inputs[0])
    whole = (n, m, ctx.shape(op.inputs[1])[2])
    if len(shape) < 3 or (math.prod(shape[:-2]), *shape[-2:]) != whole:
        return None
    a, b = (_images(ctx, name, shape[:-2]) for name in op.inputs[:2])
    if min(m, shape[-1], depth) < ctx.config.cols or a.strides[-1] != 1:
        return None
    if ctx.dtype(op.inputs[0]) != "int8" or 1 not in b.strides[-2:]:
        return None
    zero_points = (ctx.integer(op.inputs[2]), ctx.integer(op.inputs[3]))
    found = Factors(a, b, zero_points)
    return None if found.transposed and not ctx.config.transposed_weights else found


def _images(ctx: Context, name: str, lead: tuple[int, ...]) -> Placed:
    """An operand of a product whose images have dimensions `lead`, with these before its rows."""
    shape = (*lead, *ctx.shape(name)[1:])
    late = ctx.late.get(name)
    if late is not None:
        # A RESHAPE of images: heads of several samples, or of windows, lie where they are.
        placed = ctx.storage.get(late.inputs[0])
        strides = reshaped(placed, shape)
        if strides is not None:
            return replace(placed, shape=shape, strides=strides)
        in_place(ctx, name)
    placed = ctx.storage.get(name)
    outer = tuple(placed.strides[0] * step for step in row_major(lead, 1))
    return replace(placed, shape=shape, strides=(*outer, *placed.strides[1:]))


def _layer(ctx: Context, ops: list[Op], builder: FusedBuilder) -> FusedLayer | None:
    """The layer of a chain, whose results then have a place; None if no tile of it fits."""
    for op in ops:
        out = op.outputs[0]
        # A RESHAPE of row statistics moves nothing.
        is_view = op.kind == "RESHAPE"
        builder.made[out] = builder.made[op.inputs[0]] if is_view else add_steps(ctx, builder, op)
    names = leaving(ctx, ops)
    results = [builder.made[name] for name in names]
    # Each result needs a register that a step writes: not a source, and no other result's.
    made = {id(step.out) for step in builder.steps}
    if len({id(v) for v in results} & made) < len(results):
        return None
    simplify(builder, results, ctx.config.cols)
    if builder.product is not None and not builder.keeps_product():
        return None
    pairs = list(zip(names, results, strict=True))
    ahead = {name: _ahead(ctx, name, value) for name, value in pairs}
    joined = {name: _joined(ctx, name, value) for name, value in pairs if ahead[name] is None}
    main = next((op for op in ops if op.kind not in ("RESHAPE", "RESCALE")), ops[0])
    layer = builder.layer(
        *(_target(ctx, n, v, ahead[n], joined.get(n)) for n, v in pairs),
        results=results,
        name=main.name,
        ops=tuple(op.kind for op in ops),
        source=main.source,
    )
    # Nothing has been changed up to here but the builder, so a shorter chain can be tried.
    if not fused_fits(layer, ctx.config):
        return None
    for name, place in ahead.items():
        piece = joined.get(name)
        if place is not None:
            ctx.write_ahead(name, place)
        elif piece is not None:
            ctx.storage.add_piece(name, piece)
        else:
            ctx.storage.add(name)
    return layer


def _joined(ctx: Context, name: str, value: Value) -> Placed | None:
    """Where result `name` is written if it is a piece of a CONCAT's result."""
    return ctx.joins.place(name) if value.shape == ctx.shape(name) else None


def _ahead(ctx: Context, name: str, value: Value) -> Ahead | None:
    """Where result `name` is written if only a TRANSPOSE reads it."""
    found = ctx.permutes.ahead(name)
    return found if value.shape == ctx.shape(name) else None


def _target(
    ctx: Context, name: str, value: Value, ahead: Ahead | None, joined: Placed | None
) -> Target:
    """Where the layer writes result `name`: densely, or as the TRANSPOSE or CONCAT behind it wants
    it.
    """
    if joined is not None:
        root = ctx.graph.tensors[joined.root]
        view = dense(root.name, root.dtype, to_nhwc(root.shape))
        return Target(view, joined.offset, joined.strides)
    tensor = ctx.graph.tensors[name if ahead is None else ahead.result]
    strides = row_major(value.shape, ITEM[tensor.dtype]) if ahead is None else ahead.placed.strides
    return Target(dense(tensor.name, tensor.dtype, to_nhwc(tensor.shape)), 0, strides)

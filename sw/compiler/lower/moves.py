"""Lowering of the operators that only move data. Views cost nothing, the others are MoveLayers."""

from dataclasses import replace

from sw.compiler.kernels.layers import MoveLayer
from sw.compiler.kernels.views import Placed, dense, reshaped, row_major, to_nhwc
from sw.compiler.lower.context import Context
from sw.compiler.lower.copies import CopyAxis, add_copy, copy_axes, merged
from sw.compiler.tosa.graph import Op


def alias(ctx: Context, op: Op) -> None:
    """RESHAPE, IDENTITY or SLICE: a view, of a copy if its elements lie too far apart."""
    if ctx.storage.alias(op):
        return
    out = op.outputs[0]
    if out in ctx.graph.outputs or any(user.kind != "MATMUL" for user in ctx.fusion.users[out]):
        _copied(ctx, op)
    else:
        ctx.late[out] = op


def in_place(ctx: Context, name: str) -> None:
    """Copy what `alias` left to the products that read tensor `name`, if it did."""
    op = ctx.late.pop(name, None)
    if op is not None:
        _copied(ctx, op)


def _copied(ctx: Context, op: Op) -> None:
    """A view of a copy of its operand."""
    # A copy that products alone read need not be dense in the order of the dimensions.
    if not (ctx.permutes.only_products(op.outputs[0]) and _copied_by_runs(ctx, op)):
        ctx.copy(op.inputs[0], f"{op.name}.copy", op.source)
    ctx.storage.alias(op)


def _copied_by_runs(ctx: Context, op: Op) -> bool:
    """Copy the operand of a RESHAPE with the dimension whose elements are neighbours last, in
    which products read it as well; False if the result would be no view of that.
    """
    name = op.inputs[0]
    placed = ctx.storage.get(name)
    order = sorted(range(len(placed.shape)), key=lambda i: placed.strides[i] == placed.item)
    shape = tuple(placed.shape[i] for i in order)
    dense = Placed(
        root=name,
        shape=shape,
        strides=row_major(shape, placed.item),
        offset=0,
        item=placed.item,
    )
    back = tuple(order.index(i) for i in range(len(order)))
    if reshaped(dense.permuted(back), ctx.shape(op.outputs[0])) is None:
        return False
    root = ctx.storage.add_copy(name)
    ctx.move(name, root, f"{op.name}.copy", op.source, tuple(order))
    ctx.storage.placed[name] = replace(dense.permuted(back), root=root)
    return True


def transpose(ctx: Context, op: Op) -> None:
    """TRANSPOSE, gathered in the order of the result, unless products read it as it lies."""
    if ctx.permutes.only_products(op.outputs[0]):
        ctx.storage.permute(op)
        return
    root = ctx.storage.add(op.outputs[0])
    ctx.move(op.inputs[0], root, op.name, op.source, tuple(op.attributes["perms"]))


def pad(ctx: Context, op: Op) -> None:
    """PAD: LOAD fills and gathers."""
    shape = ctx.shape(op.inputs[0])
    before = tuple(int(v) for v in ctx.graph.constant(op.inputs[1]).reshape(-1)[0::2])
    value = ctx.integer(op.inputs[2])
    if len(shape) > 4:
        _pad_any(ctx, op, before, value)
        return
    lead = (0,) * (4 - len(shape))
    view = ctx.view(op.inputs[0], to_nhwc(shape))
    out = op.outputs[0]
    ctx.layers.append(
        MoveLayer(
            name=op.name,
            output=ctx.output(out, to_nhwc(ctx.shape(out))),
            ops=("PAD",),
            source=op.source,
            tensor=view.tensor,
            offset=view.offset,
            source_shape=view.shape,
            source_strides=(*view.strides, view.item),
            before=(*lead, *before),
            value=value,
        )
    )


def _pad_any(ctx: Context, op: Op, before: tuple[int, ...], value: int) -> None:
    """PAD of more than four dimensions."""
    placed = ctx.storage.get(op.inputs[0])
    shape = ctx.shape(op.outputs[0])
    rows = zip(
        shape, placed.strides, row_major(shape, placed.item), placed.shape, before, strict=True
    )
    _write(ctx, op, placed, [CopyAxis(*row) for row in rows], value=value)


def concat(ctx: Context, op: Op) -> None:
    """CONCAT: operands that do not lie in their place yet are copied there."""
    axis, out = op.attributes["axis"], op.outputs[0]
    joined = ctx.joins.place(out)
    if joined is not None:
        ctx.storage.add_piece(out, joined)
    else:
        ctx.storage.add(out)
    whole = ctx.storage.get(out)
    to = 0
    for i, name in enumerate(op.inputs):
        placed = ctx.storage.get(name)
        if placed != replace(whole, shape=placed.shape, offset=whole.offset + to):
            label = op.name if len(op.inputs) == 1 else f"{op.name}.{i}"
            dims = copy_axes(placed.shape, placed.strides, whole.strides)
            target = dense(whole.root, ctx.dtype(out), to_nhwc(ctx.shape(whole.root)))
            place = (placed.root, placed.offset)
            add_copy(
                ctx, op, place, target, merged(dims), label, kind=op.kind, to=whole.offset + to
            )
        to += placed.shape[axis] * whole.strides[axis]


def tile(ctx: Context, op: Op) -> None:
    """TILE: the source is read again and again."""
    placed = ctx.storage.get(op.inputs[0])
    times = [int(v) for v in ctx.graph.constant(op.inputs[1])]
    strides = row_major(ctx.shape(op.outputs[0]), placed.item)
    dims: list[CopyAxis] = []
    for n, size, a, b in zip(times, placed.shape, placed.strides, strides, strict=True):
        dims += [CopyAxis(n, 0, size * b), CopyAxis(size, a, b)]
    _write(ctx, op, placed, dims)


def reverse(ctx: Context, op: Op) -> None:
    """REVERSE: a negative stride, from the last element on."""
    placed, axis = ctx.storage.get(op.inputs[0]), op.attributes["axis"]
    backwards = [-s if i == axis else s for i, s in enumerate(placed.strides)]
    last = (placed.shape[axis] - 1) * placed.strides[axis]
    dims = copy_axes(placed.shape, backwards, row_major(placed.shape, placed.item))
    _write(ctx, op, replace(placed, offset=placed.offset + last), dims)


def _write(
    ctx: Context,
    op: Op,
    source: Placed,
    dims: list[CopyAxis],
    *,
    label: str = "",
    to: int = 0,
    value: int = 0,
) -> None:
    """A layer that writes the result of `op`, or a piece of it from byte `to` on."""
    out = op.outputs[0]
    if out not in ctx.storage.placed:
        ctx.storage.add(out)
    target = dense(out, ctx.dtype(out), to_nhwc(ctx.shape(out)))
    place = (source.root, source.offset)
    name = label or op.name
    add_copy(ctx, op, place, target, merged(dims), name, kind=op.kind, value=value, to=to)

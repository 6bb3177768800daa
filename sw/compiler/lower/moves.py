"""Lowering of the operators that only move data. Views cost nothing, the others are MoveLayers."""

from dataclasses import replace

from sw.compiler.kernels.layers import MoveLayer
from sw.compiler.kernels.views import ITEM, Placed, dense, reshaped, row_major, to_nhwc
from sw.compiler.lower.context import Context
from sw.compiler.tosa.graph import Op

Dim = tuple[int, int, int, int, int]
"""One dimension: (size of the result, of the source, elements before it, source and target stride
in bytes)."""


def alias(ctx: Context, op: Op) -> None:
    """RESHAPE, IDENTITY or SLICE: a view, of a copy if its elements lie too far apart."""
    if ctx.storage.alias(op):
        return
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
    placed = ctx.storage.get(op.inputs[0])
    shape = ctx.shape(op.outputs[0])
    rows = zip(
        shape,
        placed.shape,
        before,
        placed.strides,
        row_major(shape, placed.item),
        strict=True,
    )
    _piece(ctx, op, op.inputs[0], list(rows), placed.offset, 0, op.name, value)


def concat(ctx: Context, op: Op) -> None:
    """CONCAT: each operand is copied to its place."""
    axis, out = op.attributes["axis"], op.outputs[0]
    strides = row_major(ctx.shape(out), ITEM[ctx.dtype(out)])
    at = 0
    for i, name in enumerate(op.inputs):
        placed = ctx.storage.get(name)
        rows = [
            (n, n, 0, a, b) for n, a, b in zip(placed.shape, placed.strides, strides, strict=True)
        ]
        label = op.name if len(op.inputs) == 1 else f"{op.name}.{i}"
        _piece(ctx, op, name, rows, placed.offset, at, label)
        at += placed.shape[axis] * strides[axis]


def tile(ctx: Context, op: Op) -> None:
    """TILE: the source is read again and again."""
    placed = ctx.storage.get(op.inputs[0])
    times = [int(v) for v in ctx.graph.constant(op.inputs[1])]
    shape = ctx.shape(op.outputs[0])
    rows: list[Dim] = []
    strides = row_major(shape, placed.item)
    for n, size, a, b in zip(times, placed.shape, placed.strides, strides, strict=True):
        rows += [(n, n, 0, 0, size * b), (size, size, 0, a, b)]
    _piece(ctx, op, op.inputs[0], rows, placed.offset, 0, op.name)


def reverse(ctx: Context, op: Op) -> None:
    """REVERSE: a negative stride."""
    placed, axis = ctx.storage.get(op.inputs[0]), op.attributes["axis"]
    strides = row_major(placed.shape, placed.item)
    rows = [
        (n, n, 0, -a if i == axis else a, b)
        for i, (n, a, b) in enumerate(zip(placed.shape, placed.strides, strides, strict=True))
    ]
    last = (placed.shape[axis] - 1) * placed.strides[axis]
    _piece(ctx, op, op.inputs[0], rows, placed.offset + last, 0, op.name)


def _piece(
    ctx: Context,
    op: Op,
    name: str,
    rows: list[Dim],
    offset: int,
    target_offset: int,
    label: str,
    value: int = 0,
) -> None:
    """A layer that writes a piece of the result of `op` from tensor `name`."""
    out = op.outputs[0]
    tensor = ctx.graph.tensors[out]
    if out not in ctx.storage.placed:
        ctx.storage.add(out)
    merged = _merge(rows)
    ctx.layers.append(
        MoveLayer(
            name=label,
            output=dense(out, tensor.dtype, to_nhwc(tensor.shape)),
            ops=(op.kind,),
            source=op.source,
            tensor=ctx.storage.get(name).root,
            offset=offset,
            source_shape=tuple(r[1] for r in merged),
            source_strides=tuple(r[3] for r in merged),
            before=tuple(r[2] for r in merged),
            value=value,
            shape=tuple(r[0] for r in merged),
            target_offset=target_offset,
            target_strides=tuple(r[4] for r in merged),
        )
    )


def _merge(rows: list[Dim]) -> list[Dim]:
    """Without dimensions of one element, and with those joined that follow one another."""
    out: list[Dim] = []
    for size, source, before, a, b in rows:
        if size == source == 1:
            continue
        if out and not before and size == source and out[-1][3:] == (size * a, size * b):
            n, m, skip, _, _ = out[-1]
            out[-1] = (n * size, m * size, skip * size, a, b)
        else:
            out.append((size, source, before, a, b))
    return out or [(1, 1, 0, 0, 0)]

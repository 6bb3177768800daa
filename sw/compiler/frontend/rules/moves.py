"""Views, permutations, parts and concatenations: layouts where they suffice, else moves."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.fx import Node

from sw.compiler.frontend.building import Value, equal_ranks
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.nodes import arguments, permutation
from sw.compiler.frontend.operator_sets import Plan


def movable(im: Importer, source: Node) -> Value:
    """An operand with one scale; a constant in the format of its values."""
    known = im.constant(source)
    if known is not None and im.current is not None:
        return im.quantized(im.current.name, known, im.formats.wide(source))
    value = im.value(source)
    if value.channelwise:
        value = im.wide(source)
    return value


def view(im: Importer, node: Node, plan: Plan) -> Value:
    """To the node's own shape."""
    value = movable(im, plan.reads[0])
    shape = tuple(node.meta["val"].shape)
    layout = value.layout.reshape(shape)
    if layout is None:
        value = im.ordered(value)
        layout = Layout.of(shape)  # row-major, whatever the sizes divide
    return replace(value, layout=layout)


def permute(im: Importer, node: Node, plan: Plan) -> Value:
    value = movable(im, plan.reads[0])
    return replace(value, layout=value.layout.permute(permutation(node, len(value.shape))))


def part(im: Importer, node: Node, value: Value, axis: int, start: int, size: int) -> Value:
    """`size` elements from `start` along `axis`."""
    axis %= len(value.shape)
    if (start, size) == (0, value.shape[axis]):
        return value
    axes = value.layout.some_axes
    value = im.ordered(value, axes)
    begin, extent = [0] * len(value.shape), list(value.shape)
    begin[axis], extent[axis] = start, size
    out = im.slice(node, value.tensor, [begin[a] for a in axes], [extent[a] for a in axes])
    return replace(value, tensor=out, layout=Layout.of(extent, axes))


def slice_(im: Importer, node: Node, plan: Plan) -> Value:
    value = movable(im, plan.reads[0])
    given = arguments(node)
    axis, by = given["dim"], given["step"]
    start, stop, _ = slice(given["start"], given["end"]).indices(value.shape[axis])
    if by == 1:
        return part(im, node, value, axis, start, stop - start)
    return _strided(im, node, value, axis % len(value.shape), start, -(-(stop - start) // by), by)


def _strided(
    im: Importer, node: Node, value: Value, axis: int, start: int, count: int, by: int
) -> Value:
    """Every `by`-th element: one of each group of `by`, the last one filled up."""
    value = im.ordered(value)
    shape = list(value.shape)
    # Groups that begin early enough to be whole need nothing behind them.
    first = min(start, by - 1, max(0, start + count * by - shape[axis]))
    start -= first
    size = min(count * by, shape[axis] - start)
    value = im.ordered(part(im, node, value, axis, start, size))
    tensor = value.tensor
    if size < count * by:
        pads = [0] * (2 * len(shape))
        pads[2 * axis + 1] = count * by - size
        padding = im.graph.add_constant(f"{node.name}_padding", pads, "shape")
        fill = im.graph.add_constant(f"{node.name}_fill", [0], im.dtype(value))
        tensor = im.op(node, "PAD", [tensor, padding, fill])
    lead, behind = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    tensor = im.reshaped(tensor, (lead, count, by, behind))
    tensor = im.slice(node, tensor, [0, 0, first, 0], [lead, count, 1, behind])
    shape[axis] = count
    return replace(value, tensor=im.reshaped(tensor, shape), layout=Layout.of(shape))


def pieces(
    im: Importer, node: Node, value: Value, axis: int, at: Sequence[int], most: int
) -> Value | None:
    """The elements `at` of a dimension as runs side by side; None for more than `most` runs."""
    starts = [i for i, v in enumerate(at) if i == 0 or v != at[i - 1] + 1]
    if len(starts) > most:
        return None
    value = im.ordered(value)
    parts = [
        im.ordered(part(im, node, value, axis, at[i], stop - i))
        for i, stop in zip(starts, [*starts[1:], len(at)], strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    out = im.concat(node, [p.tensor for p in parts], axis)
    return replace(value, tensor=out, layout=Layout.of(tuple(node.meta["val"].shape)))


def flip(im: Importer, node: Node, plan: Plan) -> Value:
    """REVERSE of each dimension."""
    value = movable(im, plan.reads[0])
    order = value.layout.some_axes
    value = im.ordered(value, order)
    tensor = value.tensor
    for axis in node.args[1]:
        at = order.index(axis % len(order))
        tensor = im.op(node, "REVERSE", [tensor], {"axis": at})
    return replace(value, tensor=tensor)


def copy(im: Importer, node: Node, plan: Plan) -> Value:
    """The second operand in the shape of the first."""
    source = node.args[1]
    value = im.get(source, im.formats.wide(node)) if im.constant(source) is not None else (
        movable(im, source)
    )  # fmt: skip
    return _expanded(im, node, value)


def select(im: Importer, node: Node, plan: Plan) -> Value:
    value = movable(im, plan.reads[0])
    axis, index = node.args[1:3]
    value = part(im, node, value, axis, index % value.shape[axis], 1)
    layout = value.layout.reshape(tuple(node.meta["val"].shape))
    assert layout is not None  # a dimension of size 1 has no factor
    return replace(value, layout=layout)


def split(im: Importer, node: Node, plan: Plan) -> tuple[Value, ...]:
    """split, chunk: parts along an axis, as the node's own results say."""
    value = movable(im, plan.reads[0])
    axis = arguments(node)["dim"]
    parts, start = [], 0
    for piece in node.meta["val"]:
        size = piece.shape[axis]
        parts.append(part(im, node, value, axis, start, size))
        start += size
    return tuple(parts)


def getitem(im: Importer, node: Node, plan: Plan) -> Any:
    return im.env[plan.reads[0]][node.args[1]]


def cat(im: Importer, node: Node, plan: Plan) -> Value:
    """CONCAT of parts in one format."""
    want, axis = im.formats.plain(node), arguments(node)["dim"]
    values = [im.get(o, want) for o in node.args[0] if o.meta["val"].numel()]
    shape = tuple(node.meta["val"].shape)
    leader = max(values, key=lambda v: (not im.is_constant(v), math.prod(v.shape)))
    axes = leader.layout.some_axes
    parts = [im.ordered(v, axes) for v in values]
    out = im.concat(node, [p.tensor for p in parts], axes.index(axis % len(shape)))
    return Value.of(out, Layout.of(shape, axes), want)


def expand(im: Importer, node: Node, plan: Plan) -> Value:
    """TILE of the dimensions that grow; none of them for sums and products, which broadcast."""
    return _expanded(im, node, movable(im, plan.reads[0]))


def _expanded(im: Importer, node: Node, value: Value) -> Value:
    shape = tuple(node.meta["val"].shape)
    if shape == value.shape:
        return value
    value = im.ordered(value)
    padded = equal_ranks(value.shape, len(shape))
    return tiled(im, node, value, padded, [a // b for a, b in zip(shape, padded, strict=True)])


def repeat(im: Importer, node: Node, plan: Plan) -> Value:
    value = im.ordered(movable(im, plan.reads[0]))
    times = list(node.args[1])
    return tiled(im, node, value, equal_ranks(value.shape, len(times)), times)


def tiled(
    im: Importer, node: Node, value: Value, shape: Sequence[int], times: Sequence[int]
) -> Value:
    tensor = im.reshaped(value.tensor, shape)
    if any(t != 1 for t in times):
        multiples = im.graph.add_constant(f"{node.name}_multiples", list(times), "shape")
        tensor = im.op(node, "TILE", [tensor, multiples])
    layout = Layout.of([s * t for s, t in zip(shape, times, strict=True)])
    return replace(value, tensor=tensor, layout=layout)

"""Sums, means, extrema and positions along dimensions; running sums."""

import math
from collections.abc import Sequence
from dataclasses import replace

from torch.fx import Node

from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.nodes import arguments, is_float, name, shape
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.quantization.formats import Format
from sw.compiler.frontend.rules.grids import changes_grid, keeps_grid, rounded_behind
from sw.compiler.frontend.rules.logic import as_bool
from sw.compiler.frontend.rules.pools import adaptive_average, pooled_mean


def _axes(call: Node) -> list[int]:
    """Dimensions that a call names: one, several, or all."""
    given, rank = arguments(call).get("dim"), len(shape(call.args[0]))
    if given is None or given == []:
        return list(range(rank))
    return sorted(a % rank for a in ([given] if isinstance(given, int) else given))


def _reduced(
    im: Importer, node: Node, axes: Sequence[int], value: Value, kind: str, bits: int = 0
) -> Value:
    """One TOSA reduction after the other, in memory order.

    bits: of each value, where the sum of many might need more than int32 has. They then lose low
    bits before the dimension that is too much.
    """
    order = value.layout.some_axes
    value = im.ordered(value, order)
    most = 1 << bits - 1 if bits else 0
    for at in sorted(order.index(a) for a in axes):
        count = value.shape[order[at]]
        value, most = _with_room(im, node, value, most, count)
        value = replace(value, tensor=im.op(node, kind, [value.tensor], {"axis": at}))
    kept = Layout.of([1 if i in axes else s for i, s in enumerate(value.shape)], order)
    layout = kept.reshape(shape(node))
    assert layout is not None  # only dimensions of size 1 go
    return replace(value, layout=layout)


def _with_room(im: Importer, node: Node, value: Value, most: int, count: int) -> tuple[Value, int]:
    """A value up to `most`, in steps of which `count` add up in int32; what the sum is at most."""
    excess = max(0, most * count - 1) >> 31
    if excess:
        by = 1 << excess.bit_length()
        value = im.convert(value, Format(dtype="int32", scale=value.step * by), node.name)
        most = most // by + 1
    return value, most * count


def _bits(im: Importer, source: Node) -> int:
    """Of a value that `_int32` gives; 0 of whole numbers, whose sums are exact if they fit."""
    if not is_float(source):
        return 0
    return 9 if im.planner.grid_behind(source) is not None else 16


def _int32(im: Importer, node: Node, source: Node) -> Value:
    """A value with one scale as int32, exactly where a quantized graph has it as int8."""
    if im.planner.grid_behind(source) is not None:
        value = im.value(source)
        return im.convert(value, Format(dtype="int32", scale=value.step), node.name)
    value = im.wide(source)
    return replace(value, tensor=im.int32(node, value.tensor))


def total(im: Importer, node: Node, plan: Plan) -> Value:
    """REDUCE_SUM in int32."""
    (source,) = plan.reads
    value = _int32(im, node, source)
    axes, bits = _axes(plan.source), _bits(im, source)
    return im.finish(node, _reduced(im, node, axes, value, "REDUCE_SUM", bits))


def mean(im: Importer, node: Node, plan: Plan) -> Value:
    """The sum, in smaller steps; AVG_POOL2D of images where a quantized graph keeps their grid."""
    (source,) = plan.reads
    axes = _axes(plan.source)
    if len(shape(source)) == 4 and axes == [2, 3] and keeps_grid(im, node, source):
        return pooled_mean(im, node, im.value(source))
    return _mean(im, node, source, axes)


def adaptive_avg_pool(im: Importer, node: Node, plan: Plan) -> Value:
    """AVG_POOL2D; the sum where a quantized graph rounds the mean of an image to a grid of its own.

    AVG_POOL2D would round to the grid of the image before.
    """
    (source,) = plan.reads
    if changes_grid(im, node, source) and math.prod(shape(node)[2:]) == 1:
        return _mean(im, node, source, [2, 3])
    return adaptive_average(im, node, plan)


def _mean(im: Importer, node: Node, source: Node, axes: Sequence[int]) -> Value:
    bits = _bits(im, source)
    value = _reduced(im, node, axes, _int32(im, node, source), "REDUCE_SUM", bits)
    count = math.prod(shape(source)) // max(math.prod(shape(node)), 1)
    value = replace(value, scale=value.scale / count)
    return value if rounded_behind(im, node) else im.finish(node, value)


def extreme(im: Importer, node: Node, plan: Plan) -> Value:
    """Largest or smallest value along dimensions (amax, max.dim), without places."""
    kind = "REDUCE_MAX" if "max" in name(plan.source) else "REDUCE_MIN"
    return _reduced(im, node, _axes(plan.source), im.wide(plan.reads[0]), kind)


def any_(im: Importer, node: Node, plan: Plan) -> Value:
    value = as_bool(im, node, plan.reads[0])
    return _reduced(im, node, _axes(plan.source), value, "REDUCE_ANY")


def argmax(im: Importer, node: Node, plan: Plan) -> Value:
    """ARGMAX of at most 16 bits: the first of the largest; of int32, of what equals the largest."""
    (source,) = plan.reads
    value = im.ordered(im.wide(source))
    axis = arguments(plan.source)["dim"]
    tensor = value.tensor
    if axis is None:
        axis, tensor = 0, im.reshaped(tensor, (math.prod(value.shape),))
    axis %= len(im.graph.tensors[tensor].shape)
    if im.graph.tensors[tensor].dtype == "int32":
        largest = im.op(node, "REDUCE_MAX", [tensor], {"axis": axis}, name=f"{node.name}_largest")
        equal = im.op(node, "EQUAL", [tensor, largest], name=f"{node.name}_equal")
        tensor = im.op(node, "CAST", [equal], name=f"{node.name}_int8", out_dtype="int8")
    out = im.op(node, "ARGMAX", [tensor], {"axis": axis})
    return Value(tensor=im.reshaped(out, shape(node)), layout=Layout.of(shape(node)), scale=1.0)


def cumsum(im: Importer, node: Node, plan: Plan) -> Value:
    """Running sums in int32: log2(n) sums of the value with itself, shifted."""
    (source,) = plan.reads
    value = im.ordered(_int32(im, node, source))
    axis = arguments(plan.source)["dim"] % len(value.shape)
    bits = _bits(im, source)
    value, _ = _with_room(im, node, value, 1 << bits - 1 if bits else 0, value.shape[axis])
    tensor, size, by = value.tensor, list(value.shape), 1
    while by < size[axis]:
        part = [n - by if i == axis else n for i, n in enumerate(size)]
        ahead = im.slice(node, tensor, [0] * len(size), part, name=f"{node.name}_ahead")
        pads = [by if j == 2 * axis else 0 for j in range(2 * len(size))]
        padding = im.graph.add_constant(f"{node.name}_padding", pads, "shape")
        zero = im.scalar(0, "int32")
        tensor = im.op(node, "ADD", [tensor, im.op(node, "PAD", [ahead, padding, zero])])
        by *= 2
    return im.finish(node, replace(value, tensor=tensor))

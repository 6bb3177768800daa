"""Sums, means, extrema and positions along dimensions; running sums."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.fx import Node

from sw.compiler.frontend.importer import Importer, Rule, Value
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.limits import argument
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.rules.logic import as_bool
from sw.compiler.frontend.rules.pools import pooled_mean


def _axes(given: Any, rank: int) -> list[int]:
    """Dimensions of an argument: one, several, or all."""
    if given is None or given == []:
        return list(range(rank))
    return sorted(a % rank for a in ([given] if isinstance(given, int) else given))


def reduced(
    im: Importer, node: Node, value: Value, name: str, axes: Sequence[int], shape: Sequence[int]
) -> Value:
    """One TOSA reduction after the other, in memory order; `shape`: of the node's result."""
    order = value.layout.axes or tuple(range(len(value.shape)))
    value = im.ordered(value, order)
    tensor = value.tensor
    for at in sorted(order.index(a) for a in axes):
        tensor = im.op(node, name, [tensor], {"axis": at})
    kept = Layout.of([1 if i in axes else s for i, s in enumerate(value.shape)], order)
    layout = kept.reshape(tuple(shape))
    assert layout is not None  # only dimensions of size 1 go
    return replace(value, tensor=tensor, layout=layout)


def _shape(node: Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def _int32(im: Importer, node: Node, source: Node) -> Value:
    """A value with one scale as int32."""
    value = im.wide(source)
    if im.dtype(value) == "int32":
        return value
    tensor = im.op(node, "CAST", [value.tensor], name=f"{node.name}_cast", out_dtype="int32")
    return replace(value, tensor=tensor)


def _scalar(shape: tuple[int, ...], source: Node) -> tuple[int, ...]:
    return shape or tuple(1 for _ in source.meta["val"].shape)


def total(im: Importer, node: Node, plan: Plan) -> Value:
    """REDUCE_SUM in int32."""
    return im.finish(node, _total(im, node, plan), ("bounded",))


def _total(im: Importer, node: Node, plan: Plan) -> Value:
    (source,) = plan.reads
    value = _int32(im, node, source)
    axes = _axes(argument(plan.source, 1, "dim"), len(value.shape))
    return reduced(im, node, value, "REDUCE_SUM", axes, _shape(node))


def mean(im: Importer, node: Node, plan: Plan) -> Value:
    """The sum, in smaller steps; AVG_POOL2D of images that a quantized graph has as int8."""
    (source,) = plan.reads
    rank = len(source.meta["val"].shape)
    images = rank == 4 and _axes(argument(plan.source, 1, "dim"), rank) == [2, 3]
    if images and im.planner.grid_behind(source) is not None:
        return pooled_mean(im, node, im.value(source))
    value = _total(im, node, plan)
    count = math.prod(plan.reads[0].meta["val"].shape) // max(node.meta["val"].numel(), 1)
    return im.finish(node, replace(value, scale=value.scale / count), ("bounded",))


def extreme(name: str) -> Rule:
    """Largest or smallest value along dimensions (amax, max.dim), without places."""

    def run(im: Importer, node: Node, plan: Plan) -> Value:
        (source,) = plan.reads
        value = im.wide(source)
        axes = _axes(argument(plan.source, 1, "dim"), len(value.shape))
        return reduced(im, node, value, name, axes, _shape(node))

    return run


def any_(im: Importer, node: Node, plan: Plan) -> Value:
    value = as_bool(im, node, plan.reads[0])
    axes = _axes(argument(plan.source, 1, "dim"), len(value.shape))
    return reduced(im, node, value, "REDUCE_ANY", axes, _shape(node))


def argmax(im: Importer, node: Node, plan: Plan) -> Value:
    """ARGMAX of int16: the first of the largest."""
    (source,) = plan.reads
    value = im.ordered(im.wide(source))
    if im.dtype(value) == "int32":
        value = im.convert(value, im.formats.wide(source), node.name)
    axis = argument(plan.source, 1, "dim")
    tensor = value.tensor
    if axis is None:
        axis, tensor = 0, im.reshaped(tensor, (math.prod(value.shape),))
    out = im.op(node, "ARGMAX", [tensor], {"axis": axis % len(im.graph.tensors[tensor].shape)})
    shape = _shape(node)
    return Value(tensor=im.reshaped(out, shape), layout=Layout.of(shape), scale=1.0)


def cumsum(im: Importer, node: Node, plan: Plan) -> Value:
    """Running sums in int32: log2(n) sums of the value with itself, shifted."""
    (source,) = plan.reads
    value = im.ordered(_int32(im, node, source))
    axis = int(argument(plan.source, 1, "dim")) % len(value.shape)
    tensor, shape, by = value.tensor, list(value.shape), 1
    while by < shape[axis]:
        part = [n - by if i == axis else n for i, n in enumerate(shape)]
        start = im.graph.add_constant(f"{node.name}_start", [0] * len(shape), "shape")
        size = im.graph.add_constant(f"{node.name}_size", part, "shape")
        ahead = im.op(node, "SLICE", [tensor, start, size], name=f"{node.name}_ahead")
        pads = [by if j == 2 * axis else 0 for j in range(2 * len(shape))]
        padding = im.graph.add_constant(f"{node.name}_padding", pads, "shape")
        zero = im.scalar(0, "int32")
        tensor = im.op(node, "ADD", [tensor, im.op(node, "PAD", [ahead, padding, zero])])
        by *= 2
    return im.finish(node, replace(value, tensor=tensor), ("bounded",))


amax, amin = extreme("REDUCE_MAX"), extreme("REDUCE_MIN")

"""Sums, products by element, norms, and functions of one value."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from spec.sequences import layer_norm as layer_norm_of
from spec.sequences import rms_norm as rms_norm_of
from spec.sequences import tabled
from sw.compiler.layout import Layout
from sw.compiler.transformer.broadcast import same_shape
from sw.compiler.transformer.formats import Format
from sw.compiler.transformer.importer import Importer, Value
from sw.compiler.transformer.products import added_constant
from sw.compiler.transformer.sets import Plan, aten

Float = NDArray[np.float64]

_FINE = 256
"""Steps of a sum for each step of its int16 result."""


def _sum(kind: str) -> Callable[[Importer, Node, Plan], Value]:
    def run(im: Importer, node: Node, _: Plan) -> Value:
        want = im.formats.of(node)
        operands = list(node.args[:2])
        if want.dtype == "int32":
            return _scores(im, node, kind, operands)
        base = Format(dtype="int32", scale=float(np.max(im.formats.wide(node).scale)) / _FINE)
        values = [_operand(im, node, o, base) for o in operands]
        tensors, layout = same_shape(im, values)
        out = im.op(node, kind, tensors)
        return im.finish(node, Value(tensor=out, layout=layout, scale=base.scale), ("bounded",))

    return run


def _operand(im: Importer, node: Node, operand: Any, want: Format) -> Value:
    known = im.constant(operand)
    if known is not None:
        return im.quantized(node.name, known, want)
    return im.get(operand, want)


def _scores(im: Importer, node: Node, kind: str, operands: list[Any]) -> Value:
    """A sum that only a softmax reads: int32 in steps of the variable operand."""
    known = [im.constant(o) for o in operands]
    at = 0 if known[0] is None else 1
    value = im.get(operands[at], Format(dtype="int32", scale=0.0))
    other = known[1 - at]
    if other is not None:
        im.require(kind == "ADD" or at == 0, node, "a constant minus scores")
        return added_constant(im, node, value, other if kind == "ADD" else -other)
    assert isinstance(value.scale, float)
    second = im.get(operands[1 - at], Format(dtype="int32", scale=value.scale))
    tensors, layout = same_shape(im, [value, second])
    return Value(tensor=im.op(node, kind, tensors), layout=layout, scale=value.scale)


def multiply(im: Importer, node: Node, _: Plan) -> Value:
    """int16 times int16 in int32, then RESCALE."""
    values = []
    for operand in node.args[:2]:
        known = im.constant(operand)
        if known is not None:
            largest = max(float(np.abs(known).max()), 2.0**-40)
            value = im.quantized(node.name, known, Format(dtype="int16", scale=largest / 32767))
        else:
            value = im.wide(operand)
        values.append(value)
    tensors, layout = same_shape(im, values)
    wide = [im.op(node, "CAST", [t], name=f"{node.name}_cast", out_dtype="int32") for t in tensors]
    out = im.op(node, "MUL", [*wide, im.scalar(0, "int8")])
    assert isinstance(values[0].scale, float) and isinstance(values[1].scale, float)
    value = Value(tensor=out, layout=layout, scale=values[0].scale * values[1].scale)
    return im.finish(node, value, ("bounded",))


add, sub = _sum("ADD"), _sum("SUB")


def scale(im: Importer, node: Node, plan: Plan) -> Value:
    """The same integers under another scale."""
    (source,) = plan.reads
    value = im.value(source)
    return replace(value, scale=value.scale * plan.data["factor"])


def negate(im: Importer, node: Node, plan: Plan) -> Value:
    (source,) = plan.reads
    value = im.wide(source)
    zero = im.scalar(0, im.dtype(value))
    return replace(value, tensor=im.op(node, "NEGATE", [value.tensor, zero, zero]))


def univariate(im: Importer, node: Node, plan: Plan) -> Value:
    """Any chain of elementwise operators on one value: TABLE over int16."""
    (source,) = plan.reads
    if node.target is aten.neg.default and node.args[0] is source:
        return negate(im, node, plan)
    value = im.wide(source)
    if im.dtype(value) != "int16":
        value = im.convert(value, im.formats.wide(source), node.name)
    function = plan.data["function"]

    def f(x: Float) -> Float:
        return np.asarray(function(torch.from_numpy(x)).numpy(), np.float64)

    want = im.formats.of(node)
    if want.dtype == "int32":
        want = im.formats.wide(node)
    in_scale = value.scale
    assert isinstance(in_scale, float)
    if isinstance(want.scale, np.ndarray):
        value = im.ordered(value)
        operators = tabled(
            f, in_scale, 1.0, in_dtype="int16", out_dtype=want.dtype, channels=want.scale
        )
    else:
        operators = tabled(
            f, in_scale, want.scale, in_dtype="int16", out_dtype=want.dtype, out_zp=want.zero_point
        )
    (out,) = im.sequence(node, operators, value.tensor)
    return replace(value, tensor=out, scale=want.scale, zero_point=want.zero_point)


def bounded(im: Importer, node: Node, plan: Plan) -> Value:
    """A value between bounds: CLAMP, where the type's own range does not end there."""
    (source,) = plan.reads
    low, high = plan.data["low"], plan.data["high"]
    want = im.formats.of(node)
    channelwise = isinstance(want.scale, np.ndarray)
    if want.dtype == "int32" or (channelwise and (low or high is not None)):
        want = im.formats.wide(node)
    value = im.convert(im.value(source), want, node.name)
    least, most = (-128, 127) if want.dtype == "int8" else (-32768, 32767)
    steps = [
        least
        if low is None
        else max(least, int(np.rint(low / np.max(want.scale))) + want.zero_point),
        most
        if high is None
        else min(most, int(np.rint(high / np.max(want.scale))) + want.zero_point),
    ]
    if steps == [least, most]:
        return value
    attributes = {"min_val": min(steps[0], most), "max_val": max(steps[1], least)}
    return replace(value, tensor=im.op(node, "CLAMP", [value.tensor], attributes))


def _norm_input(im: Importer, node: Node, source: Node) -> Value:
    value = im.ordered(im.wide(source))
    if im.dtype(value) != "int16":
        value = im.convert(value, im.formats.wide(source), node.name)
    return value


def layer_norm(im: Importer, node: Node, plan: Plan) -> Value:
    (source,) = plan.reads
    value = _norm_input(im, node, source)
    args: Any = [*plan.source.args[2:], None, None, 1e-5][:3]
    gamma, beta = (im.constant(a) if a is not None else None for a in args[:2])
    eps = float(args[2] if len(plan.source.args) > 4 else 1e-5)
    want = _norm_format(im, node)
    assert isinstance(value.scale, float)
    operators = layer_norm_of(value.shape, value.scale, eps, gamma, beta, want.scale, want.dtype)
    (out,) = im.sequence(node, operators, value.tensor)
    return Value(tensor=out, layout=Layout.of(value.shape), scale=want.scale)


def rms_norm(im: Importer, node: Node, plan: Plan) -> Value:
    (source,) = plan.reads
    value = _norm_input(im, node, source)
    gamma = im.constant(plan.data["gamma"]) if plan.data["gamma"] is not None else None
    want = _norm_format(im, node)
    assert isinstance(value.scale, float)
    operators = rms_norm_of(
        value.shape, value.scale, plan.data["eps"], gamma, want.scale, want.dtype
    )
    (out,) = im.sequence(node, operators, value.tensor)
    return Value(tensor=out, layout=Layout.of(value.shape), scale=want.scale)


def _norm_format(im: Importer, node: Node) -> Format:
    want = im.formats.of(node)
    if want.zero_point:
        return im.formats.symmetric(node)
    return im.formats.wide(node) if want.dtype == "int32" else want


def mean(im: Importer, node: Node, plan: Plan) -> Value:
    """The mean over some axes, kept or not."""
    (source,) = plan.reads
    value = im.wide(source)
    order = value.layout.axes or tuple(range(len(value.shape)))
    value = im.ordered(value, order)
    shape = list(value.shape)
    given = node.args[1] if len(node.args) > 1 and node.args[1] else range(len(shape))
    axes = sorted(a % len(shape) for a in ([given] if isinstance(given, int) else given))
    tensor = im.op(node, "CAST", [value.tensor], name=f"{node.name}_cast", out_dtype="int32")
    count = math.prod(shape[a] for a in axes)
    for axis in sorted(order.index(a) for a in axes):
        tensor = im.op(node, "REDUCE_SUM", [tensor], {"axis": axis})
    assert isinstance(value.scale, float)
    kept = Layout.of([1 if i in axes else s for i, s in enumerate(shape)], order)
    layout = kept.reshape(tuple(node.meta["val"].shape))
    assert layout is not None  # only dimensions of size 1 go
    out = Value(tensor=tensor, layout=layout, scale=value.scale / count)
    return im.finish(node, out, ("bounded",))


def same(im: Importer, node: Node, plan: Plan) -> Value:
    value = im.env[plan.reads[0]]
    assert isinstance(value, Value)
    return value

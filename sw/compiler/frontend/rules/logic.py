"""Comparisons, logic, choice, extrema of two values, and changes of type."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch.fx import Node

from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.nodes import arguments, is_float, kind, name
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.quantization.calibrate import HUGE
from sw.compiler.frontend.quantization.formats import Format
from sw.compiler.frontend.quantization.values import TINY
from sw.compiler.frontend.rules.broadcast import joined, same_shape

_INT32 = (1 << 31) - 1
_INTEGER = Format(dtype="int32", scale=1.0)


def operand(im: Importer, node: Node, value: Any, want: Format) -> Value:
    """A node's value or a number in format `want`."""
    known = im.constant(value)
    return im.quantized(node.name, known, want) if known is not None else im.get(value, want)


def common(im: Importer, node: Node, operands: Sequence[Any]) -> list[Value]:
    """Operands as int32 of one scale."""
    if not any(kind(o) == "float" or isinstance(o, float) for o in operands):
        scale = 1.0
    else:
        # The finest operand keeps its steps; 2^30 holds the largest.
        known = [im.constant(o) for o in operands]
        largest = max(
            im.formats.magnitude(o) if k is None else float(np.abs(_finite(k)).max(initial=0))
            for o, k in zip(operands, known, strict=True)
        )
        scale = max(largest, TINY) * 2 / (1 << 30)
    return [operand(im, node, o, Format(dtype="int32", scale=scale)) for o in operands]


def _finite(values: Any) -> Any:
    return values[np.abs(values) < HUGE]


# Comparisons --------------------------------------------------------------------------------------


def _in_steps(im: Importer, node: Node, source: Node) -> Value:
    """A value as int32 in its own steps."""
    value = im.value(source)
    if im.dtype(value) == "bool" or value.channelwise:
        value = im.convert(value, im.formats.wide(source) if is_float(source) else _INTEGER)
    return im.convert(value, Format(dtype="int32", scale=value.scale), node.name)


def compare(im: Importer, node: Node, _: Plan) -> Value:
    """eq, ne, lt, le, gt, ge of a value and a number, or of two values."""
    kind_, (a, b) = name(node), node.args[:2]
    if isinstance(b, bool | int | float) and isinstance(a, Node):
        value = _in_steps(im, node, a)
        steps = float(b) / value.step
        if math.isfinite(steps):
            # What lies between two steps: the integers on its one side.
            whole = {"gt": math.floor, "le": math.floor, "ge": math.ceil, "lt": math.ceil}
            steps = whole.get(kind_, round)(round(steps, 6))
        limit = int(min(max(steps, -_INT32), _INT32))
        tensors, layout = [value.tensor, im.number(limit, value.tensor)], value.layout
    else:
        tensors, layout = same_shape(im, common(im, node, (a, b)))
    if kind_ in ("lt", "le"):
        tensors = tensors[::-1]
    out = im.op(node, _COMPARISONS[kind_], tensors)
    out = im.op(node, "LOGICAL_NOT", [out]) if kind_ == "ne" else out
    return Value(tensor=out, layout=layout, scale=1.0)


_COMPARISONS = {
    "eq": "EQUAL",
    "ne": "EQUAL",
    "gt": "GREATER",
    "lt": "GREATER",
    "ge": "GREATER_EQUAL",
    "le": "GREATER_EQUAL",
}


# Logic --------------------------------------------------------------------------------------------


def as_bool(im: Importer, node: Node, value: Any) -> Value:
    """A value as a bool: whether it is not zero."""
    known = im.constant(value)
    if known is not None:
        return im.quantized(node.name, known, Format(dtype="bool", scale=1.0))
    if kind(value) == "bool":
        return im.value(value)
    made = _in_steps(im, node, value)
    zero = im.number(0, made.tensor)
    equal = im.op(node, "EQUAL", [made.tensor, zero], name=f"{node.name}_is_zero")
    return replace(made, tensor=im.op(node, "LOGICAL_NOT", [equal]), scale=1.0)


def logical_not(im: Importer, node: Node, plan: Plan) -> Value:
    value = as_bool(im, node, plan.reads[0])
    return replace(value, tensor=im.op(node, "LOGICAL_NOT", [value.tensor]))


def logical(im: Importer, node: Node, _: Plan) -> Value:
    """AND, OR, XOR of truth."""
    return _by_bit(im, node, "LOGICAL", [as_bool(im, node, o) for o in node.args[:2]])


def bitwise(im: Importer, node: Node, plan: Plan) -> Value:
    """AND, OR, XOR of integers; of bools the logical operator."""
    if kind(node) == "bool":
        return logical(im, node, plan)
    return _by_bit(im, node, "BITWISE", [operand(im, node, o, _INTEGER) for o in node.args[:2]])


def _by_bit(im: Importer, node: Node, family: str, values: Sequence[Value]) -> Value:
    """`logical_and`, `bitwise_and` and `__and__` are all an AND."""
    which = name(node).strip("_").split("_")[-1].upper()
    return joined(im, node, f"{family}_{which}", values)


def bitwise_not(im: Importer, node: Node, plan: Plan) -> Value:
    if kind(node) == "bool":
        return logical_not(im, node, plan)
    value = im.get(plan.reads[0], _INTEGER)
    return replace(value, tensor=im.op(node, "BITWISE_NOT", [value.tensor]))


# Choice -------------------------------------------------------------------------------------------


def where(im: Importer, node: Node, _: Plan) -> Value:
    """SELECT of two values in one format; infinite constants become the format's ends."""
    condition, *operands = node.args[:3]
    want = im.formats.plain(node)
    values = [as_bool(im, node, condition), *(operand(im, node, o, want) for o in operands)]
    tensors, layout = same_shape(im, values)
    return Value.of(im.op(node, "SELECT", tensors), layout, want)


def extremum(im: Importer, node: Node, _: Plan) -> Value:
    """MAXIMUM or MINIMUM of two values."""
    values = common(im, node, node.args[:2])
    out = joined(im, node, name(node).upper(), values, values[0].step)
    return im.finish(node, out)


def clamp_integers(im: Importer, node: Node, plan: Plan) -> Value:
    """MAXIMUM and MINIMUM with the bounds."""
    value, given = im.get(plan.reads[0], _INTEGER), arguments(node)
    bounds = {
        "MAXIMUM": 0 if "relu" in name(node) else given.get("min", given.get("min_val")),
        "MINIMUM": 6 if name(node) == "relu6" else given.get("max", given.get("max_val")),
    }
    for operator, bound in bounds.items():
        if bound is not None:
            operands = [value.tensor, im.number(int(bound), value.tensor)]
            value = replace(value, tensor=im.op(node, operator, operands))
    return value


def integer_division(im: Importer, node: Node, _: Plan) -> Value:
    """INTDIV, which cuts towards zero."""
    return joined(im, node, "INTDIV", [operand(im, node, o, _INTEGER) for o in node.args[:2]])


# Types --------------------------------------------------------------------------------------------


def cast(im: Importer, node: Node, plan: Plan) -> Value:
    """Another type of the same numbers: towards zero for integers, not zero for bools."""
    (source,) = plan.reads
    if kind(node) == "bool":
        return as_bool(im, node, source)
    if kind(source) == "float" and kind(node) == "int":
        if im.formats.is_whole(source):
            # It is the number next to it. What saturates stays below the next one.
            value = _whole(im, node, source, "nearest")
            largest = 32767 * float(im.formats.wide(source).scale)
            most = im.number(int(largest), value.tensor)
            return replace(value, tensor=im.op(node, "MINIMUM", [value.tensor, most]))
        return _whole(im, node, source, "trunc")
    if kind(source) == "bool":
        return im.convert(im.value(source), _INTEGER, node.name)
    return im.value(source)


def rounded(im: Importer, node: Node, plan: Plan) -> Value:
    """floor, ceil, trunc, round of a float value."""
    return im.finish(node, _whole(im, node, plan.reads[0], name(node)))


def _whole(im: Importer, node: Node, source: Node, way: str) -> Value:
    """Fixed point with as many bits of fraction as there is room for, shifted out."""
    largest = im.formats.magnitude(source)
    bits = max(0, min(16, 29 - math.ceil(math.log2(largest + 1))))
    value = im.get(source, Format(dtype="int32", scale=2.0**-bits))
    tensor = value.tensor
    below = im.number((1 << bits) - 1, tensor)
    if way == "ceil":
        tensor = im.op(node, "ADD", [tensor, below])
    elif way == "round" and bits:
        # Just below a half, and one step more above odd numbers: halves become even.
        shifted = im.op(
            node, "ARITHMETIC_RIGHT_SHIFT", [tensor, im.number(bits, tensor)], {"round": False}
        )
        odd = im.op(node, "BITWISE_AND", [shifted, im.number(1, tensor)])
        half = im.number((1 << (bits - 1)) - 1, tensor)
        tensor = im.op(node, "ADD", [tensor, im.op(node, "ADD", [odd, half])])
    elif way == "nearest" and bits:
        tensor = im.op(node, "ADD", [tensor, im.number(1 << (bits - 1), tensor)])
    elif way == "trunc":
        sign = im.op(
            node, "ARITHMETIC_RIGHT_SHIFT", [tensor, im.number(31, tensor)], {"round": False}
        )
        tensor = im.op(node, "ADD", [tensor, im.op(node, "BITWISE_AND", [sign, below])])
    out = im.op(node, "ARITHMETIC_RIGHT_SHIFT", [tensor, im.number(bits, tensor)], {"round": False})
    return replace(value, tensor=out, scale=1.0)

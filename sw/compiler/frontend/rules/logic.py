"""Comparisons, logic, choice, extrema of two values, and changes of type."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch.fx import Node

from sw.compiler.frontend.importer import Importer, Rule, Value
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.operator_sets import Plan, is_float, kind
from sw.compiler.frontend.quantization.formats import Format
from sw.compiler.frontend.rules.broadcast import same_shape

_INT32 = (1 << 31) - 1
_INTEGER = Format(dtype="int32", scale=1.0)


def operand(im: Importer, node: Node, value: Any, want: Format) -> Value:
    """A node's value or a number in format `want`."""
    known = im.constant(value)
    return im.quantized(node.name, known, want) if known is not None else im.get(value, want)


def common(im: Importer, node: Node, operands: Sequence[Any]) -> tuple[list[str], Layout, float]:
    """Operands as int32 of one scale: (tensors that broadcast, layout of the result, scale)."""
    if not any(kind(o) == "float" or isinstance(o, float) for o in operands):
        scale = 1.0
    else:
        # The finest operand keeps its steps; 2^30 holds the largest.
        known = [im.constant(o) for o in operands]
        largest = max(
            im.formats.magnitude(o) if k is None else float(np.abs(_finite(k)).max(initial=0))
            for o, k in zip(operands, known, strict=True)
        )
        scale = max(largest, 2.0**-40) * 2 / (1 << 30)
    values = [operand(im, node, o, Format(dtype="int32", scale=scale)) for o in operands]
    tensors, layout = same_shape(im, values)
    return tensors, layout, scale


def _finite(values: Any) -> Any:
    return values[np.isfinite(values)]


# Comparisons --------------------------------------------------------------------------------------


def _against(im: Importer, node: Node, source: Node, number: float) -> Value:
    """A value as int32 in its own steps, which `number` is compared with."""
    value = im.value(source)
    if im.dtype(value) == "bool" or value.channelwise:
        value = im.convert(value, im.formats.wide(source) if is_float(source) else _INTEGER)
    return im.convert(value, Format(dtype="int32", scale=value.scale), node.name)


def compare(name: str) -> Rule:
    """eq, ne, lt, le, gt, ge of a value and a number, or of two values."""

    def run(im: Importer, node: Node, _: Plan) -> Value:
        a, b = node.args[:2]
        if isinstance(b, bool | int | float) and isinstance(a, Node):
            value = _against(im, node, a, float(b))
            assert isinstance(value.scale, float)
            steps = float(b) / value.scale
            if math.isfinite(steps):
                # What lies between two steps: the integers on its one side.
                whole = {"gt": math.floor, "le": math.floor, "ge": math.ceil, "lt": math.ceil}
                steps = whole.get(name, round)(round(steps, 6))
            limit = int(min(max(steps, -_INT32), _INT32))
            constant = im.number(limit, value.tensor)
            tensors, layout = [value.tensor, constant], value.layout
        else:
            tensors, layout, _scale = common(im, node, (a, b))
        return Value(tensor=_compared(im, node, name, tensors), layout=layout, scale=1.0)

    return run


def _compared(im: Importer, node: Node, name: str, tensors: Sequence[str]) -> str:
    first, second = tensors
    if name in ("eq", "ne"):
        equal = im.op(node, "EQUAL", [first, second])
        return equal if name == "eq" else im.op(node, "LOGICAL_NOT", [equal])
    if name in ("lt", "le"):
        first, second = second, first
    return im.op(node, "GREATER" if name in ("lt", "gt") else "GREATER_EQUAL", [first, second])


# Logic --------------------------------------------------------------------------------------------


def as_bool(im: Importer, node: Node, value: Any) -> Value:
    """A value as a bool: whether it is not zero."""
    known = im.constant(value)
    if known is not None:
        return im.quantized(node.name, known, Format(dtype="bool", scale=1.0))
    if kind(value) == "bool":
        return im.value(value)
    made = _against(im, node, value, 0.0)
    zero = im.number(0, made.tensor)
    equal = im.op(node, "EQUAL", [made.tensor, zero], name=f"{node.name}_is_zero")
    return replace(made, tensor=im.op(node, "LOGICAL_NOT", [equal]), scale=1.0)


def logical_not(im: Importer, node: Node, plan: Plan) -> Value:
    value = as_bool(im, node, plan.reads[0])
    return replace(value, tensor=im.op(node, "LOGICAL_NOT", [value.tensor]))


def logical(kind_: str) -> Rule:
    def run(im: Importer, node: Node, _: Plan) -> Value:
        tensors, layout = same_shape(im, [as_bool(im, node, o) for o in node.args[:2]])
        return Value(tensor=im.op(node, kind_, tensors), layout=layout, scale=1.0)

    return run


def bitwise(name: str) -> Rule:
    """AND, OR, XOR of integers; of bools the logical operator."""

    def run(im: Importer, node: Node, plan: Plan) -> Value:
        if kind(node) == "bool":
            return logical(f"LOGICAL_{name}")(im, node, plan)
        values = [operand(im, node, o, _INTEGER) for o in node.args[:2]]
        tensors, layout = same_shape(im, values)
        return Value(tensor=im.op(node, f"BITWISE_{name}", tensors), layout=layout, scale=1.0)

    return run


def bitwise_not(im: Importer, node: Node, plan: Plan) -> Value:
    if kind(node) == "bool":
        return logical_not(im, node, plan)
    value = im.get(plan.reads[0], _INTEGER)
    return replace(value, tensor=im.op(node, "BITWISE_NOT", [value.tensor]))


# Choice -------------------------------------------------------------------------------------------


def masked_fill(im: Importer, node: Node, _: Plan) -> Value:
    return _select(im, node, node.args[1], node.args[2], node.args[0])


def where(im: Importer, node: Node, _: Plan) -> Value:
    return _select(im, node, *node.args[:3])


def _select(im: Importer, node: Node, condition: Any, first: Any, second: Any) -> Value:
    """SELECT of two values in one format; infinite constants become the format's ends."""
    want = im.formats.of(node)
    if not isinstance(want.scale, float) or want.scale == 0.0:
        want = im.formats.wide(node)
    values = [as_bool(im, node, condition)]
    values += [operand(im, node, o, want) for o in (first, second)]
    tensors, layout = same_shape(im, values)
    out = im.op(node, "SELECT", tensors)
    return Value(tensor=out, layout=layout, scale=want.scale, zero_point=want.zero_point)


def extremum(kind_: str) -> Rule:
    """MAXIMUM or MINIMUM of two values."""

    def run(im: Importer, node: Node, _: Plan) -> Value:
        tensors, layout, scale = common(im, node, node.args[:2])
        out = Value(tensor=im.op(node, kind_, tensors), layout=layout, scale=scale)
        return im.finish(node, out, ("bounded",))

    return run


def clamp_integers(im: Importer, node: Node, plan: Plan) -> Value:
    """MAXIMUM and MINIMUM with the bounds."""
    value = im.get(plan.reads[0], _INTEGER)
    given = [*node.args[1:3], None][:2]
    if "clamp_max" in str(node.target):
        given = [None, node.args[1]]
    for bound, name in zip(given, ("MAXIMUM", "MINIMUM"), strict=True):
        if bound is not None:
            operands = [value.tensor, im.number(int(bound), value.tensor)]
            value = replace(value, tensor=im.op(node, name, operands))
    return value


def integer_division(im: Importer, node: Node, _: Plan) -> Value:
    """INTDIV, which cuts towards zero."""
    values = [operand(im, node, o, _INTEGER) for o in node.args[:2]]
    tensors, layout = same_shape(im, values)
    return Value(tensor=im.op(node, "INTDIV", tensors), layout=layout, scale=1.0)


# Types --------------------------------------------------------------------------------------------


def cast(im: Importer, node: Node, plan: Plan) -> Value:
    """Another type of the same numbers: towards zero for integers, not zero for bools."""
    (source,) = plan.reads
    if kind(node) == "bool":
        return as_bool(im, node, source)
    if kind(source) == "float" and kind(node) == "int":
        return _whole(im, node, source, "trunc")
    if kind(source) == "bool":
        return im.convert(im.value(source), _INTEGER, node.name)
    return im.value(source)


def rounded(name: str) -> Rule:
    """floor, ceil, trunc, round of a float value."""

    def run(im: Importer, node: Node, plan: Plan) -> Value:
        return im.finish(node, _whole(im, node, plan.reads[0], name), ("bounded",))

    return run


def _whole(im: Importer, node: Node, source: Node, name: str) -> Value:
    """Fixed point with as many bits of fraction as there is room for, shifted out."""
    largest = im.formats.magnitude(source)
    bits = max(0, min(16, 29 - math.ceil(math.log2(largest + 1))))
    value = im.get(source, Format(dtype="int32", scale=2.0**-bits))
    tensor = value.tensor
    below = im.number((1 << bits) - 1, tensor)
    if name == "ceil":
        tensor = im.op(node, "ADD", [tensor, below])
    elif name == "round" and bits:
        # Just below a half, and one step more above odd numbers: halves become even.
        shifted = im.op(
            node, "ARITHMETIC_RIGHT_SHIFT", [tensor, im.number(bits, tensor)], {"round": False}
        )
        odd = im.op(node, "BITWISE_AND", [shifted, im.number(1, tensor)])
        half = im.number((1 << (bits - 1)) - 1, tensor)
        tensor = im.op(node, "ADD", [tensor, im.op(node, "ADD", [odd, half])])
    elif name == "trunc":
        sign = im.op(
            node, "ARITHMETIC_RIGHT_SHIFT", [tensor, im.number(31, tensor)], {"round": False}
        )
        tensor = im.op(node, "ADD", [tensor, im.op(node, "BITWISE_AND", [sign, below])])
    out = im.op(node, "ARITHMETIC_RIGHT_SHIFT", [tensor, im.number(bits, tensor)], {"round": False})
    return replace(value, tensor=out, scale=1.0)


COMPARISONS: dict[str, Rule] = {n: compare(n) for n in ("eq", "ne", "lt", "le", "gt", "ge")}
logical_and, logical_or, logical_xor = (logical(f"LOGICAL_{name}") for name in ("AND", "OR", "XOR"))
bitwise_and, bitwise_or, bitwise_xor = (bitwise(name) for name in ("AND", "OR", "XOR"))
maximum, minimum = extremum("MAXIMUM"), extremum("MINIMUM")
floor, ceil, trunc = rounded("floor"), rounded("ceil"), rounded("trunc")
round_ = rounded("round")

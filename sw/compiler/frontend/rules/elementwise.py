"""Sums, products by element, and functions of one value."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from spec.sequences import Sequence as Operators
from spec.sequences import reciprocal, tabled
from spec.sequences.rows import shift_for
from spec.sequences.unary import ROUGH, STEP, has_many_periods
from sw.compiler.frontend.building import Value, innermost
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.nodes import aten, is_float, name, shape
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.quantization.calibrate import HUGE, MASKED
from sw.compiler.frontend.quantization.formats import Format, exact
from sw.compiler.frontend.quantization.values import TINY
from sw.compiler.frontend.rules.broadcast import joined, same_shape
from sw.compiler.frontend.rules.logic import clamp_integers, operand
from sw.compiler.frontend.rules.products import COARSE, added_constant, added_scores, fits_scores
from sw.compiler.frontend.rules.quantize import is_quantized_sum, quantized_sum

Float = NDArray[np.float64]

_STEEP = 4.0
"""A table may reach this many times the largest value within the calibration's range."""

_EXACT = 2.0**-13
"""As `ROUGH`, for a function between layers whose activations and weights have 16 bits."""

_FINE = 256
"""Steps of a sum for each step of its int16 result."""
_MOST_STEPS = 2.0**14
"""The most of these steps with which int32 holds the sum."""
_MASKING = 4096.0
"""How much larger than scores a mask is, at least."""


def add(im: Importer, node: Node, _: Plan) -> Value:
    kind, operands = name(node).upper(), list(node.args[:2])
    if is_quantized_sum(im, node):
        return quantized_sum(im, node, kind)
    if not is_float(node):
        return joined(im, node, kind, [operand(im, node, o, exact(node)) for o in operands])
    if im.formats.of(node).dtype == "int32":
        return _scores(im, node, kind, operands)
    base = Format(dtype="int32", scale=_sum_step(im, node, operands))
    values = [operand(im, node, o, base) for o in operands]
    out = joined(im, node, kind, values, values[0].step)
    return im.finish(node, out)


sub = add


def _sum_step(im: Importer, node: Node, operands: list[Any]) -> float:
    """The step of a sum in int32.

    It is that of the finest operand of int16, which then is added as it is. It is a fraction of the
    result's step where there is no such operand, or where the result's step is finer.
    """
    result = float(np.max(im.formats.wide(node).scale))
    values = [im.value(o) for o in operands if im.constant(o) is None]
    steps = [v.step for v in values if im.dtype(v) == "int16" and not v.channelwise]
    finest = min(steps, default=0.0)
    return finest if result / _MOST_STEPS <= finest <= result else result / _FINE


def _scores(im: Importer, node: Node, kind: str, operands: list[Any]) -> Value:
    """A sum that only a softmax reads: int32 in steps of the variable operand, or of the finer."""
    known = [im.constant(o) for o in operands]
    at = 0 if known[0] is None else 1
    if all(k is None for k in known) and _is_mask_of(im, *operands):
        at = 1
    value = im.get(operands[at], Format(dtype="int32", scale=0.0))
    other = known[1 - at]
    if other is not None:
        im.require(kind == "ADD" or at == 0, node, "a constant minus scores")
        return added_constant(im, node, value, other if kind == "ADD" else -other)
    if value.step < COARSE and not fits_scores(im, operands[1 - at], value.step):
        value = im.convert(value, Format(dtype="int32", scale=COARSE), node.name)
    second = added_scores(im, operands[1 - at], value.step, shape(node)[-1])
    values = [value, second] if at == 0 else [second, value]
    return joined(im, node, kind, values, value.step)


def _is_mask_of(im: Importer, a: Node, b: Node) -> bool:
    """Whether `a` is so much larger than `b` that nothing would be left of `b` in its steps."""
    return im.formats.magnitude(a) > _MASKING * im.formats.magnitude(b)


def multiply(im: Importer, node: Node, _: Plan) -> Value:
    """int16 times int16 in int32, then RESCALE."""
    if is_float(node):
        return _product(im, node, [_int16(im, node, o) for o in node.args[:2]])
    return _product(im, node, [operand(im, node, o, exact(node)) for o in node.args[:2]])


def _product(im: Importer, node: Node, values: list[Value]) -> Value:
    tensors, layout = same_shape(im, values)
    wide = [im.int32(node, tensor) for tensor in tensors]
    out = im.op(node, "MUL", [*wide, im.scalar(0, "int8")])
    value = Value(tensor=out, layout=layout, scale=values[0].step * values[1].step)
    return im.finish(node, value) if is_float(node) else value


def _int16(im: Importer, node: Node, source: Any) -> Value:
    """A value with at most 16 bits and one scale; a constant fills them."""
    known = im.constant(source)
    if known is not None:
        return _filled(im, node, np.where(known > -HUGE, known, MASKED))
    value = im.wide(source)
    if im.dtype(value) == "int32":
        value = im.convert(value, im.formats.int16(source), node.name)
    return value


def _filled(im: Importer, node: Node, known: Float) -> Value:
    """A constant that fills int16."""
    largest = max(float(np.abs(known).max()), TINY)
    return im.quantized(node.name, known, Format(dtype="int16", scale=largest / 32767))


def divide(im: Importer, node: Node, _: Plan) -> Value:
    """A value by one of one sign: int16 times the reciprocal, which has 31 bits."""
    top, bottom = node.args[:2]
    known = im.constant(bottom)
    if known is not None and known.all():
        return _product(im, node, [_int16(im, node, top), _filled(im, node, 1 / known)])
    ends = im.ranges.least.get(bottom, 0.0), im.ranges.most.get(bottom, 0.0)
    im.require(
        ends[0] > 0 or ends[1] < 0, node, f"a divisor that calibration saw from {ends[0]:g} to "
        f"{ends[1]:g}", "only divisors of one sign; keep them away from zero",
    )  # fmt: skip
    least = min(map(abs, ends))
    value = _int16(im, node, top)
    if im.constant(top) is None:
        value = im.convert(value, im.formats.int16(top), node.name)
    divisor = im.convert(im.wide(bottom), im.formats.int16(bottom), node.name)
    divisor = im.ordered(divisor, divisor.layout.axes)
    if ends[1] < 0:
        divisor, value = (_negated(im, node, v) for v in (divisor, value))
    low = max(1, math.floor(least / divisor.step / 2))
    s = Operators()
    limited = s.op("MAXIMUM", s.cast(s.input("v", "int16"), "int32"),
                   s.scalar(low, len(divisor.shape)))  # fmt: skip
    inverse, factor = reciprocal(s, limited, len(divisor.shape), low, 32767)
    s.outputs = [inverse]
    (made,) = im.sequence(node, s, divisor.tensor)
    tensors, layout = same_shape(im, [value, replace(divisor, tensor=made)])
    # |x| < 2^15, the reciprocal's largest is 1 / (low · factor).
    shift = shift_for(32768 / (low * factor))
    out = im.op(node, "MUL", [im.int32(node, tensors[0]), tensors[1], im.scalar(shift, "int8")])
    scale = value.step / divisor.step * factor * 2.0**shift
    return im.finish(node, Value(tensor=out, layout=layout, scale=scale))


def scale(im: Importer, node: Node, plan: Plan) -> Value:
    """The same integers under another scale."""
    (source,) = plan.reads
    value = im.value(source)
    return replace(value, scale=value.scale * plan.data["factor"])


def negate(im: Importer, node: Node, plan: Plan) -> Value:
    (source,) = plan.reads
    return _negated(im, node, im.wide(source))


def _negated(im: Importer, node: Node, value: Value) -> Value:
    zero = im.scalar(0, im.dtype(value))
    return replace(value, tensor=im.op(node, "NEGATE", [value.tensor, zero, zero]))


def univariate(im: Importer, node: Node, plan: Plan) -> Value:
    """Any chain of elementwise operators on one value: TABLE over int16."""
    (source,) = plan.reads
    if node.target is aten.neg.default and node.args[0] is source:
        return negate(im, node, plan)
    want = im.formats.of(node)
    if im.planner.grid_behind(source) is not None and want.dtype == "int8":
        return _tabled(im, node, im.value(source), partial(_values, plan.data["function"]), want)
    value = im.int16(source)
    function, period = plan.data["function"], plan.data["period"]
    if not (has_many_periods(value.step, period) and _is_finite(function, period)):
        period = 0.0
    f: Callable[[Float], Float] = partial(_values, function)
    if not period:
        f = _within(im, source, function, value)
    grid = np.linspace(-32768, 32767, 9) * np.max(value.scale)
    if not im.ranges.largest.get(node, 1.0) and not f(grid).any():
        zeros = np.zeros(shape(node))  # x · 0: no table has such a scale
        return im.quantized(node.name, zeros, im.formats.wide(node))
    if want.dtype == "int32":
        want = im.formats.wide(node)
    return _tabled(im, node, value, f, want, period)


def _tabled(
    im: Importer,
    node: Node,
    value: Value,
    f: Callable[[Float], Float],
    want: Format,
    period: float = 0.0,
) -> Value:
    """TABLE: interpolated for int16, with an entry for each of the 256 values for int8."""
    channels = want.scale if isinstance(want.scale, np.ndarray) else None
    if channels is not None:
        axes = None if want.axis == -1 else innermost(value.layout, want.axis)
        value = im.ordered(value, axes)
    operators = tabled(
        f,
        value.step,
        want.scale if isinstance(want.scale, float) else 1.0,
        in_dtype=im.dtype(value),
        in_zp=value.zero_point,
        out_dtype=want.dtype,
        out_zp=want.zero_point,
        channels=channels,
        period=period,
        rough=_EXACT if im.formats.is_exact(node) else ROUGH,
    )
    (out,) = im.sequence(node, operators, value.tensor)
    return replace(value, tensor=out, scale=want.scale, zero_point=want.zero_point, axis=want.axis)


def _values(function: Callable[[torch.Tensor], torch.Tensor], x: Float) -> Float:
    return np.nan_to_num(function(torch.from_numpy(x)).double().numpy())


def _within(
    im: Importer, source: Node, function: Callable[[torch.Tensor], torch.Tensor], value: Value
) -> Callable[[Float], Float]:
    """The function, held at the ends of what calibration saw where it grows out of bounds."""
    step = STEP * value.step
    low = im.ranges.least.get(source, -np.inf)
    high = im.ranges.most.get(source, np.inf)

    def at(x: Float) -> Float:
        with np.errstate(all="ignore"):
            return np.asarray(function(torch.from_numpy(x)).double().numpy(), np.float64)

    whole = np.arange(-32768, 32769) * value.step
    everywhere, inner = at(whole), at(np.clip(whole, low, high))
    top = np.abs(inner[np.isfinite(inner)]).max(initial=0.0)
    tame = bool(np.isfinite(everywhere).all() and np.abs(everywhere).max() <= _STEEP * top)

    def f(x: Float) -> Float:
        if tame:
            return at(x)
        near = at(np.clip(x, low - step, high + step))
        good = np.isfinite(near) & (np.abs(near) <= _STEEP * top)
        return _without_gaps(x, np.where(good, near, at(np.clip(x, low, high))))

    return f


def _is_finite(function: Callable[[torch.Tensor], torch.Tensor], period: float) -> bool:
    """Whether a function has a value all over a period."""
    turn = torch.linspace(-period / 2, period / 2, 1 << 12, dtype=torch.float64)
    values = function(turn)
    return bool(values.isfinite().all() and values.abs().max() < HUGE)


def _without_gaps(x: Float, y: Float) -> Float:
    """With what lies between its neighbours where a function has no value: sin(x) / x at 0."""
    known = np.isfinite(y)
    return y if known.all() or not known.any() else np.interp(x, x[known], y[known])


def bounded(im: Importer, node: Node, plan: Plan) -> Value:
    """A value between bounds: CLAMP, where the type's own range does not end there."""
    if not is_float(node):
        return clamp_integers(im, node, plan)
    (source,) = plan.reads
    low, high = plan.data["low"], plan.data["high"]
    im.require(
        low is None or high is None or low <= high,
        node,
        f"bounds {low}…{high} are the wrong way round",
    )
    want = im.formats.of(node)
    channelwise = isinstance(want.scale, np.ndarray)  # 0 is the same integer in each channel
    if want.dtype == "int32" or (channelwise and (low or high is not None)):
        want = im.formats.wide(node)
    value = im.convert(im.value(source), want, node.name)
    least, most = (-128, 127) if want.dtype == "int8" else (-32768, 32767)
    grid = im.formats.grid(node)
    if grid is not None:
        least, most = grid.low, grid.high
    step = float(np.max(want.scale))
    steps = [least, most]
    if low is not None:
        steps[0] = max(least, int(np.rint(low / step)) + want.zero_point)
    if high is not None:
        steps[1] = min(most, int(np.rint(high / step)) + want.zero_point)
    if steps == ([-128, 127] if want.dtype == "int8" else [-32768, 32767]):
        return value
    attributes = {"min_val": min(steps[0], most), "max_val": max(steps[1], least)}
    return replace(value, tensor=im.op(node, "CLAMP", [value.tensor], attributes))


def same(im: Importer, node: Node, plan: Plan) -> Value:
    value = im.env[plan.reads[0]]
    assert isinstance(value, Value)
    return value

"""Linear layers, products of activations, attention, embeddings."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from spec.sequences import attention_weights, quantize_rows
from spec.sequences import softmax as softmax_of
from spec.sequences.rows import shift_for
from spec.sequences.softmax import INT8_SCALE, INT8_ZERO_POINT, mask_value
from sw.compiler.frontend.building import Value, equal_ranks
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.nodes import arguments, aten, permutation, shape
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.plan import linear_weight
from sw.compiler.frontend.quantization.formats import HEADROOM, Format, halved, matrix
from sw.compiler.frontend.quantization.precise import FINE
from sw.compiler.frontend.quantization.precision import Width
from sw.compiler.frontend.quantization.values import Stored
from sw.compiler.frontend.rules.broadcast import joined
from sw.compiler.frontend.rules.convolutions import conv
from sw.compiler.frontend.rules.halves import added, by_channels, halves, products, split
from sw.compiler.frontend.rules.matrices import Operand, flat, operand, permuted, product, shaped
from sw.compiler.frontend.weights import quantized

Float = NDArray[np.float64]

_MOST = 2.0**30
"""Steps of int32 that a summand of scores may have; the scores have as many."""
COARSE = 2.0**-22
"""A step of scores in which a mask is low enough, and that is fine enough for any."""


def linear(im: Importer, node: Node, plan: Plan) -> Value:
    """A 1×1 CONV2D over rows, its input int8 with smoothed channels."""
    (source,) = plan.reads
    stored = im.stored(linear_weight(node))
    value = im.value(source)
    if stored is not None and im.dtype(value) == "int8" and not value.channelwise:
        return _stored_linear(im, node, value, stored)
    shared = im.formats.origin(source)
    if node in im.formats.precise:
        return _wide_linear(im, node, source, im.formats.precise[node])
    if im.formats.is_head(shared) or im.formats.is_one_sided(shared):
        x, magnitudes = im.ordered(im.convolved(source)), ""
    elif im.dtype(value) == "int8" and not value.zero_point and not value.channelwise:
        x, magnitudes = im.ordered(value), ""
    elif im.formats.smoothing(shared).by_row:
        x, magnitudes = _by_row(im, node, source, im.formats.smoothing(shared).channels)
    else:
        x, magnitudes = im.ordered(im.convert(im.value(source), im.formats.smoothed(shared))), ""
    unit = np.asarray(x.scale)
    bias = _bias(im, node)
    weights = quantized(matrix(node, im.planner.fixed), unit, _mean_input(im, shared, unit), bias)
    scale = weights.scale
    im.note_operands(node, x, scale, unit, by_row=bool(magnitudes), restored=weights.lost)
    if weights.lost is not None:  # the bias restores what rounding takes from the mean result
        bias = weights.lost if bias is None else bias + weights.lost
    channels, features = weights.integers.shape
    out = _by_rows(im, node, x, weights.integers, scale, None if magnitudes else bias)
    layout = Layout.of((*x.shape[:-1], channels))
    out = im.reshaped(out, layout.shape)
    if magnitudes:
        # |sum| ≤ features · 127², the row's magnitude ≤ 2^15: the product keeps 31 bits.
        shift = shift_for(features * 127.0**2 * 2**15)
        out = im.op(node, "MUL", [out, magnitudes, im.scalar(shift, "int8")])
        scale = scale * 2.0**shift
        if bias is not None:
            steps = im.quantized(f"{node.name}_bias", bias, Format(dtype="int32", scale=scale))
            shape = equal_ranks((channels,), len(layout.shape))
            out = im.op(node, "ADD", [out, im.reshaped(steps.tensor, shape)])
    return im.finish(node, Value(tensor=out, layout=layout, scale=scale))


def _wide_linear(im: Importer, node: Node, source: Node, width: Width) -> Value:
    """A linear layer that reads 16 bits as two halves."""
    high, low = (im.ordered(half) for half in halves(im, source, width))
    unit, bias = np.asarray(high.step), _bias(im, node)
    real = np.asarray(matrix(node, im.planner.fixed), np.float64)
    mean = _mean_input(im, im.formats.origin(source), unit) if width == "int16" else None
    weights = quantized(real, unit, mean, bias)
    if weights.lost is not None:
        bias = weights.lost if bias is None else bias + weights.lost
    im.note_operands(node, high, weights.scale, unit, width=width, restored=weights.lost)
    parts, sums = products(width, real * unit, weights.integers, weights.scale), []
    for part in parts:
        x, columns = high, part.high
        if part.low is not None:
            x = replace(high, tensor=by_channels(im, (high.tensor, low.tensor)))
            columns = np.concatenate([part.high, part.low], axis=1)
        own = bias if part.steps == 1 else None
        sums.append(_by_rows(im, node, x, columns, weights.scale / part.steps, own))
    layout = Layout.of((*high.shape[:-1], len(real)))
    out = im.reshaped(added(im, node, sums, [part.steps for part in parts]), layout.shape)
    return im.finish(node, Value(tensor=out, layout=layout, scale=weights.scale))


def _stored_linear(im: Importer, node: Node, x: Value, stored: Stored) -> Value:
    """A linear layer with the integers and scales that a quantized graph brings.

    The weights' columns follow the order in which the features lie in memory.
    """
    integers, axis = stored.integers, stored.axis
    if node.target is not aten.linear.default:
        integers, axis = integers.T, 1 - axis if axis >= 0 else axis
    im.require(axis in (-1, 0), node, "weights have a scale per input channel: only per output")
    last = len(x.shape) - 1
    factors = x.layout.suffix(last)
    if factors is None:
        x = im.ordered(x)
        factors = x.layout.suffix(last)
    assert factors is not None
    channels, features = integers.shape
    own = [f for f in x.layout.dims[last] if x.layout.sizes[f] > 1]
    sizes = [x.layout.sizes[f] for f in own]
    order = [1 + own.index(f) for f in factors]
    columns = integers.reshape(channels, *sizes).transpose(0, *order)
    scale = np.broadcast_to(np.asarray(x.step * stored.scale, np.float64), channels)
    columns = columns.reshape(channels, features)
    im.note_operands(node, x, scale / x.step)
    out = _by_rows(im, node, x, columns, scale, _bias(im, node), stored.zero_point)
    single = not isinstance(stored.scale, np.ndarray)
    layout = x.layout.replace_suffix(channels)
    steps = float(scale[0]) if single else scale
    return im.finish(node, Value(tensor=out, layout=layout, scale=steps))


def _by_rows(
    im: Importer, node: Node, x: Value, integers: NDArray[Any], scale: Float, bias: Float | None,
    weight_zp: int = 0,
) -> str:  # fmt: skip
    """The accumulators of rows of `x` times int8 weights [out, in]."""
    channels, features = integers.shape
    flat = im.reshaped(x.tensor, (1, math.prod(x.shape[:-1]), 1, features))
    kernel = integers.reshape(channels, 1, 1, features)
    return conv(im, node, "CONV2D", flat, kernel, scale, bias, zero_point=x.zero_point,
                weight_zp=weight_zp)  # fmt: skip


def _bias(im: Importer, node: Node) -> Float | None:
    """The bias of a linear layer in any spelling."""
    given = arguments(node)
    return im.constant(given["self"] if node.target is aten.addmm.default else given.get("bias"))


def _mean_input(im: Importer, node: Node, unit: Float) -> Float | None:
    """The mean of the rows that calibration sampled, in steps of `unit`."""
    rows = im.ranges.rows.get(node)
    return None if rows is None else np.asarray(rows.mean(axis=0) / unit, np.float64)


def _by_row(im: Importer, node: Node, source: Node, channels: Float) -> tuple[Value, str]:
    """(int8 input, int32 magnitudes of its rows): real = scale[c] · input · magnitude."""
    wide = im.ordered(im.int16(source))
    ratios = channels.min() / channels
    key = (wide.tensor, channels.tobytes())
    if key not in im.by_row:
        flat = np.ptp(ratios) < 1e-9
        operators = quantize_rows(wide.shape, None if flat else ratios)
        q, m = im.sequence(node, operators, wide.tensor)
        im.by_row[key] = (q, m)
    q, m = im.by_row[key]
    return Value(tensor=q, layout=wide.layout, scale=wide.step / ratios / 127), m


def matmul(im: Importer, node: Node, _: Plan) -> Value:
    return im.finish(node, matmul_of(im, node, *node.args[:2]))


def mm(im: Importer, node: Node, _: Plan) -> Value:
    """A product of two inputs, and for addmm the sum with a third operand."""
    bias = node.args[0] if node.target is aten.addmm.default else None
    first, second = node.args[:2] if bias is None else node.args[1:3]
    out = matmul_of(im, node, first, second)
    if bias is not None:
        added = im.get(bias, Format(dtype="int32", scale=out.step))
        out = joined(im, node, "ADD", [out, added], out.step)
    return im.finish(node, out)


def matmul_of(im: Importer, node: Node, a: Node, b: Node) -> Value:
    left, right = operand(im, node, a), operand(im, node, b)
    size = (*left[0].shape[:-1], right[0].shape[-1])
    factors = left[0].factors
    if len(right[0].shape) == 2:  # one matrix for all rows
        left = shaped(im, left, (math.prod(size[:-1]), left[0].shape[-1]))
    out = product(im, node, flat(im, left), flat(im, right), size)
    return out if factors is None else _times_rows(im, node, out, factors)


def _times_rows(im: Importer, node: Node, out: Value, factors: tuple[str, float]) -> Value:
    """A product with the weights of a softmax, divided by their sums."""
    tensor, factor = factors
    shift = shift_for(1.01 * 128 / factor)
    rows = im.reshaped(tensor, (*out.shape[:-1], 1))
    tensor = im.op(node, "MUL", [out.tensor, rows, im.scalar(shift, "int8")])
    return replace(out, tensor=tensor, scale=float(np.max(out.scale)) * factor * 2.0**shift)


def added_constant(im: Importer, node: Node, value: Value, real: Float) -> Value:
    """An int32 value of one scale plus a constant; what masks becomes as low as need be."""
    value = im.ordered(value)
    low = mask_value(value.step, value.shape[-1])
    steps = np.rint(np.clip(real / value.scale, low, -low))
    steps = steps.reshape(equal_ranks(steps.shape, len(value.shape)))
    constant = im.graph.add_constant(f"{node.name}_offset", steps, "int32")
    return replace(value, tensor=im.op(node, "ADD", [value.tensor, constant]))


def fits_scores(im: Importer, source: Node, step: float) -> bool:
    """Whether int32 holds what is added to scores, and its sum with them."""
    return HEADROOM * im.formats.magnitude(source) < _MOST * step


def added_scores(im: Importer, source: Node, step: float, keys: int) -> Value:
    """What is added to scores, as int32 in their steps; what masks becomes as low as need be.

    Without the limit a mask of -10000 would wrap around, and be the largest score.
    """
    if fits_scores(im, source, step):
        return im.get(source, Format(dtype="int32", scale=step))
    value = im.int16(source)
    most = -mask_value(step, keys) * step / 2
    limit = max(1, min(32767, int(most / value.step)))
    bounds = {"min_val": -limit, "max_val": limit}
    tensor = im.op(None, "CLAMP", [value.tensor], bounds, name=f"{source.name}_masked")
    value = replace(value, tensor=tensor, scale=min(value.step, most))
    return im.convert(value, Format(dtype="int32", scale=step), source.name)


_ROOM_NARROW, _ROOM_WIDE = 2, 16
"""How many times what calibration saw of a softmax fits in int8 and in int16: of a thousand nearly
equal values none is near 1, but in other inputs one may be larger. int16 has steps to spare.
"""


def softmax(im: Importer, node: Node, plan: Plan) -> Value:
    """Softmax along the last axis: of 0…1, or of what calibration saw of it with room above, or
    with the scale of a grid.
    """
    (source,) = plan.reads
    scores = im.value(source)
    if scores.channelwise or scores.zero_point:
        scores = im.wide(source)
    scores, want = im.ordered(scores), im.formats.of(node)
    narrow = want.dtype == "int8" and not isinstance(want.scale, np.ndarray)
    if narrow and _only_rows_of_a_product(im, node):
        return _weights(im, node, scores)
    most = min(1.0, (_ROOM_NARROW if narrow else _ROOM_WIDE) * im.formats.magnitude(node))
    scale, zero_point = (most * INT8_SCALE, INT8_ZERO_POINT) if narrow else (most / 32767, 0)
    if narrow and im.formats.grid(node) is not None:
        scale, zero_point = float(want.scale), want.zero_point
    operators = softmax_of(
        scores.shape,
        scores.step,
        in_dtype=im.dtype(scores),
        out_dtype="int8" if narrow else "int16",
        out_scale=scale,
        out_zp=zero_point,
        mask=False,
    )
    (out,) = im.sequence(node, operators, scores.tensor)
    return Value(tensor=out, layout=Layout.of(scores.shape), scale=scale, zero_point=zero_point)


def _only_rows_of_a_product(im: Importer, node: Node) -> bool:
    """Whether one product alone reads a value, as its first operand and by the same rows.

    `einsum` comes as permutations and views before and behind a product.
    """
    at, rows = node, Layout.of(shape(node))
    while True:
        readers = im.planner.readers.get(at, [])
        plan = im.planner.plans.get(readers[0]) if len(readers) == 1 else None
        if plan is None:
            return False
        (reader,) = readers
        if plan.rule in ("matmul", "mm"):
            first, second = reader.args[-2:]
            whole = rows.is_ordered(range(len(rows.groups))) and rows.shape[-1] == shape(node)[-1]
            return first is at and second is not at and whole
        moved = _moved(rows, reader, plan)
        if moved is None:
            return False
        at, rows = reader, moved


def _moved(layout: Layout, node: Node, plan: Plan) -> Layout | None:
    """The layout behind an operator that only arranges elements; None behind another."""
    if plan.rule == "same":
        return layout
    if plan.rule == "permute":
        return layout.permute(permutation(node, len(layout.groups)))
    return layout.reshape(shape(node)) if plan.rule == "view" else None


def _weights(im: Importer, node: Node, scores: Value, mask: str = "") -> Value:
    """The weights of a softmax; the product that reads them divides by their sum."""
    operators, factor = attention_weights(
        scores.shape, scores.step, in_dtype=im.dtype(scores), mask=bool(mask)
    )
    weights, inverse = im.sequence(node, operators, scores.tensor, *([mask] if mask else []))
    return Value(
        tensor=weights,
        layout=Layout.of(scores.shape),
        scale=1.0,
        zero_point=INT8_ZERO_POINT,
        factors=(inverse, factor),
    )


def attention(im: Importer, node: Node, plan: Plan) -> Value:
    """softmax(q·kᵀ·scale + mask) · v. Heads that share keys become more rows of one product."""
    given = arguments(node)
    q, k, v = (operand(im, node, given[name]) for name in ("query", "key", "value"))
    batch, heads, rows, size = q[0].shape
    scale = given["scale"] or 1 / math.sqrt(size)
    groups, keys = k[0].shape[1], k[0].shape[2]
    grouped = batch * groups, heads // groups * rows
    q = shaped(im, q, (*grouped, size))
    scores = product(im, node, *_score_operands(im, q, k), (batch, heads, rows, keys))
    scores = replace(scores, scale=scores.step * float(scale))
    added = _mask(im, node, given["attn_mask"], given["is_causal"], scores)
    wide = node in im.formats.precise
    weights = (
        _wide_weights(im, node, scores, added) if wide else (_weights(im, node, scores, added),)
    )
    w = shaped(im, weights, (*grouped, keys))
    out = product(im, node, w, flat(im, v), (batch, heads, rows, v[0].shape[-1]))
    factors = weights[0].factors
    return im.finish(node, out if factors is None else _times_rows(im, node, out, factors))


def _wide_weights(im: Importer, node: Node, scores: Value, mask: str) -> Operand:
    """The weights of a softmax in 16 bits, as two halves."""
    want = halved(Format(dtype="int8", scale=1 / 255, zero_point=-128), im.formats.precise[node])
    fine = float(want.scale) / FINE
    operators = softmax_of(
        scores.shape, scores.step, in_dtype=im.dtype(scores), out_dtype="int16", out_scale=fine,
        out_zp=0, mask=bool(mask),
    )  # fmt: skip
    (out,) = im.sequence(node, operators, scores.tensor, *([mask] if mask else []))
    value = Value(tensor=out, layout=Layout.of(scores.shape), scale=fine)
    return split(im, value, want, im.formats.precise[node], f"{node.name}_weights")


def _score_operands(im: Importer, q: Operand, k: Operand) -> tuple[Operand, Operand]:
    """The operands of q·kᵀ; of a single row k·qᵀ, which needs no transposed keys."""
    groups, rows, size = q[0].shape
    if rows > 1:
        return q, flat(im, permuted(k, (0, 1, 3, 2)))
    return flat(im, k), shaped(im, q, (groups, size, 1))


def _mask(im: Importer, node: Node, mask: Any, causal: bool, scores: Value) -> str:
    """The int32 tensor that is added to the scores, '' if none is needed."""
    *_, rows, keys = scores.shape
    low = mask_value(scores.step, keys)
    if isinstance(mask, Node) and im.constant(mask) is None:
        value = im.ordered(added_scores(im, mask, scores.step, keys))
        return im.reshaped(value.tensor, equal_ranks(value.shape, 4))
    steps = np.zeros((1, 1, 1, 1))
    if isinstance(mask, Node):
        real = im.planner.fixed[mask]
        if real.is_floating_point():
            steps = np.clip(real.double().numpy() / scores.scale, low, -low)
        else:
            steps = np.where(real.numpy(), 0.0, low)
    if causal:
        steps = steps + np.triu(np.full((rows, keys), low), 1)
    if not steps.any():
        return ""
    return im.graph.add_constant(
        f"{node.name}_mask", np.rint(steps).reshape(equal_ranks(steps.shape, 4)), "int32"
    )

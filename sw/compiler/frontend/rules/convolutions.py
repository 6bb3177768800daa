"""Convolutions by constant weights, with the affine maps of their channels folded in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.limits import MOST_PRODUCTS
from sw.compiler.frontend.nodes import arguments, shape
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.quantization.values import TINY, Scale
from sw.compiler.frontend.rules.halves import (
    Product,
    added,
    by_channels,
    by_rows,
    halves,
    interleaved,
    products,
)
from sw.compiler.frontend.rules.mean_errors import mean_error
from sw.compiler.frontend.weights import row_scales
from sw.compiler.frontend.windows import (
    Pads,
    Windows,
    as_plain,
    by_weight,
    fit_windows,
    merged_groups,
    output_first,
    stuffed,
    windows,
)
from sw.compiler.passes.late_concats import MOST_OPERANDS

Float = NDArray[np.float64]

_BIAS_LIMIT = (1 << 31) - 1


def int8_weights(columns: Float, bias: Float) -> tuple[Float, Float]:
    """(int8 integers, scale by output channel) of a matrix [out, …], symmetric.

    bias: of each channel; see `row_scales`.
    """
    scale = row_scales(np.abs(columns).reshape(len(columns), -1).max(axis=1), bias)
    shaped = scale.reshape(-1, *[1] * (columns.ndim - 1))
    return np.clip(np.rint(columns / shaped), -127, 127), scale


def conv(
    im: Importer,
    node: Node,
    kind: str,
    tensor: str,
    weight: NDArray[Any],
    scale: Float,
    bias: Float | None,
    attributes: dict[str, Any] | None = None,
    zero_point: int = 0,
    weight_zp: int = 0,
) -> str:
    """A convolution operator of an int8 tensor; `scale`: of the accumulator, by channel."""
    steps = np.zeros(len(scale)) if bias is None else np.rint(bias / scale)
    im.require(
        bool(np.abs(steps).max() <= _BIAS_LIMIT), node, "the bias does not fit in the accumulator"
    )
    if weight.size // len(scale) > MOST_PRODUCTS:
        _sums_fit(im, node, weight.reshape(len(scale), -1), zero_point, weight_zp)
    operands = [
        tensor,
        im.graph.add_constant(f"{node.name}_weight", weight, "int8"),
        im.graph.add_constant(f"{node.name}_bias", steps, "int32"),
        im.scalar(zero_point, "int8"),
        im.scalar(weight_zp, "int8"),
    ]
    return im.op(node, kind, operands, attributes or {})


def _sums_fit(
    im: Importer, node: Node, weight: NDArray[Any], zero_point: int, weight_zp: int
) -> None:
    """Refuse weights [out, in] whose products with int8 might not add up in int32."""
    wide = weight.astype(np.int64) - weight_zp
    low, high = wide * (-128 - zero_point), wide * (127 - zero_point)
    most = max(np.maximum(low, high).sum(1).max(), -np.minimum(low, high).sum(1).min())
    im.require(
        most < 1 << 31,
        node,
        f"sums of {wide.shape[1]:,} products may reach {most:,}, which int32 does not hold",
        "add up the products of parts",
    )


def exact_windows(
    im: Importer,
    node: Node,
    tensor: str,
    reach: Sequence[int],
    stride: Sequence[int],
    pads: Pads,
) -> tuple[str, tuple[int, ...]]:
    """(tensor, TOSA's pad) of an N…C tensor: cut by a SLICE if windows leave a rest of it, or where
    its padding is negative.
    """
    n, *extent, c = im.graph.tensors[tensor].shape
    begin = [max(0, -before) for before, _ in pads]
    inner = [size - at for size, at in zip(extent, begin, strict=True)]
    pads = tuple((max(0, before), behind) for before, behind in pads)
    kept, pad = fit_windows(inner, reach, stride, pads)
    if kept != extent:
        tensor = im.slice(node, tensor, [0, *begin, 0], [n, *kept, c], name=f"{node.name}_cut")
    return tensor, pad


def image(im: Importer, value: Value) -> tuple[str, tuple[int, ...]]:
    """(NHWC or NDHWC tensor, memory axes) of [N, C, …, W]; the missing H of [N, C, W] is 1."""
    rank = len(value.shape)
    axes = (0, *range(2, rank), 1)
    value = im.ordered(value, axes)
    n, c, *space = value.shape
    space = [1, *space] if rank == 3 else space
    return im.reshaped(value.tensor, (n, *space, c)), axes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """integers [out, in of a group, …] with a `scale` for each output; bias: real.

    real: in steps of the input. one: the model brings one scale for all outputs. restored: what the
    bias has for the rounding of the weights.
    """

    integers: Float
    scale: Float
    bias: Float
    real: Float
    zero_point: int = 0
    one: bool = False
    restored: Float | None = None


def convolution(im: Importer, node: Node, plan: Plan) -> Value:
    """CONV2D, DEPTHWISE_CONV2D, CONV3D or TRANSPOSE_CONV2D, or one of these for each group."""
    call = plan.source
    width, (source,) = im.formats.precise.get(node, "int8"), plan.reads
    operands = [im.convolved(source)] if width == "int8" else halves(im, source, width)
    x = operands[0]
    weight = im.constant(call.args[1])
    assert weight is not None
    kernel = weight[:, :, None, :] if weight.ndim == 3 else weight
    w = windows(call, kernel.shape[2:])
    tensors, axes = [image(im, value)[0] for value in operands], image(im, x)[1]
    if w.transposed:
        kernel = output_first(kernel, w.groups)
    weights = _weights(im, node, plan, x, kernel, w)
    scale = weights.scale
    factor, restored = plan.data["factor"], weights.restored
    restored = None if restored is None else restored / factor
    unit = _by_weight(x.scale, (*kernel.shape[:2], *weight.shape[2:]), w)
    im.note_operands(call, x, scale / factor, unit, width=width, restored=restored)
    summands = products(width, weights.real, weights.integers, scale, weights.zero_point)
    zps = x.zero_point, weights.zero_point
    sums = [_sums(im, node, tensors, each, weights, w, zps) for each in summands]
    finer = [each.steps for each in summands]
    parts = [added(im, node, each, finer) for each in zip(*sums, strict=True)]
    layout = Layout.of(shape(node), axes)
    if len(parts) > 1 and not (len(parts) <= MOST_OPERANDS and im.takes_sums(node)):
        return _side_by_side(im, node, parts, scale, layout)
    # What takes the sums is computed for each group: CONCAT goes behind it.
    joined = im.concat(node, parts, len(im.graph.tensors[parts[0]].shape) - 1)
    out = im.reshaped(joined, layout.memory_shape)
    steps = float(scale[0]) if weights.one else scale
    return im.finish(node, Value(tensor=out, layout=layout, scale=steps, axis=1))


def _weights(
    im: Importer, node: Node, plan: Plan, x: Value, kernel: Float, w: Windows
) -> _Weights:  # fmt: skip
    """The integers that the model brings, or those of real weights with what follows folded in."""
    call, factor, bias = plan.source, plan.data["factor"], plan.data["offset"]
    own = im.constant(arguments(call)["bias"])
    if own is not None:
        bias = own * factor + bias
    stored = im.stored(call.args[1])
    by_output = (-1, *[1] * (kernel.ndim - 1))
    columns = kernel * (factor.reshape(by_output) * _by_weight(x.scale, kernel.shape, w))
    one = stored is not None and not isinstance(stored.scale, np.ndarray)
    if stored is not None and stored.axis in (-1, 0) and np.all(factor == 1) and not w.transposed:
        integers = stored.integers.astype(np.float64).reshape(kernel.shape)
        scale = np.broadcast_to(np.asarray(x.step * stored.scale, np.float64), len(integers))
        return _Weights(
            integers=integers, scale=scale, bias=bias, real=columns,
            zero_point=stored.zero_point, one=one,
        )  # fmt: skip
    integers, scale = int8_weights(columns, bias)
    seen = im.ranges.images.get(plan.reads[0])
    restored = None
    if seen is not None and im.formats.precise.get(node) != "int16x16":
        rounding = columns - integers * scale.reshape(by_output)
        restored = mean_error(rounding, seen.mean / x.scale, w, x.shape[2:], shape(node)[2:])
        bias = bias + restored
    return _Weights(
        integers=integers, scale=scale, bias=bias, real=columns, one=one, restored=restored
    )


def _by_weight(scale: Scale, kernel: Sequence[int], w: Windows) -> Scale:
    """The scale of an input, or those of its channels, as a kernel is multiplied by them."""
    return by_weight(scale, kernel, w.groups) if isinstance(scale, np.ndarray) else scale


def _sums(
    im: Importer, node: Node, tensors: Sequence[str], part: Product, weights: _Weights, w: Windows,
    zps: tuple[int, int],
) -> list[str]:  # fmt: skip
    """The accumulators of one product of a convolution, one tensor or one for each group.

    tensors: the operand, or its halves. The bias is in the product that has the layer's steps.
    """
    tensor, integers, grouped = tensors[0], part.high, w.groups > 1
    if part.low is not None:
        tensor, integers, w = _halved(im, tensors, part.high, part.low, w)
    if w.transposed and all(s == 1 for s in w.stride):
        integers, w = as_plain(integers, w)
    if w.transposed or (integers.ndim == 5 and grouped):
        integers, w = merged_groups(integers, w, zps[1])
    tensor, w = _absorb_pad(im, tensor, w, zps[0])
    bias = weights.bias if part.steps == 1 else np.zeros_like(weights.bias)
    return _products(im, node, tensor, integers, weights.scale / part.steps, bias, w, *zps)


def _halved(
    im: Importer, tensors: Sequence[str], high: Float, low: Float, w: Windows
) -> tuple[str, Float, Windows]:
    """(operand, weights, windows) of a convolution that reads 16 bits as two halves."""
    if w.groups == 1:
        return by_channels(im, tensors), np.concatenate([high, low], axis=1), w
    (rows, columns), (top, bottom) = w.stride, w.pads[0]
    twice = replace(w, stride=(2 * rows, columns), pads=((2 * top, 2 * bottom), w.pads[1]))
    return by_rows(im, tensors), interleaved(high, low), twice


def _side_by_side(
    im: Importer, node: Node, parts: Sequence[str], scale: Float, layout: Layout
) -> Value:  # fmt: skip
    """The accumulators of groups, each in the result's format, as one value."""
    want = im.formats.plain(node)
    size = len(scale) // len(parts)
    ratios = (scale / want.scale).reshape(len(parts), size)
    narrowed = [
        im.rescale(part, ratio, want.dtype, output_zp=want.zero_point)
        for part, ratio in zip(parts, ratios, strict=True)
    ]
    channel = len(im.graph.tensors[parts[0]].shape) - 1
    out = im.reshaped(im.concat(node, narrowed, channel), layout.memory_shape)
    return Value.of(out, layout, want)


def _absorb_pad(im: Importer, tensor: str, w: Windows, zero_point: int) -> tuple[str, Windows]:
    """A PAD of height and width with the zero point becomes the convolution's own padding.

    It has to happen before windows are made exact: a SLICE between them would hide the PAD.
    """
    producer = im.graph.producers().get(tensor)
    if producer is None or producer.kind != "PAD" or w.transposed:
        return tensor, w
    pads = im.graph.constant(producer.inputs[1]).reshape(-1, 2)
    value = int(im.graph.constant(producer.inputs[2]).reshape(-1)[0])
    if len(pads) != 4 or pads[[0, 3]].any() or value != zero_point:
        return tensor, w
    (top, bottom), (left, right) = pads[1:3].tolist()
    rows, columns = w.pads
    joined = (rows[0] + top, rows[1] + bottom), (columns[0] + left, columns[1] + right)
    return producer.inputs[0], replace(w, pads=joined)


def _products(
    im: Importer, node: Node, tensor: str, weight: Float, scale: Float, bias: Float, w: Windows,
    zero_point: int, weight_zp: int = 0,
) -> list[str]:  # fmt: skip
    """The accumulators [N, …, C]: one tensor, or one for each group. `weight`: [out, in, …]."""
    kernel, channels = weight.shape[2:], im.graph.tensors[tensor].shape[-1]
    kind = "CONV3D" if len(kernel) == 3 else "CONV2D"
    zps = (zero_point, weight_zp)
    if w.transposed:
        kind = "TRANSPOSE_CONV2D"
        weight = stuffed(weight, w.dilation)
        ends = [(-p[0], e - p[1]) for p, e in zip(w.pads, w.extra, strict=True)]
        tensor, ends = _cropped(im, node, tensor, weight.shape[2:], w.stride, ends)
        attributes: dict[str, Any] = {"out_pad": [*ends[0], *ends[1]], "stride": w.stride}
    else:
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, w.dilation, strict=True)]
        tensor, pad = exact_windows(im, node, tensor, reach, w.stride, w.pads)
        attributes = {"pad": pad, "stride": w.stride, "dilation": w.dilation}
    if kind == "CONV2D" and w.groups == channels > 1:
        split = weight.reshape(channels, -1, *kernel).transpose(2, 3, 0, 1)
        return [conv(im, node, "DEPTHWISE_CONV2D", tensor, split, scale, bias, attributes, *zps)]
    columns = np.moveaxis(weight, 1, -1)
    if w.groups == 1:
        return [conv(im, node, kind, tensor, columns, scale, bias, attributes, *zps)]
    size, made = channels // w.groups, len(scale) // w.groups
    lead = im.graph.tensors[tensor].shape[:-1]
    parts = []
    for i in range(w.groups):
        begin, extent = [*(0 for _ in lead), i * size], [*lead, size]
        part = im.slice(node, tensor, begin, extent, name=f"{node.name}_group")
        at = slice(i * made, (i + 1) * made)
        parts.append(conv(im, node, kind, part, columns[at], scale[at], bias[at], attributes, *zps))
    return parts


def _cropped(
    im: Importer, node: Node, tensor: str, kernel: Sequence[int], stride: Sequence[int],
    ends: list[tuple[int, int]],
) -> tuple[str, list[tuple[int, int]]]:  # fmt: skip
    """The image of a transposed convolution without the rows and columns all of whose results are
    cut off, and what is cut off then. TOSA cuts off less than a kernel.
    """
    size = list(im.graph.tensors[tensor].shape)
    begin, left = [0] * len(size), []
    for axis, (k, s, cut) in enumerate(zip(kernel, stride, ends, strict=True), 1):
        first, last = (max(0, (-c - k) // s + 1) for c in cut)
        im.require(
            first + last < size[axis], node, "padding cuts off all that the input gives",
            "its result is the bias alone: leave the layer out",
        )  # fmt: skip
        begin[axis], size[axis] = first, size[axis] - first - last
        left.append((cut[0] + first * s, cut[1] + last * s))
    if size == list(im.graph.tensors[tensor].shape):
        return tensor, left
    return im.slice(node, tensor, begin, size, name=f"{node.name}_inner"), left


def affine(im: Importer, node: Node, plan: Plan) -> Value:
    """x · a[c] + b[c] with c the second dimension: a batch norm that follows no convolution."""
    (source,) = plan.reads
    reach = im.formats.magnitude(source)
    return scaled(im, node, im.wide(source), plan.data["factor"], plan.data["offset"], reach)


def scaled(im: Importer, node: Node, value: Value, a: Float, b: Float, reach: float) -> Value:
    """x · a[c] + b[c] of an int16 value whose magnitude is at most `reach`."""
    # One step for which the product, the offset and their sum stay below 2^30.
    step = float(np.max(np.abs(a)) * reach * 1.1 + np.max(np.abs(b))) / (1 << 30)
    step = max(step, float(np.max(np.abs(a))) * value.step / 32767, TINY)
    axes = value.layout.some_axes
    value = im.ordered(value, axes)
    size = [value.shape[1] if d == 1 else 1 for d in axes]
    factors = np.rint(np.broadcast_to(a, value.shape[1]) * value.step / step).reshape(size)
    offsets = np.rint(np.broadcast_to(b, value.shape[1]) / step).reshape(size)
    constants = [
        im.graph.add_constant(f"{node.name}_{part}", data, "int32")
        for part, data in (("factor", factors), ("offset", offsets))
    ]
    wide = im.int32(node, value.tensor)
    product = im.op(node, "MUL", [wide, constants[0], im.scalar(0, "int8")])
    total = im.op(node, "ADD", [product, constants[1]])
    return im.finish(node, replace(value, tensor=total, scale=step))

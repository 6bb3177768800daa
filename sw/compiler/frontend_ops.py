"""One function per ATen operator: what it becomes in TOSA."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from sw.compiler.frontend import Constant, Importer, Input, Item, Value, qd
from sw.compiler.layout import Layout

aten = torch.ops.aten
Handler = Callable[[Importer, Node], Item]

NHWC = (0, 2, 3, 1)
ADD_HEADROOM = 20
"""Sums are taken in steps of the larger scale / 2^19: 28 bits for two int8 operands."""


def import_node(im: Importer, node: Node) -> Item:
    """Translate one FX node; `CompileError` for an operator that is not in the table."""
    handler = _HANDLERS.get(node.target)
    if handler is None or node.op != "call_function":
        raise im.error(
            node,
            f"operator {node.target} is not supported",
            "run this part of the model outside, or express it with: "
            + ", ".join(sorted({str(t).split(".")[1] for t in _HANDLERS if "aten" in str(t)})),
        )
    return handler(im, node)


def argument(node: Node, index: int, name: str, default: Any = None) -> Any:
    """Positional or keyword argument of an FX node."""
    return node.args[index] if len(node.args) > index else node.kwargs.get(name, default)


def pair(value: Any) -> tuple[int, int]:
    """An int or a list of one or two as (y, x)."""
    items = [value] if isinstance(value, int) else list(value)
    return (items[0], items[0]) if len(items) == 1 else (items[0], items[1])


def _out_shape(node: Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


# Quantization -------------------------------------------------------------------------------


def _quantize(im: Importer, node: Node) -> Item:
    x, scale, zero_point, low, high = (argument(node, i, "") for i in range(5))
    item = im.env.get(x)
    if isinstance(item, Constant):
        q = np.clip(np.rint(item.real / scale) + zero_point, low, high).astype(np.int64)
        return Constant(
            real=(q - zero_point) * scale, integers=q, scale=float(scale), zero_point=zero_point
        )
    im.require(
        (-128 <= low <= high <= 127) and str(node.args[5]) == "torch.int8",
        node,
        f"activations of type {node.args[5]} in {low}…{high}: only int8 is supported",
    )
    value = im.port(item, scale, zero_point) if isinstance(item, Input) else im.value(node, x)
    return _to_int8(im, node, value, float(scale), int(zero_point), int(low), int(high))


def _to_int8(
    im: Importer, node: Node, value: Value, scale: float, zero_point: int, low: int, high: int
) -> Value:
    """RESCALE where scale, zero point or type differ; CLAMP where bounds are tighter than int8."""
    source = im.graph.tensors[value.tensor]
    tensor, name = value.tensor, node.args[0].name
    same = value.scale == scale if isinstance(value.scale, float) else False
    if not (same and value.zero_point == zero_point and source.dtype == "int8"):
        ratio = value.scale / scale
        tensor = im.rescale(
            node, tensor, ratio, value.zero_point, zero_point, "int8", name=f"{name}_q", scale=scale
        )
    steps = [np.rint(b / scale) + zero_point for b in (value.low, value.high)]
    least, most = int(max(low, steps[0])), int(min(high, steps[1]))
    if (least, most) != (-128, 127):
        im.require(least <= most, node, f"bounds {value.low}…{value.high} leave no int8 value")
        tensor = im.op(
            node,
            "CLAMP",
            [tensor],
            {"min_val": least, "max_val": most},
            name=f"{name}_clamp",
            scale=scale,
            zero_point=zero_point,
        )
    return Value(tensor=tensor, layout=value.layout, scale=scale, zero_point=zero_point)


def _dequantize(im: Importer, node: Node) -> Item:
    item = im.env.get(node.args[0])
    if isinstance(item, Constant) and item.integers is not None and not item.scale:
        scale, zero_point = float(node.args[1]), int(node.args[2])
        real = (item.integers - zero_point) * scale
        return replace(item, real=real, scale=scale, zero_point=zero_point)
    return item


def _dequantize_channels(im: Importer, node: Node) -> Item:
    item = im.constant(node, node.args[0])
    scales = im.constant(node, node.args[1]).real
    zeros = im.constant(node, node.args[2]) if node.args[2] is not None else None
    axis = int(node.args[3])
    im.require(item.integers is not None, node, "per-channel quantization of a float tensor")
    im.require(zeros is None or not zeros.real.any(), node, "per-channel weights must be symmetric")
    assert item.integers is not None
    shape = [-1 if i == axis else 1 for i in range(item.integers.ndim)]
    return replace(item, real=item.integers * scales.reshape(shape), scale=scales, axis=axis)


# Weighted layers ----------------------------------------------------------------------------


def _int8_weights(im: Importer, node: Node) -> tuple[np.ndarray[Any, Any], Any, int]:
    """(integers, scale per output channel or one, zero point) of operand 1."""
    weight = im.constant(node, node.args[1])
    im.require(
        weight.integers is not None and weight.axis in (-1, 0),
        node,
        "weights are not quantized to int8 (per tensor, or per output channel)",
        "quantize the module with sw.compiler.quantizer.SystolaQuantizer",
    )
    assert weight.integers is not None
    return weight.integers, weight.scale, weight.zero_point


def _bias(im: Importer, node: Node, scale: Any, channels: int) -> str:
    """int32 bias in accumulator steps: PT2E's integers, or rounded from a float bias."""
    operand = argument(node, 2, "bias")
    values = np.zeros(channels, np.int64)
    if operand is not None:
        bias = im.constant(node, operand)
        values = np.rint(bias.real / scale).astype(np.int64)
        limit = (1 << 31) - 1
        im.require(
            int(np.abs(values).max()) <= limit, node, "the bias does not fit in the accumulator"
        )
    return im.graph.add_constant(f"{node.name}_bias", values, "int32")


def _weighted(
    im: Importer,
    node: Node,
    tensor: str,
    x: Value,
    weight: np.ndarray[Any, Any],
    attributes: dict[str, Any],
) -> tuple[str, Any]:
    """CONV2D of an NHWC tensor with OHWI weights: (int32 tensor, scale of its steps)."""
    _, weight_scale, weight_zp = _int8_weights(im, node)
    scale = x.scale * weight_scale
    operands = [
        tensor,
        im.graph.add_constant(f"{node.name}_weight", weight, "int8"),
        _bias(im, node, scale, weight.shape[0]),
        im.scalar(x.zero_point, "int8"),
        im.scalar(weight_zp, "int8"),
    ]
    return im.op(node, "CONV2D", operands, attributes), scale


def _conv2d(im: Importer, node: Node) -> Item:
    stride, dilation = pair(argument(node, 3, "stride", 1)), pair(argument(node, 5, "dilation", 1))
    return _convolution(im, node, stride, argument(node, 4, "padding", 0), dilation, 6)


def _aten_convolution(im: Importer, node: Node) -> Item:
    im.require(not node.args[6], node, "transposed convolution is not supported")
    return _convolution(im, node, pair(node.args[3]), node.args[4], pair(node.args[5]), 8)


def _convolution(
    im: Importer,
    node: Node,
    stride: tuple[int, int],
    padding: Any,
    dilation: tuple[int, int],
    groups_at: int,
) -> Item:
    x = im.int8(node, node.args[0])
    weight = _int8_weights(im, node)[0]
    im.require(
        len(x.shape) == 4 and weight.ndim == 4,
        node,
        f"convolution of {len(x.shape)} dimensions: only two-dimensional batches [N,C,H,W]",
    )
    groups = argument(node, groups_at, "groups", 1)
    im.require(
        groups == 1,
        node,
        f"groups={groups}: grouped and depthwise convolutions are not supported in this release",
        "use groups=1",
    )
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    pads = _same_padding(padding, reach) if isinstance(padding, str) else pair(padding)
    ends = [pads] * 2 if not isinstance(padding, str) else _split(pads)
    x = im.ordered(node, x, NHWC)
    tensor, begin, end = _absorb_pad(im, x, ends[0], ends[1])
    tensor, pad = _exact(im, node, tensor, reach, stride, begin, end)
    attributes = {"pad": pad, "stride": stride, "dilation": dilation}
    out, scale = _weighted(im, node, tensor, x, weight.transpose(0, 2, 3, 1), attributes)
    return Value(tensor=out, layout=Layout.of(_out_shape(node), NHWC), scale=scale)


def _same_padding(padding: str, reach: Sequence[int]) -> tuple[int, int]:
    return (0, 0) if padding == "valid" else (reach[0] - 1, reach[1] - 1)


def _split(total: tuple[int, int]) -> list[tuple[int, int]]:
    """PyTorch's 'same': the smaller half in front."""
    begin = (total[0] // 2, total[1] // 2)
    return [begin, (total[0] - begin[0], total[1] - begin[1])]


def _absorb_pad(
    im: Importer, x: Value, begin: Sequence[int], end: Sequence[int]
) -> tuple[str, list[int], list[int]]:
    """Move a PAD with the zero point on height and width into the convolution's own padding."""
    producer = im.graph.producers().get(x.tensor)
    if producer is None or producer.kind != "PAD":
        return x.tensor, list(begin), list(end)
    pads = im.graph.constant(producer.inputs[1]).reshape(-1, 2)
    value = int(im.graph.constant(producer.inputs[2]).reshape(-1)[0])
    if len(pads) != 4 or pads[[0, 3]].any() or value != x.zero_point:
        return x.tensor, list(begin), list(end)
    (top, bottom), (left, right) = pads[1:3].tolist()
    return (
        producer.inputs[0],
        [begin[0] + top, begin[1] + left],
        [end[0] + bottom, end[1] + right],
    )


def _exact(
    im: Importer,
    node: Node,
    tensor: str,
    reach: Sequence[int],
    stride: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
) -> tuple[str, tuple[int, int, int, int]]:
    """TOSA wants windows to fit exactly: take rows that no window reads off the padding, else SLICE."""
    shape = list(im.graph.tensors[tensor].shape)
    size, last = shape[:], list(end)
    for i in range(2):
        rest = (shape[1 + i] + begin[i] + end[i] - reach[i]) % stride[i]
        last[i] = max(0, end[i] - rest)
        size[1 + i] -= rest - (end[i] - last[i])
    if size != shape:
        start = im.graph.add_constant(f"{node.name}_start", [0] * 4, "shape")
        extent = im.graph.add_constant(f"{node.name}_size", size, "shape")
        tensor = im.op(node, "SLICE", [tensor, start, extent], name=f"{node.name}_slice")
    return tensor, (begin[0], last[0], begin[1], last[1])


def _linear(im: Importer, node: Node) -> Item:
    return _fully_connected(im, node, im.int8(node, node.args[0]), _int8_weights(im, node)[0])


def _fully_connected(im: Importer, node: Node, x: Value, weight: np.ndarray[Any, Any]) -> Item:
    """A 1×1 CONV2D over rows; weights follow the order of the features in memory."""
    axis = len(x.shape) - 1
    factors = x.layout.suffix(axis)
    if factors is None:
        x = im.ordered(node, x, range(len(x.shape)))
        factors = x.layout.suffix(axis)
    assert factors is not None
    channels, features = weight.shape
    own = [f for f in x.layout.dims[axis] if x.layout.sizes[f] > 1]
    sizes = [x.layout.sizes[f] for f in own]
    perm = [1 + own.index(f) for f in factors]
    columns = weight.reshape(channels, *sizes).transpose(0, *perm).reshape(channels, features)
    rows = math.prod(x.shape[:-1])
    tensor = im.reshaped(node, x.tensor, (1, rows, 1, features))
    out, scale = _weighted(im, node, tensor, x, columns.reshape(channels, 1, 1, features), {})
    layout = x.layout.replace_suffix(channels)
    # The channels are the last axis, so that a per-channel RESCALE applies.
    return Value(tensor=out, layout=layout, scale=scale)


def _matmul(im: Importer, node: Node) -> Item:
    a, b = (im.int8(node, operand) for operand in node.args[:2])
    im.require(
        len(a.shape) == len(b.shape) >= 2 and a.shape[:-2] == b.shape[:-2],
        node,
        f"matrix product of {list(a.shape)} and {list(b.shape)}: equal leading dimensions needed",
        "expand the smaller operand, or use a linear layer for constant weights",
    )
    a, b = (im.ordered(node, v, range(len(v.shape))) for v in (a, b))
    batch = math.prod(a.shape[:-2])
    operands = [im.reshaped(node, v.tensor, (batch, *v.shape[-2:])) for v in (a, b)]
    operands += [im.scalar(v.zero_point, "int8") for v in (a, b)]
    out = im.op(node, "MATMUL", operands)
    return Value(tensor=out, layout=Layout.of(_out_shape(node)), scale=a.scale * b.scale)


# Elementwise --------------------------------------------------------------------------------


def _sum(im: Importer, node: Node) -> Item:
    """Both operands RESCALEd to one int32 scale fine enough that PT2E's rounding shows no more."""
    im.require(
        argument(node, 2, "alpha", 1) == 1, node, "add with alpha≠1", "multiply the operand first"
    )
    for operand in node.args[:2]:
        im.require(
            isinstance(operand, Node),
            node,
            f"{node.target} with the number {operand!r}",
            "add it to the bias of the layer before",
        )
    a, b = (im.int8(node, operand) for operand in node.args[:2])
    im.require(
        a.shape == b.shape,
        node,
        f"operands {list(a.shape)} and {list(b.shape)}: broadcasting is not supported",
    )
    if a.layout != b.layout:
        axes = NHWC if im.spatial and len(a.shape) == 4 else range(len(a.shape))
        a, b = im.ordered(node, a, axes), im.ordered(node, b, axes)
    b = replace(b, tensor=im.reshaped(node, b.tensor, im.graph.tensors[a.tensor].shape))
    assert isinstance(a.scale, float) and isinstance(b.scale, float)
    step = max(a.scale, b.scale) / (1 << (ADD_HEADROOM - 1))
    wide = [
        im.rescale(
            node, v.tensor, v.scale / step, v.zero_point, 0, "int32", name=f"{node.name}_in{i}"
        )
        for i, v in enumerate((a, b))
    ]
    kind = "SUB" if "sub" in str(node.target) else "ADD"
    return Value(tensor=im.op(node, kind, wide), layout=a.layout, scale=step)


def _bounded(low: float | None, high: float | None) -> Handler:
    return lambda im, node: _bound(im, node, low, high)


def _clamp(im: Importer, node: Node) -> Item:
    return _bound(im, node, argument(node, 1, "min"), argument(node, 2, "max"))


def _clamp_max(im: Importer, node: Node) -> Item:
    return _bound(im, node, None, argument(node, 1, "max"))


def _hardtanh(im: Importer, node: Node) -> Item:
    return _bound(im, node, argument(node, 1, "min_val", -1.0), argument(node, 2, "max_val", 1.0))


def _bound(im: Importer, node: Node, low: Any, high: Any) -> Item:
    """Remember the bounds: the quantize node behind them makes a CLAMP."""
    value = im.value(node, node.args[0])
    low = -math.inf if low is None else float(low)
    high = math.inf if high is None else float(high)
    im.require(low <= high, node, f"bounds {low}…{high} are the wrong way round")
    bounds = [min(max(b, low), high) for b in (value.low, value.high)]
    return replace(value, low=bounds[0], high=bounds[1])


def _scaled(im: Importer, node: Node) -> Item:
    """Multiplication or division by a positive number: only the scale changes."""
    factor = node.args[1]
    good = isinstance(factor, int | float) and factor > 0
    im.require(
        good, node, f"{node.target} by {factor!r}: only by a positive number", "use a linear layer"
    )
    value = im.value(node, node.args[0])
    by = float(factor) if "mul" in str(node.target) else 1.0 / float(factor)
    return replace(value, scale=value.scale * by, low=value.low * by, high=value.high * by)


# Pools --------------------------------------------------------------------------------------


def _pool_ends(
    im: Importer, node: Node, x: Value, kernel: Any, stride: Any, padding: Any, ceil: bool
) -> list[int]:
    """Padding at the end; with ceil_mode as much more as the last window needs."""
    end = list(padding)
    for i in range(2):
        size = x.shape[2 + i] + 2 * padding[i] - kernel[i]
        rest = size % stride[i]
        # PyTorch drops a window that would start in the padding behind the input.
        starts_inside = (size // stride[i] + 1) * stride[i] < x.shape[2 + i] + padding[i]
        if ceil and rest and starts_inside:
            end[i] += stride[i] - rest
    return end


def _max_pool2d(im: Importer, node: Node) -> Item:
    kernel = pair(node.args[1])
    stride = pair(argument(node, 2, "stride") or kernel)
    padding = pair(argument(node, 3, "padding", 0))
    dilation = pair(argument(node, 4, "dilation", 1))
    im.require(dilation == (1, 1), node, f"max pool with dilation {dilation} is not supported")
    x = im.ordered(node, im.int8(node, node.args[0]), NHWC)
    end = _pool_ends(im, node, x, kernel, stride, padding, argument(node, 5, "ceil_mode", False))
    tensor, pad = _exact(im, node, x.tensor, kernel, stride, padding, end)
    out = im.op(
        node,
        "MAX_POOL2D",
        [tensor],
        {"kernel": kernel, "stride": stride, "pad": pad},
        scale=_one(x),
        zero_point=x.zero_point,
    )
    shape = node.meta["val"][0].shape if _has_indices(node) else _out_shape(node)
    value = replace(x, tensor=out, layout=Layout.of(tuple(shape), NHWC))
    return (value, None) if _has_indices(node) else value


def _has_indices(node: Node) -> bool:
    return "with_indices" in str(node.target)


def _one(x: Value) -> float:
    assert isinstance(x.scale, float)
    return x.scale


def _avg_pool2d(im: Importer, node: Node) -> Item:
    kernel = pair(node.args[1])
    stride = pair(argument(node, 2, "stride") or kernel)
    padding = pair(argument(node, 3, "padding", 0))
    include = argument(node, 5, "count_include_pad", True)
    divisor = argument(node, 6, "divisor_override")
    im.require(
        not argument(node, 4, "ceil_mode", False),
        node,
        "average pool with ceil_mode=True",
        "pad the input instead",
    )
    im.require(divisor in (None, math.prod(kernel)), node, f"divisor_override={divisor}")
    x = im.ordered(node, im.int8(node, node.args[0]), NHWC)
    if include and any(padding):
        x = _padded(im, node, x, [(0, 0), (padding[0],) * 2, (padding[1],) * 2, (0, 0)], 0.0)
        padding = (0, 0)
    return _average(im, node, x, kernel, stride, padding, _out_shape(node))


def _adaptive_avg_pool2d(im: Importer, node: Node) -> Item:
    x = im.ordered(node, im.int8(node, node.args[0]), NHWC)
    size, out = x.shape[2:], _out_shape(node)[2:]
    im.require(
        not any(s % o for s, o in zip(size, out, strict=True)),
        node,
        f"adaptive average pool from {list(size)} to {list(out)}: sizes must divide evenly",
    )
    kernel = (size[0] // out[0], size[1] // out[1])
    return _average(im, node, x, kernel, kernel, (0, 0), _out_shape(node))


def _mean(im: Importer, node: Node) -> Item:
    x = im.int8(node, node.args[0])
    dims = argument(node, 1, "dim") or []
    axes = sorted(d % len(x.shape) for d in ([dims] if isinstance(dims, int) else dims))
    im.require(
        len(x.shape) == 4 and axes == [2, 3],
        node,
        f"mean over {dims} of {list(x.shape)}: only over height and width of [N,C,H,W]",
    )
    x = im.ordered(node, x, NHWC)
    n, c, h, w = x.shape
    mean = _average(im, node, x, (h, w), (1, 1), (0, 0), (n, c, 1, 1))
    layout = mean.layout.reshape(_out_shape(node))
    assert layout is not None  # only dimensions of size 1 go
    return replace(mean, layout=layout)


def _average(
    im: Importer, node: Node, x: Value, kernel: Any, stride: Any, padding: Any, shape: Any
) -> Value:
    tensor, pad = _exact(im, node, x.tensor, kernel, stride, padding, padding)
    zero = im.scalar(x.zero_point, "int8")
    attributes = {"kernel": kernel, "stride": stride, "pad": pad}
    out = im.op(
        node,
        "AVG_POOL2D",
        [tensor, zero, zero],
        attributes,
        scale=_one(x),
        zero_point=x.zero_point,
    )
    return replace(x, tensor=out, layout=Layout.of(tuple(shape), NHWC))


# Moves --------------------------------------------------------------------------------------


def _pad(im: Importer, node: Node) -> Item:
    mode = argument(node, 2, "mode", "constant") if "constant" not in str(node.target) else ""
    im.require(mode in ("", "constant"), node, f"padding mode {mode!r}: only constant padding")
    fill = argument(node, 2 if mode == "" else 3, "value") or 0.0
    x = im.int8(node, node.args[0])
    flat = list(node.args[1])
    rank = len(x.shape)
    pads = [(0, 0)] * (rank - len(flat) // 2)
    pads += [(flat[i], flat[i + 1]) for i in range(len(flat) - 2, -1, -2)]
    axes = NHWC if im.spatial and rank == 4 else tuple(range(rank))
    x = im.ordered(node, x, axes)
    x = _cut(im, node, x, axes, pads)
    return _padded(im, node, x, [tuple(max(0, p) for p in pads[a]) for a in axes], float(fill))


def _cut(im: Importer, node: Node, x: Value, axes: Sequence[int], pads: Any) -> Value:
    """Negative padding removes elements."""
    start = [max(0, -pads[a][0]) for a in axes]
    size = [x.shape[a] + min(0, pads[a][0]) + min(0, pads[a][1]) for a in axes]
    if size == [x.shape[a] for a in axes]:
        return x
    return _sliced(im, node, x, axes, start, size)


def _sliced(
    im: Importer, node: Node, x: Value, axes: Sequence[int], start: list[int], size: list[int]
) -> Value:
    im.require(min(size) > 0, node, f"nothing is left of {list(x.shape)}")
    operands = [
        x.tensor,
        im.graph.add_constant(f"{node.name}_start", start, "shape"),
        im.graph.add_constant(f"{node.name}_size", size, "shape"),
    ]
    tensor = im.op(
        node, "SLICE", operands, name=f"{node.name}_slice", scale=_one(x), zero_point=x.zero_point
    )
    shape = [size[list(axes).index(i)] for i in range(len(axes))]
    return replace(x, tensor=tensor, layout=Layout.of(shape, axes))


def _padded(im: Importer, node: Node, x: Value, memory_pads: Any, fill: float) -> Value:
    """PAD in memory order with the integer that stands for `fill`."""
    if not any(p for ends in memory_pads for p in ends):
        return x
    quantized = round(fill / _one(x)) + x.zero_point
    im.require(
        -128 <= quantized <= 127,
        node,
        f"padding value {fill} is outside the int8 range",
        "include it in the calibration data",
    )
    padding = [p for ends in memory_pads for p in ends]
    operands = [
        x.tensor,
        im.graph.add_constant(f"{node.name}_padding", padding, "shape"),
        im.scalar(quantized, "int8"),
    ]
    tensor = im.op(
        node, "PAD", operands, name=f"{node.name}_pad", scale=_one(x), zero_point=x.zero_point
    )
    axes = x.layout.order
    memory = im.graph.tensors[tensor].shape
    shape = [memory[axes.index(i)] for i in range(len(axes))]
    return replace(x, tensor=tensor, layout=Layout.of(shape, axes))


def _slice(im: Importer, node: Node) -> Item:
    x = im.int8(node, node.args[0])
    axis = argument(node, 1, "dim", 0) % len(x.shape)
    step = argument(node, 4, "step", 1)
    im.require(step == 1, node, f"slice with step {step} is not supported")
    length, wanted = x.shape[axis], _out_shape(node)[axis]
    begin = argument(node, 2, "start", 0) or 0
    begin = min(max(begin + length if begin < 0 else begin, 0), length)
    if wanted == length:
        return x
    axes = NHWC if im.spatial and len(x.shape) == 4 else tuple(range(len(x.shape)))
    x = im.ordered(node, x, axes)
    start, size = [0] * len(axes), [x.shape[a] for a in axes]
    start[axes.index(axis)], size[axes.index(axis)] = begin, wanted
    return _sliced(im, node, x, axes, start, size)


def _same(im: Importer, node: Node) -> Item:
    return im.env[node.args[0]]  # type: ignore[index]  # FX operands are nodes here


def _dropout(im: Importer, node: Node) -> Item:
    training = bool(argument(node, 2, "train", False))
    im.require(not training, node, "dropout in training mode", "call .eval() before exporting")
    return _same(im, node)


def _reshape(im: Importer, node: Node) -> Item:
    """Any view: the output shape says it all."""
    item = im.env.get(node.args[0])
    if isinstance(item, Constant):
        im.require(item.axis < 0, node, "reshape of per-channel parameters")
        shape = _out_shape(node)
        ints = None if item.integers is None else item.integers.reshape(shape)
        return replace(item, real=item.real.reshape(shape), integers=ints)
    value = im.value(node, node.args[0])
    layout = value.layout.reshape(_out_shape(node))
    if layout is None:
        value = im.ordered(node, value, range(len(value.shape)))
        layout = Layout.of((math.prod(value.shape),)).reshape(_out_shape(node))
        assert layout is not None
    return replace(value, layout=layout)


def _permute(im: Importer, node: Node) -> Item:
    return _permuted(im, node, list(node.args[1]))


def _transpose(im: Importer, node: Node) -> Item:
    rank = len(_out_shape(node))
    perm = list(range(rank))
    a, b = (0, 1) if len(node.args) == 1 else (node.args[1] % rank, node.args[2] % rank)
    if rank > 1:
        perm[a], perm[b] = perm[b], perm[a]
    return _permuted(im, node, perm)


def _permuted(im: Importer, node: Node, perm: list[int]) -> Item:
    item = im.env.get(node.args[0])
    perm = [p % len(perm) for p in perm]
    if isinstance(item, Constant):
        ints = None if item.integers is None else item.integers.transpose(perm)
        axis = perm.index(item.axis) if item.axis >= 0 else -1
        return replace(item, real=item.real.transpose(perm), integers=ints, axis=axis)
    value = im.value(node, node.args[0])
    return replace(value, layout=value.layout.permute(perm))


def _getitem(im: Importer, node: Node) -> Item:
    item = im.env[node.args[0]]  # type: ignore[index]  # FX operands are nodes here
    part = item[node.args[1]] if isinstance(item, tuple) else None
    im.require(
        part is not None or not node.users,
        node,
        f"result {node.args[1]} of {node.args[0]} is not available (indices of a max pool?)",
        "use only the first result",
    )
    return part


_HANDLERS: dict[Any, Handler] = {
    qd.quantize_per_tensor.default: _quantize,
    qd.dequantize_per_tensor.default: _dequantize,
    qd.dequantize_per_channel.default: _dequantize_channels,
    aten.conv2d.default: _conv2d,
    aten.conv2d.padding: _conv2d,
    aten.convolution.default: _aten_convolution,
    aten.linear.default: _linear,
    aten.matmul.default: _matmul,
    aten.bmm.default: _matmul,
    aten.mm.default: _matmul,
    aten.add.Tensor: _sum,
    aten.add_.Tensor: _sum,
    aten.sub.Tensor: _sum,
    aten.mul.Tensor: _scaled,
    aten.div.Tensor: _scaled,
    aten.relu.default: _bounded(0.0, None),
    aten.relu_.default: _bounded(0.0, None),
    aten.relu6.default: _bounded(0.0, 6.0),
    aten.hardtanh.default: _hardtanh,
    aten.hardtanh_.default: _hardtanh,
    aten.clamp.default: _clamp,
    aten.clamp_min.default: _clamp,
    aten.clamp_max.default: _clamp_max,
    aten.max_pool2d.default: _max_pool2d,
    aten.max_pool2d_with_indices.default: _max_pool2d,
    aten.avg_pool2d.default: _avg_pool2d,
    aten.adaptive_avg_pool2d.default: _adaptive_avg_pool2d,
    aten._adaptive_avg_pool2d.default: _adaptive_avg_pool2d,
    aten.mean.dim: _mean,
    aten.pad.default: _pad,
    aten.constant_pad_nd.default: _pad,
    aten.slice.Tensor: _slice,
    aten.flatten.using_ints: _reshape,
    aten.view.default: _reshape,
    aten._unsafe_view.default: _reshape,
    aten.reshape.default: _reshape,
    aten.unsqueeze.default: _reshape,
    aten.squeeze.default: _reshape,
    aten.squeeze.dim: _reshape,
    aten.squeeze.dims: _reshape,
    aten.permute.default: _permute,
    aten.transpose.int: _transpose,
    aten.t.default: _transpose,
    aten.clone.default: _same,
    aten.contiguous.default: _same,
    aten.alias.default: _same,
    aten.dropout.default: _dropout,
    operator.getitem: _getitem,
}

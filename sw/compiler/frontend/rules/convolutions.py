"""Convolutions by constant weights, with the affine maps of their channels folded in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from sw.compiler.frontend.importer import Importer, Value
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.operator_sets import Plan, aten
from sw.compiler.frontend.windows import Pads, fit_windows

Float = NDArray[np.float64]

_BIAS_LIMIT = (1 << 31) - 1


def int8_weights(columns: Float) -> tuple[Float, Float]:
    """(int8 integers, scale by output channel) of a matrix [out, …], symmetric."""
    rows = np.abs(columns).reshape(len(columns), -1).max(axis=1)
    scale = np.maximum(rows, max(float(rows.max()), 2.0**-40) * 2.0**-12) / 127
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
    operands = [
        tensor,
        im.graph.add_constant(f"{node.name}_weight", weight, "int8"),
        im.graph.add_constant(f"{node.name}_bias", steps, "int32"),
        im.scalar(zero_point, "int8"),
        im.scalar(weight_zp, "int8"),
    ]
    return im.op(node, kind, operands, attributes or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Attributes of a convolution in rows and columns; `pads`: (before, behind) of each."""

    stride: tuple[int, int]
    pads: tuple[tuple[int, int], tuple[int, int]]
    dilation: tuple[int, int]
    groups: int
    transposed: bool
    extra: tuple[int, int]


def windows(call: Node, kernel: Sequence[int]) -> Windows:
    """The attributes of any spelling of a convolution whose kernel is [rows, columns]."""
    core = call.target is aten.convolution.default
    given: list[Any] = [*call.args[3:], *(None,) * 6]
    one = len(call.meta["val"].shape) == 3
    stride = _pair(given[0] or 1, one, 1)
    dilation = _pair(given[2] or 1, one, 1)
    transposed = bool(core and given[3])
    extra = _pair(given[4] or 0, one, 0) if transposed else (0, 0)
    groups = int((given[5] if core else given[3]) or 1)
    padding = given[1] if given[1] is not None else 0
    if isinstance(padding, str):
        total = [(k - 1) * d * (padding == "same") for k, d in zip(kernel, dilation, strict=True)]
        # PyTorch puts the smaller half in front.
        pads = tuple((t // 2, t - t // 2) for t in total)
    else:
        pads = tuple((p, p) for p in _pair(padding, one, 0))
    return Windows(
        stride=stride, pads=(pads[0], pads[1]), dilation=dilation, groups=groups,
        transposed=transposed, extra=extra,
    )  # fmt: skip


def _pair(value: Any, one: bool, row: int) -> tuple[int, int]:
    """(rows, columns) of an attribute; conv1d has columns only, `row` is what it does to rows."""
    pair = [int(v) for v in value] if isinstance(value, list | tuple) else [int(value)]
    return (row, pair[-1]) if one else (pair[0], pair[-1])


def exact_windows(
    im: Importer,
    node: Node,
    tensor: str,
    reach: Sequence[int],
    stride: Sequence[int],
    pads: Pads,
) -> tuple[str, tuple[int, ...]]:
    """(tensor, TOSA's pad) of an NHWC tensor: cut by a SLICE if windows leave a rest of it."""
    shape = list(im.graph.tensors[tensor].shape)
    kept, pad = fit_windows(shape[1:3], reach, stride, pads)
    size = [shape[0], *kept, shape[3]]
    if size != shape:
        start = im.graph.add_constant(f"{node.name}_start", [0] * 4, "shape")
        extent = im.graph.add_constant(f"{node.name}_size", size, "shape")
        tensor = im.op(node, "SLICE", [tensor, start, extent], name=f"{node.name}_cut")
    return tensor, pad


def image(im: Importer, value: Value) -> tuple[str, tuple[int, ...]]:
    """(NHWC tensor, memory axes) of [N, C, W] or [N, C, H, W]; a missing H is 1."""
    rank = len(value.shape)
    axes = (0, *range(2, rank), 1)
    value = im.ordered(value, axes)
    n, c, *space = value.shape
    height, width = (1, *space) if rank == 3 else space
    return im.reshaped(value.tensor, (n, height, width, c)), axes


def convolution(im: Importer, node: Node, plan: Plan) -> Value:
    """CONV2D, DEPTHWISE_CONV2D, TRANSPOSE_CONV2D, or a CONV2D for each group."""
    call = plan.source
    x = im.int8(plan.reads[0])
    weight = im.constant(call.args[1])
    assert weight is not None
    one = weight.ndim == 3
    kernel = weight[:, :, None, :] if one else weight
    w = windows(call, kernel.shape[2:])
    bias = im.constant(call.args[2]) if len(call.args) > 2 and call.args[2] is not None else None
    factor, offset = plan.data["factor"], plan.data["offset"]
    bias = offset if bias is None else bias * factor + offset
    tensor, axes = image(im, x)
    assert isinstance(x.scale, float)
    stored = im.stored(call.args[1])
    weight_zp = 0
    if stored is not None and stored.axis in (-1, 0) and np.all(factor == 1) and not w.transposed:
        integers = stored.integers.astype(np.float64).reshape(kernel.shape)
        scale = np.broadcast_to(np.asarray(x.scale * stored.scale, np.float64), len(integers))
        weight_zp = stored.zero_point
    elif w.transposed:
        columns = kernel.transpose(1, 0, 2, 3) * (x.scale * factor).reshape(-1, 1, 1, 1)
        integers, scale = int8_weights(columns)
    else:
        columns = kernel * (x.scale * factor).reshape(-1, 1, 1, 1)
        integers, scale = int8_weights(columns)
    tensor, w = _absorb_pad(im, tensor, w, x.zero_point)
    parts = _products(im, node, tensor, integers, scale, bias, w, x.zero_point, weight_zp)
    shape = tuple(node.meta["val"].shape)
    out_shape, layout = tuple(shape[a] for a in axes), Layout.of(shape, axes)
    if len(parts) == 1:
        out = im.reshaped(parts[0], out_shape)
        single = stored is not None and not isinstance(stored.scale, np.ndarray)
        steps = float(scale[0]) if single else scale
        return im.finish(node, Value(tensor=out, layout=layout, scale=steps, axis=1))
    # Groups: each in the result's format, then side by side.
    want = im.formats.of(node)
    if want.dtype == "int32" or isinstance(want.scale, np.ndarray):
        want = im.formats.wide(node)
    size = len(scale) // len(parts)
    narrowed = [
        im.rescale(
            part,
            scale[i * size : (i + 1) * size] / want.scale,
            want.dtype,
            output_zp=want.zero_point,
        )
        for i, part in enumerate(parts)
    ]
    out = im.reshaped(im.op(node, "CONCAT", narrowed, {"axis": 3}), out_shape)
    return Value(tensor=out, layout=layout, scale=want.scale, zero_point=want.zero_point)


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
    """The accumulators [N, H, W, C]: one tensor, or one for each group."""
    kernel, zps = weight.shape[2:], (zero_point, weight_zp)
    if w.transposed:
        ends = [(-p[0], e - p[1]) for p, e in zip(w.pads, w.extra, strict=True)]
        attributes = {"out_pad": [*ends[0], *ends[1]], "stride": w.stride}
        columns = weight.transpose(0, 2, 3, 1)
        return [conv(im, node, "TRANSPOSE_CONV2D", tensor, columns, scale, bias, attributes,
                     zero_point)]  # fmt: skip
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, w.dilation, strict=True)]
    tensor, pad = exact_windows(im, node, tensor, reach, w.stride, w.pads)
    attributes = {"pad": pad, "stride": w.stride, "dilation": w.dilation}
    channels = im.graph.tensors[tensor].shape[-1]
    if w.groups == channels > 1:
        split = weight.reshape(channels, -1, *kernel).transpose(2, 3, 0, 1)
        return [
            conv(
                im,
                node,
                "DEPTHWISE_CONV2D",
                tensor,
                split,
                scale,
                bias,
                attributes,
                zero_point,
                weight_zp,
            )
        ]
    columns = weight.transpose(0, 2, 3, 1)
    if w.groups == 1:
        return [conv(im, node, "CONV2D", tensor, columns, scale, bias, attributes, *zps)]
    size, made = channels // w.groups, len(scale) // w.groups
    n, height, width, _ = im.graph.tensors[tensor].shape
    parts = []
    for i in range(w.groups):
        start = im.graph.add_constant(f"{node.name}_start", [0, 0, 0, i * size], "shape")
        extent = im.graph.add_constant(f"{node.name}_size", [n, height, width, size], "shape")
        part = im.op(node, "SLICE", [tensor, start, extent], name=f"{node.name}_group")
        at = slice(i * made, (i + 1) * made)
        parts.append(
            conv(
                im,
                node,
                "CONV2D",
                part,
                columns[at],
                scale[at],
                bias[at],
                attributes,
                zero_point,
                weight_zp,
            )
        )
    return parts


def affine(im: Importer, node: Node, plan: Plan) -> Value:
    """x · a[c] + b[c] with c the second dimension: a batch norm that follows no convolution."""
    (source,) = plan.reads
    reach = im.formats.magnitude(source)
    return scaled(im, node, im.wide(source), plan.data["factor"], plan.data["offset"], reach)


def scaled(im: Importer, node: Node, value: Value, a: Float, b: Float, reach: float) -> Value:
    """x · a[c] + b[c] of an int16 value whose magnitude is at most `reach`."""
    assert isinstance(value.scale, float)
    # One step for which the product, the offset and their sum stay below 2^30.
    step = float(np.max(np.abs(a)) * reach * 1.1 + np.max(np.abs(b))) / (1 << 30)
    step = max(step, float(np.max(np.abs(a))) * value.scale / 32767, 2.0**-60)
    axes = value.layout.axes or tuple(range(len(value.shape)))
    value = im.ordered(value, axes)
    shape = [value.shape[1] if d == 1 else 1 for d in axes]
    factors = np.rint(np.broadcast_to(a, value.shape[1]) * value.scale / step).reshape(shape)
    offsets = np.rint(np.broadcast_to(b, value.shape[1]) / step).reshape(shape)
    constants = [
        im.graph.add_constant(f"{node.name}_{name}", data, "int32")
        for name, data in (("factor", factors), ("offset", offsets))
    ]
    wide = im.op(node, "CAST", [value.tensor], name=f"{node.name}_cast", out_dtype="int32")
    product = im.op(node, "MUL", [wide, constants[0], im.scalar(0, "int8")])
    total = im.op(node, "ADD", [product, constants[1]])
    return im.finish(node, replace(value, tensor=total, scale=step), ("bounded",))

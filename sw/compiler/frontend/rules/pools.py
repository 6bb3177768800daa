"""Pools, padding and resizing of images, NHWC in memory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch.fx import Node

from sw.compiler.frontend.importer import Importer, Value
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.limits import ResizeStep, resize_steps
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.rules.convolutions import exact_windows, image
from sw.compiler.frontend.windows import pool_pads


def _pair(value: Any) -> tuple[int, int]:
    items = [value] if isinstance(value, int) else list(value)
    return int(items[0]), int(items[-1])


def _arguments(call: Node, *defaults: Any) -> list[Any]:
    """Arguments from the second on, with defaults."""
    given = list(call.args[1:])
    return [*given, *defaults[len(given) :]]


def _image_value(im: Importer, value: Value, tensor: str, shape: Sequence[int]) -> Value:
    """An NHWC result of the same scale."""
    layout = Layout.of(shape, (0, *range(2, len(shape)), 1))
    memory = [shape[a] for a in layout.order]
    return replace(value, tensor=im.reshaped(tensor, memory), layout=layout)


def _narrow(im: Importer, source: Node) -> Value:
    """int8 or int16 with one scale."""
    value = im.value(source)
    if value.channelwise or im.dtype(value) == "int32":
        value = im.wide(source)
        if im.dtype(value) == "int32":
            value = im.convert(value, im.formats.wide(source), source.name)
    return value


def max_pool(im: Importer, node: Node, plan: Plan) -> Value:
    kernel, stride, padding, _, ceil = _arguments(plan.source, None, [], 0, 1, False)
    kernel, padding = _pair(kernel), _pair(padding)
    stride = _pair(stride) if stride else kernel
    value = _narrow(im, plan.reads[0])
    tensor, _ = image(im, value)
    pads = pool_pads(value.shape[2:], kernel, stride, padding, ceil)
    tensor, pad = exact_windows(im, node, tensor, kernel, stride, pads)
    attributes = {"kernel": kernel, "stride": stride, "pad": pad}
    out = im.op(node, "MAX_POOL2D", [tensor], attributes)
    return _image_value(im, value, out, tuple(node.meta["val"].shape))


def avg_pool(im: Importer, node: Node, plan: Plan) -> Value:
    kernel, stride, padding, _, include, _ = _arguments(plan.source, None, [], 0, False, True, None)
    kernel, padding = _pair(kernel), _pair(padding)
    stride = _pair(stride) if stride else kernel
    value = im.narrow_or_wide(plan.reads[0])
    if include and any(padding):
        rows, columns = ((p, p) for p in padding)
        value = padded(im, node, value, [(0, 0), (0, 0), rows, columns], 0.0)
        padding = (0, 0)
    return _average(im, node, value, kernel, stride, padding)


def adaptive_avg_pool(im: Importer, node: Node, plan: Plan) -> Value:
    value = im.narrow_or_wide(plan.reads[0])
    out = node.meta["val"].shape[2:]
    kernel = (value.shape[2] // out[0], value.shape[3] // out[1])
    return _average(im, node, value, kernel, kernel, (0, 0))


def _average(im: Importer, node: Node, value: Value, kernel: tuple[int, int],
             stride: tuple[int, int], padding: tuple[int, int]) -> Value:  # fmt: skip
    if im.dtype(value) == "int32":
        value = im.convert(value, im.formats.wide(node), node.name)
    tensor, _ = image(im, value)
    pads = pool_pads(value.shape[2:], kernel, stride, padding, ceil=False)
    tensor, pad = exact_windows(im, node, tensor, kernel, stride, pads)
    zero = im.scalar(value.zero_point, im.dtype(value))
    attributes = {"kernel": kernel, "stride": stride, "pad": pad}
    out = im.op(node, "AVG_POOL2D", [tensor, zero, zero], attributes)
    return _image_value(im, value, out, tuple(node.meta["val"].shape))


def pooled_mean(im: Importer, node: Node, value: Value) -> Value:
    """The mean over height and width of int8 or int16."""
    n, c, h, w = value.shape
    tensor, _ = image(im, value)
    zero = im.scalar(value.zero_point, im.dtype(value))
    attributes = {"kernel": (h, w), "stride": (1, 1), "pad": (0, 0, 0, 0)}
    out = im.op(node, "AVG_POOL2D", [tensor, zero, zero], attributes)
    mean = _image_value(im, value, out, (n, c, 1, 1))
    layout = mean.layout.reshape(tuple(node.meta["val"].shape))
    assert layout is not None  # only dimensions of size 1 go
    return replace(mean, layout=layout)


# Padding ------------------------------------------------------------------------------------------


def padded(
    im: Importer, node: Node, value: Value, pads: Sequence[tuple[int, int]], real: float
) -> Value:
    """PAD by (before, behind) of each logical dimension with `real`, as near as the type has it."""
    axes = value.layout.own_axes or tuple(range(len(value.shape)))
    value = im.ordered(value, axes)
    dtype = im.dtype(value)
    assert isinstance(value.scale, float)
    limits = np.iinfo("int8" if dtype == "bool" else dtype)
    fill = np.clip(np.rint(real / value.scale) + value.zero_point, limits.min, limits.max)
    flat = [p for a in axes for p in pads[a]]
    operands = [
        value.tensor,
        im.graph.add_constant(f"{node.name}_padding", flat, "shape"),
        im.scalar(int(fill), dtype),
    ]
    out = im.op(node, "PAD", operands)
    shape = [s + sum(p) for s, p in zip(value.shape, pads, strict=True)]
    return replace(value, tensor=out, layout=Layout.of(shape, axes))


def constant_pad(im: Importer, node: Node, plan: Plan) -> Value:
    """From the last dimension on, (before, behind); negative padding cuts."""
    value = im.value(plan.reads[0])
    fill = float(_arguments(plan.source, None, 0)[1] or 0)
    if value.channelwise or (fill and im.formats.magnitude(plan.reads[0]) < abs(fill)):
        value = im.convert(value, im.formats.wide(node), node.name)
    given = list(plan.source.args[1])
    pairs = [(given[i], given[i + 1]) for i in range(0, len(given), 2)]
    pads = [(0, 0)] * (len(value.shape) - len(pairs)) + pairs[::-1]
    value = cut(im, node, value, [(max(-a, 0), max(-b, 0)) for a, b in pads])
    pads = [(max(a, 0), max(b, 0)) for a, b in pads]
    return padded(im, node, value, pads, fill) if any(map(any, pads)) else value


def cut(im: Importer, node: Node, value: Value, ends: Sequence[tuple[int, int]]) -> Value:
    """SLICE without (before, behind) elements of each logical dimension."""
    if not any(map(any, ends)):
        return value
    axes = value.layout.own_axes or tuple(range(len(value.shape)))
    value = im.ordered(value, axes)
    shape = [s - sum(e) for s, e in zip(value.shape, ends, strict=True)]
    operands = [
        value.tensor,
        im.graph.add_constant(f"{node.name}_start", [ends[a][0] for a in axes], "shape"),
        im.graph.add_constant(f"{node.name}_size", [shape[a] for a in axes], "shape"),
    ]
    out = im.op(node, "SLICE", operands, name=f"{node.name}_cut")
    return replace(value, tensor=out, layout=Layout.of(shape, axes))


# Resizing -----------------------------------------------------------------------------------------


def nearest(im: Importer, node: Node, plan: Plan) -> Value:
    """RESIZE NEAREST."""
    value = _narrow(im, plan.reads[0])
    tensor, _ = image(im, value)
    out, _ = _resize(im, node, tensor, "NEAREST")
    return _image_value(im, value, out, tuple(node.meta["val"].shape))


def _resize(im: Importer, node: Node, tensor: str, mode: str) -> tuple[str, int]:
    """(result, sum of the weights of its neighbours) of RESIZE."""
    steps, one = resize_steps(node), ResizeStep(numerator=1, denominator=1, offset=0)
    steps = [one, *steps] if len(steps) == 1 else steps
    sizes = im.graph.tensors[tensor].shape[1:3]
    outs = (1, *node.meta["val"].shape[2:])[-2:]
    border = [
        (out - 1) * s.denominator + s.offset - (size - 1) * s.numerator
        for s, size, out in zip(steps, sizes, outs, strict=True)
    ]
    scale = [v for s in steps for v in (s.numerator, s.denominator)]
    operands = [
        tensor,
        *(
            im.graph.add_constant(f"{node.name}_{name}", values, "shape")
            for name, values in (
                ("scale", scale), ("offset", [s.offset for s in steps]), ("border", border)
            )
        ),
    ]  # fmt: skip
    out = im.op(node, "RESIZE", operands, {"mode": mode})
    return out, steps[0].numerator * steps[1].numerator


def bilinear(im: Importer, node: Node, plan: Plan) -> Value:
    """RESIZE BILINEAR of int8."""
    value = im.int8(plan.reads[0])
    if value.zero_point:
        value = im.convert(value, im.formats.symmetric(plan.reads[0]), node.name)
    tensor, _ = image(im, value)
    out, weight = _resize(im, node, tensor, "BILINEAR")
    assert isinstance(value.scale, float)
    value = replace(value, scale=value.scale / weight)
    result = _image_value(im, value, out, tuple(node.meta["val"].shape))
    return im.finish(node, result, ("bounded",))

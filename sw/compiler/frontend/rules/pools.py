"""Pools, padding and resizing of images, NHWC in memory."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch.fx import Node

from spec.numerics import SUMMANDS
from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.limits import ResizeStep, pair, resize_steps
from sw.compiler.frontend.nodes import arguments, shape
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.rules.convolutions import conv, exact_windows, image
from sw.compiler.frontend.rules.grids import changes_grid
from sw.compiler.frontend.windows import pool_pads


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """Windows of a pool: by rows and by columns."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    ceil: bool = False

    def down(self) -> "_Pool":
        """One column after the other."""
        return replace(
            self,
            kernel=(self.kernel[0], 1),
            stride=(self.stride[0], 1),
            padding=(self.padding[0], 0),
        )

    def across(self) -> "_Pool":
        """One row after the other."""
        return replace(
            self,
            kernel=(1, self.kernel[1]),
            stride=(1, self.stride[1]),
            padding=(0, self.padding[1]),
        )


def _pool(given: Mapping[str, Any]) -> _Pool:
    """The windows that the arguments of a call say."""
    return _Pool(
        kernel=pair(given["kernel_size"]),
        stride=pair(given["stride"] or given["kernel_size"]),
        padding=pair(given["padding"]),
        ceil=given["ceil_mode"],
    )


def _pooled(
    im: Importer, node: Node, value: Value, kind: str, pool: _Pool, to: Sequence[int] = ()
) -> Value:
    """MAX_POOL2D or AVG_POOL2D of windows that fit exactly. to: the result's shape if another."""
    tensor, _ = image(im, value)
    pads = pool_pads(value.shape[2:], pool.kernel, pool.stride, pool.padding, pool.ceil)
    tensor, pad = exact_windows(im, node, tensor, pool.kernel, pool.stride, pads)
    zero = im.scalar(value.zero_point, im.dtype(value)) if kind == "AVG_POOL2D" else ""
    attributes = {"kernel": pool.kernel, "stride": pool.stride, "pad": pad}
    out = im.op(node, kind, [tensor, zero, zero] if zero else [tensor], attributes)
    return _image_value(im, value, out, to or shape(node))


def _image_value(im: Importer, value: Value, tensor: str, size: Sequence[int]) -> Value:
    """An NHWC result of the same scale."""
    layout = Layout.of(size, (0, *range(2, len(size)), 1))
    return replace(value, tensor=im.reshaped(tensor, layout.memory_shape), layout=layout)


def _narrow(im: Importer, source: Node) -> Value:
    """int8 or int16 with one scale."""
    value = im.value(source)
    return im.int16(source) if value.channelwise or im.dtype(value) == "int32" else value


def max_pool(im: Importer, node: Node, plan: Plan) -> Value:
    pool = _pool(arguments(plan.source))
    return _pooled(im, node, _narrow(im, plan.reads[0]), "MAX_POOL2D", pool)


def avg_pool(im: Importer, node: Node, plan: Plan) -> Value:
    given = arguments(plan.source)
    if im.formats.is_summed(node):
        return _summed(im, node, im.convolved(plan.reads[0]), _pool(given))
    value, pool = _averaged(im, node, plan.reads[0]), _pool(given)
    if given["count_include_pad"] and any(pool.padding):
        rows, columns = ((p, p) for p in pool.padding)
        value = padded(im, node, value, [(0, 0), (0, 0), rows, columns], 0.0)
        pool = replace(pool, padding=(0, 0))
    return _average(im, node, value, pool)


def adaptive_average(im: Importer, node: Node, plan: Plan) -> Value:
    value = _averaged(im, node, plan.reads[0])
    out = shape(node)[2:]
    kernel = (value.shape[2] // out[0], value.shape[3] // out[1])
    return _average(im, node, value, _Pool(kernel=kernel, stride=kernel))


def _summed(im: Importer, node: Node, value: Value, pool: _Pool) -> Value:
    """DEPTHWISE_CONV2D of int8 with weights of 1: sums of windows that have all their pixels."""
    tensor, _ = image(im, value)
    pads = pool_pads(value.shape[2:], pool.kernel, pool.stride, pool.padding, pool.ceil)
    tensor, pad = exact_windows(im, node, tensor, pool.kernel, pool.stride, pads)
    channels, taps = value.shape[1], math.prod(pool.kernel)
    ones = np.ones((*pool.kernel, channels, 1))
    steps = np.full(channels, value.step / taps)
    windows = {"pad": pad, "stride": pool.stride, "dilation": (1, 1)}
    kind = "DEPTHWISE_CONV2D"
    out = conv(im, node, kind, tensor, ones, steps, None, windows, value.zero_point)
    sums = _image_value(im, value, out, shape(node))
    return im.finish(node, replace(sums, scale=value.step / taps, zero_point=0))


def _averaged(im: Importer, node: Node, source: Node) -> Value:
    """The operand of an average: of 16 bits where a quantized graph rounds the result to another
    grid, so that AVG_POOL2D does not round it to the grid of its operand before.
    """
    return im.int16(source) if changes_grid(im, node, source) else im.narrow_or_wide(source)


def _average(im: Importer, node: Node, value: Value, pool: _Pool) -> Value:
    """AVG_POOL2D: of rows, and then of columns, where the sum of a window might not fit in int32.

    The part of a window that lies in the image is a rectangle, whose mean is that of its rows'.
    """
    if im.dtype(value) == "int32":
        value = im.convert(value, im.formats.wide(node), node.name)
    (rows, columns), most = pool.kernel, SUMMANDS if im.dtype(value) == "int16" else SUMMANDS << 7
    if rows * columns <= most:
        return _pooled(im, node, value, "AVG_POOL2D", pool)
    im.require(
        max(rows, columns) <= most,
        node,
        f"the average of {rows}×{columns} values: at most {most:,} of a row or a column",
        "average parts of it first",
    )
    tall = (*shape(node)[:3], value.shape[3])
    value = _pooled(im, node, value, "AVG_POOL2D", pool.down(), tall)
    return _pooled(im, node, value, "AVG_POOL2D", pool.across())


def pooled_mean(im: Importer, node: Node, value: Value) -> Value:
    """The mean over height and width of int8 or int16."""
    n, c, h, w = value.shape
    mean = _pooled(im, node, value, "AVG_POOL2D", _Pool(kernel=(h, w), stride=(1, 1)), (n, c, 1, 1))
    layout = mean.layout.reshape(shape(node))
    assert layout is not None  # only dimensions of size 1 go
    return replace(mean, layout=layout)


# Padding ------------------------------------------------------------------------------------------


def padded(
    im: Importer, node: Node, value: Value, pads: Sequence[tuple[int, int]], real: float
) -> Value:
    """PAD by (before, behind) of each logical dimension with `real`, as near as the type has it."""
    axes = value.layout.own_axes
    value = im.ordered(value, axes)
    dtype = im.dtype(value)
    limits = np.iinfo("int8" if dtype == "bool" else dtype)
    fill = np.clip(np.rint(real / value.step) + value.zero_point, limits.min, limits.max)
    flat = [p for a in axes for p in pads[a]]
    operands = [
        value.tensor,
        im.graph.add_constant(f"{node.name}_padding", flat, "shape"),
        im.scalar(int(fill), dtype),
    ]
    out = im.op(node, "PAD", operands)
    size = [s + sum(p) for s, p in zip(value.shape, pads, strict=True)]
    return replace(value, tensor=out, layout=Layout.of(size, axes))


def constant_pad(im: Importer, node: Node, plan: Plan) -> Value:
    """From the last dimension on, (before, behind); negative padding cuts."""
    value = im.value(plan.reads[0])
    given = arguments(plan.source)
    fill, flat = float(given["value"] or 0), given["pad"]
    if value.channelwise or (fill and im.formats.magnitude(plan.reads[0]) < abs(fill)):
        value = im.convert(value, im.formats.wide(node), node.name)
    pairs = [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]
    pads = [(0, 0)] * (len(value.shape) - len(pairs)) + pairs[::-1]
    value = cut(im, node, value, [(max(-a, 0), max(-b, 0)) for a, b in pads])
    pads = [(max(a, 0), max(b, 0)) for a, b in pads]
    return padded(im, node, value, pads, fill) if any(map(any, pads)) else value


def cut(im: Importer, node: Node, value: Value, ends: Sequence[tuple[int, int]]) -> Value:
    """SLICE without (before, behind) elements of each logical dimension."""
    if not any(map(any, ends)):
        return value
    axes = value.layout.own_axes
    value = im.ordered(value, axes)
    size = [s - sum(e) for s, e in zip(value.shape, ends, strict=True)]
    begin, extent = [ends[a][0] for a in axes], [size[a] for a in axes]
    out = im.slice(node, value.tensor, begin, extent, name=f"{node.name}_cut")
    return replace(value, tensor=out, layout=Layout.of(size, axes))


# Resizing -----------------------------------------------------------------------------------------


def nearest(im: Importer, node: Node, plan: Plan) -> Value:
    """RESIZE NEAREST."""
    value = _narrow(im, plan.reads[0])
    tensor, _ = image(im, value)
    out, _ = _resize(im, node, tensor, "NEAREST")
    return _image_value(im, value, out, shape(node))


def _resize(im: Importer, node: Node, tensor: str, mode: str) -> tuple[str, int]:
    """(result, sum of the weights of its neighbours) of RESIZE."""
    steps, one = resize_steps(node), ResizeStep(numerator=1, denominator=1, offset=0)
    steps = [one, *steps] if len(steps) == 1 else steps
    sizes = im.graph.tensors[tensor].shape[1:3]
    outs = (1, *shape(node)[2:])[-2:]
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
    value = replace(value, scale=value.step / weight)
    result = _image_value(im, value, out, shape(node))
    return im.finish(node, result)

"""Pools and means over height and width; windows that fit exactly, as TOSA wants them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.fx import Node

from sw.compiler.aten.arguments import NHWC, args, argument, one_scale, out_shape, pair
from sw.compiler.aten.moves import padded
from sw.compiler.frontend import Importer, Item, Value
from sw.compiler.layout import Layout


def exact_windows(
    im: Importer,
    node: Node,
    tensor: str,
    reach: Sequence[int],
    stride: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
) -> tuple[str, tuple[int, int, int, int]]:
    """Make windows fit exactly, as TOSA wants: less padding at the end, or a SLICE of the input."""
    shape = list(im.graph.tensors[tensor].shape)
    size, last = shape[:], list(end)
    for i in range(2):
        rest = (shape[1 + i] + begin[i] + end[i] - reach[i]) % stride[i]
        last[i] = max(0, end[i] - rest)
        size[1 + i] -= rest - (end[i] - last[i])
    if size != shape:
        start = im.graph.add_constant(f"{node.name}_start", [0] * 4, "shape")
        extent = im.graph.add_constant(f"{node.name}_size", size, "shape")
        old = im.graph.tensors[tensor]
        tensor = im.op(
            node,
            "SLICE",
            [tensor, start, extent],
            name=f"{node.name}_slice",
            scale=old.scale,
            zero_point=old.zero_point,
        )
    return tensor, (begin[0], last[0], begin[1], last[1])


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


def max_pool2d(im: Importer, node: Node) -> Item:
    kernel = pair(args(node)[1])
    stride = pair(argument(node, 2, "stride") or kernel)
    padding = pair(argument(node, 3, "padding", 0))
    dilation = pair(argument(node, 4, "dilation", 1))
    im.require(dilation == (1, 1), node, f"max pool with dilation {dilation} is not supported")
    x = im.ordered(node, im.int8(node, args(node)[0]), NHWC)
    end = _pool_ends(im, node, x, kernel, stride, padding, argument(node, 5, "ceil_mode", False))
    tensor, pad = exact_windows(im, node, x.tensor, kernel, stride, padding, end)
    out = im.op(
        node,
        "MAX_POOL2D",
        [tensor],
        {"kernel": kernel, "stride": stride, "pad": pad},
        scale=one_scale(x),
        zero_point=x.zero_point,
    )
    shape = node.meta["val"][0].shape if _has_indices(node) else out_shape(node)
    value = replace(x, tensor=out, layout=Layout.of(tuple(shape), NHWC))
    return (value, None) if _has_indices(node) else value


def _has_indices(node: Node) -> bool:
    return "with_indices" in str(node.target)


def avg_pool2d(im: Importer, node: Node) -> Item:
    kernel = pair(args(node)[1])
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
    x = im.ordered(node, im.int8(node, args(node)[0]), NHWC)
    if include and any(padding):
        x = padded(im, node, x, [(0, 0), (padding[0],) * 2, (padding[1],) * 2, (0, 0)], 0.0)
        padding = (0, 0)
    return _average(im, node, x, kernel, stride, padding, out_shape(node))


def adaptive_avg_pool2d(im: Importer, node: Node) -> Item:
    x = im.ordered(node, im.int8(node, args(node)[0]), NHWC)
    size, out = x.shape[2:], out_shape(node)[2:]
    im.require(
        not any(s % o for s, o in zip(size, out, strict=True)),
        node,
        f"adaptive average pool from {list(size)} to {list(out)}: sizes must divide evenly",
    )
    kernel = (size[0] // out[0], size[1] // out[1])
    return _average(im, node, x, kernel, kernel, (0, 0), out_shape(node))


def mean(im: Importer, node: Node) -> Item:
    x = im.int8(node, args(node)[0])
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
    layout = mean.layout.reshape(out_shape(node))
    assert layout is not None  # only dimensions of size 1 go
    return replace(mean, layout=layout)


def _average(
    im: Importer, node: Node, x: Value, kernel: Any, stride: Any, padding: Any, shape: Any
) -> Value:
    tensor, pad = exact_windows(im, node, x.tensor, kernel, stride, padding, padding)
    zero = im.scalar(x.zero_point, "int8")
    attributes = {"kernel": kernel, "stride": stride, "pad": pad}
    out = im.op(
        node,
        "AVG_POOL2D",
        [tensor, zero, zero],
        attributes,
        scale=one_scale(x),
        zero_point=x.zero_point,
    )
    return replace(x, tensor=out, layout=Layout.of(tuple(shape), NHWC))

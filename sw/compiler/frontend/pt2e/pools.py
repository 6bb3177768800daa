"""Pools and means over height and width."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.fx import Node

from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.pt2e.arguments import NHWC, args, argument, one_scale, out_shape, pair
from sw.compiler.frontend.pt2e.importer import Importer, Item, Value
from sw.compiler.frontend.pt2e.moves import padded
from sw.compiler.frontend.windows import Pads, fit_windows, pool_pads


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
        old = im.graph.tensors[tensor]
        tensor = im.op(
            node,
            "SLICE",
            [tensor, start, extent],
            name=f"{node.name}_slice",
            scale=old.scale,
            zero_point=old.zero_point,
        )
    return tensor, pad


def max_pool2d(im: Importer, node: Node) -> Item:
    kernel = pair(args(node)[1])
    stride = pair(argument(node, 2, "stride") or kernel)
    padding = pair(argument(node, 3, "padding", 0))
    dilation = pair(argument(node, 4, "dilation", 1))
    im.require(dilation == (1, 1), node, f"max pool with dilation {dilation} is not supported")
    x = im.ordered(node, im.int8(node, args(node)[0]), NHWC)
    pads = pool_pads(x.shape[2:], kernel, stride, padding, argument(node, 5, "ceil_mode", False))
    tensor, pad = exact_windows(im, node, x.tensor, kernel, stride, pads)
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
    pads = pool_pads(x.shape[2:], kernel, stride, padding, ceil=False)
    tensor, pad = exact_windows(im, node, x.tensor, kernel, stride, pads)
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

"""Sums, bounds and scalings."""

import math
from dataclasses import replace
from typing import Any

from torch.fx import Node

from sw.compiler.aten.arguments import NHWC, Handler, args, argument
from sw.compiler.frontend import Importer, Item, Value

ADD_HEADROOM = 20


def add_or_sub(im: Importer, node: Node) -> Item:
    """Both operands RESCALEd to one int32 scale fine enough that PT2E's rounding shows no more."""
    im.require(
        argument(node, 2, "alpha", 1) == 1, node, "add with alpha≠1", "multiply the operand first"
    )
    for operand in args(node)[:2]:
        im.require(
            isinstance(operand, Node),
            node,
            f"{node.target} with the number {operand!r}",
            "add it to the bias of the layer before",
        )
    a, b = (im.int8(node, operand) for operand in args(node)[:2])
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


def bounded(low: float | None, high: float | None) -> Handler:
    return lambda im, node: _bound(im, node, low, high)


def clamp(im: Importer, node: Node) -> Item:
    return _bound(im, node, argument(node, 1, "min"), argument(node, 2, "max"))


def clamp_max(im: Importer, node: Node) -> Item:
    return _bound(im, node, None, argument(node, 1, "max"))


def hardtanh(im: Importer, node: Node) -> Item:
    return _bound(im, node, argument(node, 1, "min_val", -1.0), argument(node, 2, "max_val", 1.0))


def _bound(im: Importer, node: Node, low: Any, high: Any) -> Item:
    """Remember the bounds: the quantize node behind them makes a CLAMP."""
    value = im.value(node, args(node)[0])
    low = -math.inf if low is None else float(low)
    high = math.inf if high is None else float(high)
    im.require(low <= high, node, f"bounds {low}…{high} are the wrong way round")
    bounds = [min(max(b, low), high) for b in (value.low, value.high)]
    return replace(value, low=bounds[0], high=bounds[1])


def mul_or_div(im: Importer, node: Node) -> Item:
    """Multiplication or division by a positive number: only the scale changes."""
    factor = args(node)[1]
    good = isinstance(factor, int | float) and factor > 0
    im.require(
        good, node, f"{node.target} by {factor!r}: only by a positive number", "use a linear layer"
    )
    value = im.value(node, args(node)[0])
    by = float(factor) if "mul" in str(node.target) else 1.0 / float(factor)
    return replace(value, scale=value.scale * by, low=value.low * by, high=value.high * by)

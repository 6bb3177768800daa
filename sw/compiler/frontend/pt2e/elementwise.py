"""Sums, bounds and scalings."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from sw.compiler.frontend.pt2e.arguments import NHWC, Handler, args, argument, one_scale
from sw.compiler.frontend.pt2e.importer import Importer, Item, Value, qd

aten = torch.ops.aten

_PRODUCTS = (
    aten.conv2d.default,
    aten.conv2d.padding,
    aten.convolution.default,
    aten.linear.default,
)
_BOUNDS = (
    aten.relu.default,
    aten.relu6.default,
    aten.hardtanh.default,
    aten.clamp.default,
    aten.clamp_min.default,
    aten.clamp_max.default,
)
_BETWEEN = (
    qd.quantize_per_tensor.default,
    qd.dequantize_per_tensor.default,
    aten.mul.Tensor,
    aten.div.Tensor,
    aten.dropout.default,
    *_BOUNDS,
)

SUM_SHIFT = 20
"""Largest left shift of the exact operand: steps of 2^-20 of its scale, so that no rounding of the
other operand shows.
"""

SUM_BITS = 30
"""Bits of the rescaled operand's magnitude: the sum fits in int32 and its RESCALE in 64 bits."""


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
    step = _sum_step(im, node, a, b)
    wide = [
        im.rescale(
            node,
            v.tensor,
            one_scale(v) / step,
            v.zero_point,
            0,
            "int32",
            name=f"{node.name}_in{i}",
        )
        for i, v in enumerate((a, b))
    ]
    kind = "SUB" if "sub" in str(node.target) else "ADD"
    return Value(tensor=im.op(node, kind, wide), layout=a.layout, scale=step)


def _sum_step(im: Importer, node: Node, a: Value, b: Value) -> float:
    """What one step of the int32 sum stands for: one operand's scale over a power of two.

    That operand's RESCALE is then an exact left shift, so that the sum can follow a convolution in
    its epilogue. It is the later of the operands that a convolution makes for this sum alone, else
    the one with the larger scale. The other operand stays below 2^SUM_BITS.
    """
    exact, other = sorted((a, b), key=one_scale, reverse=True)
    made = [_convolution_of(im, node, operand) for operand in args(node)[:2]]
    if any(at >= 0 for at in made):
        exact, other = (a, b) if made[0] > made[1] else (b, a)
    ratio = one_scale(other) / one_scale(exact)
    # 256, not 255: TOSA wants |value| < 2^(shift − 1), and shift is 9 where the result has 30 bits.
    room = math.ceil(math.log2((1 << SUM_BITS) / (256 * ratio))) - 1
    im.require(
        room >= 0,
        node,
        f"the scales of the operands, {a.scale:g} and {b.scale:g}, differ too much",
        "calibrate on representative data",
    )
    return one_scale(exact) / (1 << min(room, SUM_SHIFT))


def _convolution_of(im: Importer, node: Node, operand: Node) -> int:
    """Position in the graph of the convolution or linear layer whose result is this operand and
    nothing else's; −1 where there is none. What may lie between them costs no operator.
    """
    at: Any = operand
    while isinstance(at, Node) and len(at.users) == 1:
        if at.target in _PRODUCTS:
            return im.order[at]
        if at.target not in _BETWEEN:
            return -1
        at = at.args[0]
    return -1


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

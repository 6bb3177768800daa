"""Quantize nodes of a quantized graph, and sums of values on its grids."""

import math
from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from sw.compiler.frontend.building import Value
from sw.compiler.frontend.importer import Importer
from sw.compiler.frontend.nodes import node_argument, shape
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.rules.broadcast import joined

SUM_SHIFT = 20
"""Largest left shift of the exact operand: steps of 2^-20 of its scale, so that no rounding of the
other operand shows.
"""

SUM_BITS = 30
"""Bits of the rescaled operand's magnitude: the sum fits in int32 and its RESCALE in 64 bits."""

_PRODUCTS = ("convolution", "linear")
_BETWEEN = ("quantize", "same", "scale", "bounded")


def quantize(im: Importer, node: Node, plan: Plan) -> Value:
    """RESCALE where scale, zero point or type differ; CLAMP where the grid is narrower than int8.

    Two int8 scales that are so close that the RESCALE would give every value back count as one: 255
    steps then are less than half a step apart.
    """
    (source,) = plan.reads
    grid = im.planner.grids[node]
    value = im.value(source)
    close = not value.channelwise and 255 * abs(float(value.scale) / grid.scale - 1) < 0.5
    alike = close and im.dtype(value) == "int8" and value.zero_point == grid.zero_point
    if not alike:
        value = im.convert(value, grid.format, source.name)
    if (grid.low, grid.high) != (-128, 127) and not _clamped(im, value, grid.low, grid.high):
        bounds = {"min_val": grid.low, "max_val": grid.high}
        tensor = im.op(node, "CLAMP", [value.tensor], bounds)
        value = Value.of(tensor, value.layout, grid.format)
    return value


def _clamped(im: Importer, value: Value, low: int, high: int) -> bool:
    """Whether the operator that makes `value` bounds it already."""
    producer = im.graph.producers().get(value.tensor)
    if producer is None or producer.kind != "CLAMP":
        return False
    return bool(producer.attributes["min_val"] >= low and producer.attributes["max_val"] <= high)


def is_quantized_sum(im: Importer, node: Node) -> bool:
    """Whether both operands of a sum lie on grids, so that an exact common scale exists."""
    operands = node.args[:2]
    return all(
        isinstance(o, Node) and im.constant(o) is None and im.planner.grid_behind(o) is not None
        for o in operands
    )


def quantized_sum(im: Importer, node: Node, kind: str) -> Value:
    """Both operands RESCALEd to one int32 scale so fine that rounding shows no more."""
    first, second = node.args[:2]
    assert isinstance(first, Node) and isinstance(second, Node)
    values = [im.value(first), im.value(second)]
    step = _sum_step(im, node, (first, second), values)
    wide = [
        Value(
            tensor=im.rescale(
                v.tensor,
                float(v.scale) / step,
                "int32",
                input_zp=v.zero_point,
                name=f"{node.name}_in{i}",
            ),
            layout=v.layout,
            scale=step,
        )
        for i, v in enumerate(values)
    ]
    return im.finish(node, joined(im, node, kind, wide, step))


def _sum_step(im: Importer, node: Node, operands: Sequence[Node], values: Sequence[Value]) -> float:
    """What one step of the int32 sum stands for: one operand's scale over a power of two.

    That operand's RESCALE is then an exact left shift, so that the sum can follow a convolution in
    its epilogue. It is the operand that a product makes for this sum alone. Of two products it is
    the one with the longer reduction, whose time hides the sum's, and of equal ones the later one.
    Without a product it is the operand with the larger scale. The other operand stays below
    2^SUM_BITS.
    """
    scales = [float(v.scale) for v in values]
    exact, other = max(scales), min(scales)
    made = [_product_behind(im, operand) for operand in operands]
    if any(made):
        exact, other = scales if (made[0] or (0, 0)) > (made[1] or (0, 0)) else scales[::-1]
    ratio = other / exact
    # 256, not 255: TOSA wants |value| < 2^(shift − 1), and shift is 9 where the result has 30 bits.
    room = math.ceil(math.log2((1 << SUM_BITS) / (256 * ratio))) - 1
    im.require(
        room >= 0,
        node,
        f"the scales of the operands, {scales[0]:g} and {scales[1]:g}, differ too much",
        "calibrate on representative data",
    )
    return exact / (1 << min(room, SUM_SHIFT))


def _product_behind(im: Importer, operand: Node) -> tuple[int, int] | None:
    """The convolution or linear layer whose result is this operand and nothing else's: how many
    products it sums for each element, and its position in the graph. What may lie between them
    costs no operator.
    """
    at: Any = operand
    while len(im.planner.readers.get(at, ())) == 1 and at in im.planner.plans:
        plan = im.planner.plans[at]
        if plan.rule in _PRODUCTS:
            return _reduction(plan.source), im.order[at]
        if plan.rule not in _BETWEEN:
            return None
        (at,) = plan.reads
    return None


def _reduction(product: Node) -> int:
    """Products that a convolution or a linear layer sums for each element of its result."""
    weights = shape(node_argument(product, 1))
    return math.prod(weights) // shape(product)[1 - len(weights)]

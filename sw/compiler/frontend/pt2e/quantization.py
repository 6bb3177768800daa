"""PT2E's quantize and dequantize nodes: where values become int8."""

from dataclasses import replace

import numpy as np
from torch.fx import Node

from sw.compiler.frontend.ports import ModelPort
from sw.compiler.frontend.pt2e.arguments import args, argument
from sw.compiler.frontend.pt2e.importer import Constant, Importer, Input, Item, Value


def quantize(im: Importer, node: Node) -> Item:
    x, scale, zero_point, low, high = (argument(node, i, "") for i in range(5))
    item = im.env.get(x)
    if isinstance(item, Constant):
        q = np.clip(np.rint(item.real / scale) + zero_point, low, high).astype(np.int64)
        return Constant(
            real=(q - zero_point) * scale, integers=q, scale=float(scale), zero_point=zero_point
        )
    im.require(
        (-128 <= low <= high <= 127) and str(args(node)[5]) == "torch.int8",
        node,
        f"activations of type {args(node)[5]} in {low}…{high}: only int8 is supported",
    )
    value = im.port(item, scale, zero_point) if isinstance(item, Input) else im.value(node, x)
    result = _to_int8(im, node, value, float(scale), int(zero_point), int(low), int(high))
    im.quantized[node.name] = ModelPort(
        name=result.tensor, layout=result.layout, scale=float(scale), zero_point=int(zero_point)
    )
    return result


def _to_int8(
    im: Importer, node: Node, value: Value, scale: float, zero_point: int, low: int, high: int
) -> Value:
    """RESCALE where scale, zero point or type differ; CLAMP where bounds are tighter than int8."""
    source = im.graph.tensors[value.tensor]
    tensor, name = value.tensor, args(node)[0].name
    ratio = value.scale / scale
    # Scales so close that the RESCALE would give every int8 back: at most 255 steps, under 1/2 off.
    same = not isinstance(ratio, np.ndarray) and 255 * abs(ratio - 1) < 0.5
    if not (same and value.zero_point == zero_point and source.dtype == "int8"):
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


def dequantize(im: Importer, node: Node) -> Item:
    item = im.env.get(args(node)[0])
    if isinstance(item, Constant) and item.integers is not None and not item.scale:
        scale, zero_point = float(args(node)[1]), int(args(node)[2])
        real = (item.integers - zero_point) * scale
        return replace(item, real=real, scale=scale, zero_point=zero_point)
    return item


def dequantize_channels(im: Importer, node: Node) -> Item:
    item = im.constant(node, args(node)[0])
    scales = im.constant(node, args(node)[1]).real
    zeros = im.constant(node, args(node)[2]) if args(node)[2] is not None else None
    axis = int(args(node)[3])
    im.require(item.integers is not None, node, "per-channel quantization of a float tensor")
    im.require(zeros is None or not zeros.real.any(), node, "per-channel weights must be symmetric")
    assert item.integers is not None
    shape = [-1 if i == axis else 1 for i in range(item.integers.ndim)]
    return replace(item, real=item.integers * scales.reshape(shape), scale=scales, axis=axis)

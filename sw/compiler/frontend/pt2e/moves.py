"""Operators that move or select values: most of them only change the layout."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.fx import Node

from sw.compiler.frontend.layout import Layout
from sw.compiler.frontend.pt2e.arguments import NHWC, args, argument, one_scale, out_shape
from sw.compiler.frontend.pt2e.importer import Constant, Importer, Item, Value


def pad(im: Importer, node: Node) -> Item:
    mode = argument(node, 2, "mode", "constant") if "constant" not in str(node.target) else ""
    im.require(mode in ("", "constant"), node, f"padding mode {mode!r}: only constant padding")
    fill = argument(node, 2 if mode == "" else 3, "value") or 0.0
    x = im.int8(node, args(node)[0])
    flat = list(args(node)[1])
    rank = len(x.shape)
    pads = [(0, 0)] * (rank - len(flat) // 2)
    pads += [(flat[i], flat[i + 1]) for i in range(len(flat) - 2, -1, -2)]
    axes = NHWC if im.spatial and rank == 4 else tuple(range(rank))
    x = im.ordered(node, x, axes)
    x = _cut(im, node, x, axes, pads)
    return padded(im, node, x, [tuple(max(0, p) for p in pads[a]) for a in axes], float(fill))


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
        node,
        "SLICE",
        operands,
        name=f"{node.name}_slice",
        scale=one_scale(x),
        zero_point=x.zero_point,
    )
    shape = [size[list(axes).index(i)] for i in range(len(axes))]
    return replace(x, tensor=tensor, layout=Layout.of(shape, axes))


def padded(im: Importer, node: Node, x: Value, memory_pads: Any, fill: float) -> Value:
    """PAD in memory order with the integer that stands for `fill`."""
    if not any(p for ends in memory_pads for p in ends):
        return x
    quantized = round(fill / one_scale(x)) + x.zero_point
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
        node, "PAD", operands, name=f"{node.name}_pad", scale=one_scale(x), zero_point=x.zero_point
    )
    axes = x.layout.order
    memory = im.graph.tensors[tensor].shape
    shape = [memory[axes.index(i)] for i in range(len(axes))]
    return replace(x, tensor=tensor, layout=Layout.of(shape, axes))


def slice_(im: Importer, node: Node) -> Item:
    x = im.int8(node, args(node)[0])
    axis = argument(node, 1, "dim", 0) % len(x.shape)
    step = argument(node, 4, "step", 1)
    im.require(step == 1, node, f"slice with step {step} is not supported")
    length, wanted = x.shape[axis], out_shape(node)[axis]
    begin = argument(node, 2, "start", 0) or 0
    begin = min(max(begin + length if begin < 0 else begin, 0), length)
    if wanted == length:
        return x
    axes = NHWC if im.spatial and len(x.shape) == 4 else tuple(range(len(x.shape)))
    x = im.ordered(node, x, axes)
    start, size = [0] * len(axes), [x.shape[a] for a in axes]
    start[axes.index(axis)], size[axes.index(axis)] = begin, wanted
    return _sliced(im, node, x, axes, start, size)


def same(im: Importer, node: Node) -> Item:
    return im.env[args(node)[0]]


def dropout(im: Importer, node: Node) -> Item:
    training = bool(argument(node, 2, "train", False))
    im.require(not training, node, "dropout in training mode", "call .eval() before exporting")
    return same(im, node)


def reshape(im: Importer, node: Node) -> Item:
    """Any view: the output shape says it all."""
    item = im.env.get(args(node)[0])
    if isinstance(item, Constant):
        im.require(item.axis < 0, node, "reshape of per-channel parameters")
        shape = out_shape(node)
        ints = None if item.integers is None else item.integers.reshape(shape)
        return replace(item, real=item.real.reshape(shape), integers=ints)
    value = im.value(node, args(node)[0])
    layout = value.layout.reshape(out_shape(node))
    if layout is None:
        value = im.ordered(node, value, range(len(value.shape)))
        layout = Layout.of((math.prod(value.shape),)).reshape(out_shape(node))
        assert layout is not None
    return replace(value, layout=layout)


def permute(im: Importer, node: Node) -> Item:
    return _permuted(im, node, list(args(node)[1]))


def transpose(im: Importer, node: Node) -> Item:
    rank = len(out_shape(node))
    perm = list(range(rank))
    a, b = (0, 1) if len(node.args) == 1 else (args(node)[1] % rank, args(node)[2] % rank)
    if rank > 1:
        perm[a], perm[b] = perm[b], perm[a]
    return _permuted(im, node, perm)


def _permuted(im: Importer, node: Node, perm: list[int]) -> Item:
    item = im.env.get(args(node)[0])
    perm = [p % len(perm) for p in perm]
    if isinstance(item, Constant):
        ints = None if item.integers is None else item.integers.transpose(perm)
        axis = perm.index(item.axis) if item.axis >= 0 else -1
        return replace(item, real=item.real.transpose(perm), integers=ints, axis=axis)
    value = im.value(node, args(node)[0])
    return replace(value, layout=value.layout.permute(perm))


def getitem(im: Importer, node: Node) -> Item:
    item = im.env[args(node)[0]]
    part = item[args(node)[1]] if isinstance(item, tuple) else None
    im.require(
        part is not None or not node.users,
        node,
        f"result {args(node)[1]} of {args(node)[0]} is not available (max pool indices?)",
        "use only the first result",
    )
    return part

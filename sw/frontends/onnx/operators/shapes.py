"""Shapes: views, parts, joins, padding, and tensors made from shapes."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import SHAPE, op
from sw.frontends.onnx.types import dtype_of


def _reshape(node: Node, x: T, shape: Any) -> T:
    sizes = shape.tolist()
    if not node.only("allowzero", 0, 1):
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return x.reshape(sizes)


def _flatten(node: Node, x: T) -> T:
    axis = node.get("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    if axis == 1 and x.dim() > 1:
        return torch.flatten(x, 1)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _transpose(node: Node, x: T) -> T:
    return x.permute(node.get("perm", list(range(x.dim()))[::-1]))


def _squeeze(node: Node, x: T, axes: Any = None) -> T:
    if axes is None:
        return x.squeeze()
    for axis in axes.reshape(-1).tolist():
        if x.shape[axis] != 1:
            raise refused(f"axis {axis} of {list(x.shape)} is not of size 1", "mend the model")
    return x.squeeze(axes.reshape(-1).tolist())


def _unsqueeze(node: Node, x: T, axes: Any) -> T:
    given = axes.reshape(-1).tolist()
    for axis in sorted(a % (x.dim() + len(given)) for a in given):
        x = x.unsqueeze(axis)
    return x


def _concat(node: Node, *xs: T) -> T:
    return torch.cat(xs, node.get("axis"))


def _split(node: Node, x: T, sizes: Any = None) -> tuple[T, ...]:
    axis, count = node.get("axis", 0), node.get("num_outputs", len(node.outputs))
    if sizes is None:
        return torch.split(x, -(-x.shape[axis] // count), axis)
    parts = sizes.tolist()
    if all(parts):
        return torch.split(x, parts, axis)
    return tuple(x.narrow(axis, sum(parts[:i]), size) for i, size in enumerate(parts))


def _slice(node: Node, x: T, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> T:
    each = zip(
        starts.tolist(),
        ends.tolist(),
        range(len(starts)) if axes is None else axes.tolist(),
        [1] * len(starts) if steps is None else steps.tolist(),
        strict=True,
    )
    for start, end, axis, step in each:
        first, last, stride = slice(start, end, step).indices(x.shape[axis])
        if step < 0:
            count = max(0, -(-(first - last) // -step))
            x = x.flip([axis])
            first = x.shape[axis] - 1 - first
            last, stride = first + (count - 1) * -step + 1 if count else first, -step
        at = [slice(None)] * (axis % x.dim()) + [slice(first, max(first, last), stride)]
        x = x[tuple(at)]
    return x


def _expand(node: Node, x: T, shape: Any) -> T:
    return x.expand(torch.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _tile(node: Node, x: T, repeats: Any) -> T:
    return x.repeat(repeats.tolist())


def _shape(node: Node, x: T) -> T:
    start, end = node.get("start", 0), node.get("end")
    return torch.tensor(list(x.shape)[slice(start, end)], dtype=torch.int64)


def _constant(node: Node) -> T:
    kinds = {
        "value_float": torch.float32,
        "value_floats": torch.float32,
        "value_int": torch.int64,
        "value_ints": torch.int64,
    }
    for name, dtype in kinds.items():
        if node.get(name) is not None:
            return torch.tensor(node.get(name), dtype=dtype)
    value = node.get("value")
    if not isinstance(value, T):
        raise refused("a constant that is no dense tensor of numbers", "store it as a tensor")
    return value


def _constant_of_shape(node: Node, shape: Any) -> T:
    value = node.get("value", torch.zeros(1))
    return value.reshape(()).expand(shape.tolist()).clone()


def _range(node: Node, start: Any, limit: Any, step: Any) -> T:
    dtype = torch.from_numpy(start).dtype
    return torch.arange(start.item(), limit.item(), step.item(), dtype=dtype)


def _eye_like(node: Node, x: T) -> T:
    number = node.get("dtype")
    at = torch.arange(x.shape[1]) - torch.arange(x.shape[0]).unsqueeze(1)
    return (at == node.get("k", 0)).to(x.dtype if number is None else dtype_of(number))


def _pad(node: Node, x: T, pads: Any, value: Any = None, axes: Any = None) -> T:
    mode = node.only("mode", "constant", "reflect", "edge", "wrap")
    given = list(range(x.dim())) if axes is None else [a % x.dim() for a in axes.tolist()]
    amounts = pads.tolist()
    for axis, begin, end in zip(given, amounts, amounts[len(given) :], strict=False):
        if mode == "constant":
            continue
        at = _positions(mode, x.shape[axis], begin, end)
        if at != list(range(x.shape[axis])):
            x = x.index_select(axis, torch.tensor(at))
    if mode != "constant":
        return x
    sides = [[0, 0] for _ in range(x.dim())]
    for i, axis in enumerate(given):
        sides[axis] = [amounts[i], amounts[i + len(given)]]
    flat = [side for pair in reversed(sides) for side in pair]
    return F.pad(x, flat, value=0 if value is None else value.item()) if any(flat) else x


def _positions(mode: str, size: int, begin: int, end: int) -> list[int]:
    """Where the elements of a padded axis come from."""
    at = range(-begin, size + end)
    if mode == "edge":
        return [min(max(i, 0), size - 1) for i in at]
    if mode == "wrap":
        return [i % size for i in at]
    period = max(1, 2 * (size - 1))
    return [min(i % period, period - i % period) if size > 1 else 0 for i in at]


def _depth_to_space(node: Node, x: T) -> T:
    block, mode = node.get("blocksize"), node.only("mode", "DCR", "CRD")
    if mode == "CRD":
        return F.pixel_shuffle(x, block)
    n, c, h, w = x.shape
    x = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // block**2, h * block, w * block)


def _space_to_depth(node: Node, x: T) -> T:
    block, mode = node.get("blocksize"), node.only("mode", "DCR", "CRD")
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // block, block, w // block, block)
    x = x.permute(0, 3, 5, 1, 2, 4) if mode == "DCR" else x.permute(0, 1, 3, 5, 2, 4)
    return x.reshape(n, c * block**2, h // block, w // block)


def _dropout(node: Node, x: T, ratio: Any = None, training: Any = None) -> Any:
    node.ignore("seed", "ratio")
    if training is not None and training.item():
        raise refused("training_mode is set: it drops at random", "export for inference")
    return (x, torch.ones_like(x, dtype=torch.bool)) if node.wants(1) else x


def _trilu(node: Node, x: T, k: Any = None) -> T:
    offset = 0 if k is None else int(k.item())
    return torch.triu(x, offset) if node.only("upper", 1, 0) else torch.tril(x, offset)


SHAPES = {
    "Reshape": op(_reshape, static=(1,)),
    "Flatten": op(_flatten),
    "Transpose": op(_transpose),
    "Squeeze": op(_squeeze, static=(1,)),
    "Unsqueeze": op(_unsqueeze, static=(1,)),
    "Concat": op(_concat),
    "Split": op(_split, static=(1,)),
    "Slice": op(_slice, static=(1, 2, 3, 4)),
    "Expand": op(_expand, static=(1,)),
    "Tile": op(_tile, static=(1,)),
    "Identity": op(lambda node, x: x),
    "Shape": op(_shape, constants=SHAPE),
    "Size": op(lambda node, x: torch.tensor(x.numel()), constants=SHAPE),
    "Constant": op(_constant),
    "ConstantOfShape": op(_constant_of_shape, static=(0,)),
    "Range": op(_range, static=(0, 1, 2)),
    "EyeLike": op(_eye_like, constants=SHAPE),
    "Pad": op(_pad, static=(1, 2, 3)),
    "DepthToSpace": op(_depth_to_space),
    "SpaceToDepth": op(_space_to_depth),
    "Dropout": op(_dropout, static=(1, 2)),
    "Trilu": op(_trilu, static=(1,)),
}

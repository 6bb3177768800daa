"""Sums, means, extremes, and the places of these."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sw.frontends.litert.call import Call, nhwc


def mean(call: Call, x: Tensor) -> Tensor:
    """Over height and width it is a pool, which the importer knows by [N, C, H, W].

    A pool's result has the grid of its operand; to another one it would be rounded twice.
    """
    axes = call.axes(1, x.dim())
    source = call.inputs[0]
    alike = source is not None and source.quantization == call.outputs[0].quantization
    if x.dim() == 4 and sorted(axes) == [1, 2] and alike:
        out = call.image(x).mean([2, 3], keepdim=True)
        return nhwc(out) if _keeps(call) else out.reshape(x.shape[0], x.shape[3])
    return x.mean(axes, keepdim=_keeps(call)) if axes else x


def total(call: Call, x: Tensor) -> Tensor:
    axes = call.axes(1, x.dim())
    return x.sum(axes, keepdim=_keeps(call), dtype=x.dtype) if axes else x


def reduce_max(call: Call, x: Tensor) -> Tensor:
    axes = call.axes(1, x.dim())
    return torch.amax(x, axes, keepdim=_keeps(call)) if axes else x


def reduce_min(call: Call, x: Tensor) -> Tensor:
    axes = call.axes(1, x.dim())
    return torch.amin(x, axes, keepdim=_keeps(call)) if axes else x


def reduce_prod(call: Call, x: Tensor) -> Tensor:
    return _one_by_one(call, x, lambda v, axis: torch.prod(v, axis, keepdim=True, dtype=v.dtype))


def reduce_any(call: Call, x: Tensor) -> Tensor:
    return _one_by_one(call, x, lambda v, axis: torch.any(v, axis, keepdim=True))


def reduce_all(call: Call, x: Tensor) -> Tensor:
    return _one_by_one(call, x, lambda v, axis: torch.all(v, axis, keepdim=True))


def _keeps(call: Call) -> bool:
    return bool(call.options.KeepDims())


def _one_by_one(call: Call, x: Tensor, reduced: Callable[[Tensor, int], Tensor]) -> Tensor:
    axes = sorted(set(call.axes(1, x.dim())))
    for axis in axes:
        x = reduced(x, axis)
    if not _keeps(call):
        for axis in reversed(axes):
            x = x.squeeze(axis)
    return x


def arg_max(call: Call, x: Tensor) -> Tensor:
    return torch.argmax(x, call.axes(1, x.dim())[0])


def arg_min(call: Call, x: Tensor) -> Tensor:
    return torch.argmin(x, call.axes(1, x.dim())[0])


def top_k(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    """(values, their places), of equal values those in front first."""
    found = torch.topk(x, call.ints(1)[0])
    return found.values, found.indices


def cumsum(call: Call, x: Tensor) -> Tensor:
    axis, o = call.axes(1, x.dim())[0], call.options
    x = x.flip(axis) if o.Reverse() else x
    out: Any = torch.cumsum(x, axis, dtype=x.dtype)
    out = out - x if o.Exclusive() else out
    return out.flip(axis) if o.Reverse() else out

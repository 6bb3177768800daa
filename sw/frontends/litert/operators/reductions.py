"""Sums, means, extremes, and the places of these."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sw.frontends.litert.call import Call, nhwc

Function = Callable[..., Any]


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


def extreme(function: Function) -> Function:
    """`amax` or `amin` of several dimensions."""

    def run(call: Call, x: Tensor) -> Any:
        axes = call.axes(1, x.dim())
        return function(x, axes, keepdim=_keeps(call)) if axes else x

    return run


def one_by_one(function: Function) -> Function:
    """A reduction that PyTorch has for one dimension at a time."""

    def run(call: Call, x: Tensor) -> Tensor:
        for axis in sorted(set(call.axes(1, x.dim())), reverse=True):
            x = function(x, axis, keepdim=_keeps(call))
        return x

    return run


def _keeps(call: Call) -> bool:
    return bool(call.options.KeepDims())


def place(function: Function) -> Function:
    """`argmax` or `argmin`."""
    return lambda call, x: function(x, call.axes(1, x.dim())[0])


def top_k(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    """(values, their places), of equal values those in front first."""
    found = torch.topk(x, call.ints(1)[0])
    return found.values, found.indices


def cumsum(call: Call, x: Tensor) -> Tensor:
    axis, o = call.axes(1, x.dim())[0], call.options
    x = x.flip(axis) if o.Reverse() else x
    out: Tensor = torch.cumsum(x, axis, dtype=x.dtype)
    out = out - x if o.Exclusive() else out
    return out.flip(axis) if o.Reverse() else out

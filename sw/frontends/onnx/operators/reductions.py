"""Reductions, sums along an axis, and what sorts."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op


def _reduction(function: Callable[[T, list[int], bool], T]) -> Any:
    """A row for a function of (values, axes, keep). The axes are an operand or an attribute."""

    def reduce(node: Node, x: T, axes: Any = None) -> T:
        given = node.get("axes") if axes is None else axes.tolist()
        keep = bool(node.only("keepdims", 1, 0))
        idle = node.only("noop_with_empty_axes", 0, 1)
        given = [given] if isinstance(given, int) else given
        # With no axis to reduce, each element is reduced alone: a norm still takes its magnitude.
        if not given and idle:
            return function(x.unsqueeze(-1), [-1], False)
        return function(x, [a % x.dim() for a in given or range(x.dim())], keep)

    return op(reduce, static=(1,))


def _typed(function: Callable[[T, list[int], bool], T]) -> Callable[[T, list[int], bool], T]:
    """The same with the type of its operand, which PyTorch widens or refuses for integers."""

    def reduce(x: T, axes: list[int], keep: bool) -> T:
        real = x if x.is_floating_point() else x.double()
        return function(real, axes, keep).to(x.dtype)

    return reduce


def _sum(x: T, axes: list[int], keep: bool) -> T:
    return x.sum(axes, keep, dtype=x.dtype) if axes else x


def _mean(x: T, axes: list[int], keep: bool) -> T:
    if x.dim() == 4 and sorted(axes) == [2, 3] and keep:  # what exports make of a pool
        return F.adaptive_avg_pool2d(x, 1)
    return x.mean(axes, keep) if axes else x


def _prod(x: T, axes: list[int], keep: bool) -> T:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keep, dtype=x.dtype)
    return x


def _bound(x: T, axes: list[int], keep: bool, largest: bool) -> T:
    if not axes:
        return x
    if math.prod(x.shape[a] for a in axes):
        return x.amax(axes, keep) if largest else x.amin(axes, keep)
    real = x.is_floating_point()
    least, most = (-math.inf, math.inf) if real else (_ends(x.dtype))
    return torch.full_like(x.sum(axes, keep), least if largest else most, dtype=x.dtype)


def _ends(dtype: torch.dtype) -> tuple[int, int]:
    return (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)


def _max(x: T, axes: list[int], keep: bool) -> T:
    return _bound(x, axes, keep, True)


def _min(x: T, axes: list[int], keep: bool) -> T:
    return _bound(x, axes, keep, False)


def _log_sum_exp(x: T, axes: list[int], keep: bool) -> T:
    return torch.logsumexp(x, axes, keep) if axes else x


def _arg(function: Callable[[T, int, bool], T]) -> Any:
    def arg(node: Node, x: T) -> T:
        axis, keep = node.get("axis", 0), bool(node.only("keepdims", 1, 0))
        if not node.only("select_last_index", 0, 1):
            return function(x, axis, keep)
        return x.shape[axis] - 1 - function(x.flip([axis]), axis, keep)

    return op(arg)


def _cumulative(function: Callable[[T, int], T], neutral: int) -> Any:
    def cumulative(node: Node, x: T, axis: Any) -> T:
        at = int(axis.item())
        turned = node.only("reverse", 0, 1)
        x = x.flip([at]) if turned else x
        y = function(x, at).to(x.dtype)
        if node.only("exclusive", 0, 1):
            first = torch.full_like(y.narrow(at, 0, 1), neutral)
            y = torch.cat([first, y.narrow(at, 0, y.shape[at] - 1)], at)
        return y.flip([at]) if turned else y

    return op(cumulative, static=(1,))


def _top_k(node: Node, x: T, k: Any) -> tuple[T, T]:
    largest = bool(node.only("largest", 1, 0))
    node.only("sorted", 1, 0)
    axis = node.get("axis", -1) % x.dim()
    if int(k.item()) > x.shape[axis]:
        raise refused(f"k of {k.item()}, of {x.shape[axis]} elements", "export with a smaller k")
    # Among equals the lower index comes first, which torch.topk does not promise.
    values, at = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, int(k.item())), at.narrow(axis, 0, int(k.item()))


REDUCTIONS = {
    "ReduceSum": _reduction(_sum),
    "ReduceMean": _reduction(_typed(_mean)),
    "ReduceProd": _reduction(_prod),
    "ReduceMax": _reduction(_max),
    "ReduceMin": _reduction(_min),
    "ReduceL1": _reduction(lambda x, axes, keep: _sum(x.abs(), axes, keep)),
    "ReduceL2": _reduction(_typed(lambda x, axes, keep: _sum(x * x, axes, keep).sqrt())),
    "ReduceLogSum": _reduction(_typed(lambda x, axes, keep: _sum(x, axes, keep).log())),
    "ReduceLogSumExp": _reduction(_typed(_log_sum_exp)),
    "ReduceSumSquare": _reduction(lambda x, axes, keep: _sum(x * x, axes, keep)),
    "ArgMax": _arg(torch.argmax),
    "ArgMin": _arg(torch.argmin),
    "CumSum": _cumulative(torch.cumsum, 0),
    "CumProd": _cumulative(torch.cumprod, 1),
    "TopK": op(_top_k, static=(1,)),
}

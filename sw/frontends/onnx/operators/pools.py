"""Pools, and windows laid back into an image."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op
from sw.frontends.onnx.operators.products import _CONV
from sw.frontends.onnx.operators.windows import Window, window_of

_MAX: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _window(node: Node, x: T) -> tuple[Window, bool]:
    if x.dim() - 2 not in _MAX:
        raise refused(f"a pool of rank {x.dim()}", "use inputs of rank 3, 4 or 5")
    return window_of(node, x.shape[2:], ()), bool(node.only("ceil_mode", 0, 1))


def _max_pool(node: Node, x: T) -> Any:
    window, ceil = _window(node, x)
    order = node.only("storage_order", 0, 1)
    real = x if x.is_floating_point() else x.float()
    padding: Any = window.begin
    rounding = window.rounding(x.shape[2:], ceil)
    if rounding is None:
        real = window.padded(real, -math.inf, window.beyond(x.shape[2:], ceil))
        padding = 0
    function = _MAX[x.dim() - 2]
    shape = (window.kernel, window.stride, padding, window.dilation, bool(rounding))
    if not node.wants(1):
        return function(real, *shape).to(x.dtype)
    if rounding is None or order:
        raise refused("indices of a MaxPool with uneven padding, or column by column")
    y, at = function(real, *shape, return_indices=True)
    planes = torch.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * (x.dim() - 2))
    return y.to(x.dtype), at + planes * math.prod(x.shape[2:])


def _average_pool(node: Node, x: T) -> T:
    window, ceil = _window(node, x)
    included = bool(node.only("count_include_pad", 0, 1))
    function, dense = _AVERAGE[x.dim() - 2], set(window.dilation) == {1}
    rounding = window.rounding(x.shape[2:], ceil)
    if dense and rounding is not None and (window.is_even or not included):
        return function(x, window.kernel, window.stride, window.begin, rounding, included)
    if dense and included and not ceil:
        return function(window.padded(x, 0.0), window.kernel, window.stride)
    return _sums(window, x, ceil) / _counts(window, x, ceil, included)


def _sums(window: Window, x: T, ceil: bool) -> T:
    """The sum of every window."""
    x = window.padded(x, 0.0, window.beyond(x.shape[2:], ceil))
    ones = torch.ones((x.shape[1], 1, *window.kernel), dtype=x.dtype)
    return _CONV[x.dim() - 2](x, ones, None, window.stride, 0, window.dilation, x.shape[1])


def _counts(window: Window, x: T, ceil: bool, included: bool) -> T:
    """How many elements of each window count: those of the input, of the padding if included."""
    inside = torch.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    inside = window.padded(inside, float(included))
    none = (0,) * len(window.kernel)
    beyond = window.beyond(x.shape[2:], ceil)
    sides = [side for b in reversed(beyond) for side in (0, b)]
    plain = Window(
        kernel=window.kernel, stride=window.stride, dilation=window.dilation, begin=none, end=none
    )
    return _sums(plain, F.pad(inside, sides), False)


def _lp_pool(node: Node, x: T) -> T:
    window, ceil = _window(node, x)
    p = node.get("p", 2)
    return _sums(window, x.abs() ** p, ceil) ** (1.0 / p)


def _spatial(x: T) -> list[int]:
    return list(range(2, x.dim()))


def _global_average(node: Node, x: T) -> T:
    return F.adaptive_avg_pool2d(x, 1) if x.dim() == 4 else x.mean(_spatial(x), keepdim=True)


def _global_lp(node: Node, x: T) -> T:
    p = node.get("p", 2)
    return (x.abs() ** p).sum(_spatial(x), keepdim=True) ** (1.0 / p)


def _col2im(node: Node, x: T, size: Any, block: Any) -> T:
    """Windows [N, C · taps, places] added up where they lie in images of `size`."""
    sizes, kernel = size.tolist(), block.tolist()
    if len(kernel) > 2:
        raise refused(f"windows of {len(kernel)} dimensions", "use one or two")
    window = window_of(node, sizes, kernel)
    whole = [n + b + e for n, b, e in zip(sizes, window.begin, window.end, strict=True)]
    ahead = [1] * (2 - len(kernel))
    whole, kernel, dilation, stride = (
        [*ahead, *each] for each in (whole, kernel, window.dilation, window.stride)
    )
    image = F.fold(x, whole, kernel, dilation, 0, stride)
    for axis, (begin, n) in enumerate(zip(window.begin, sizes, strict=True), 2 + len(ahead)):
        image = image.narrow(axis, begin, n)
    return image.squeeze(2) if ahead else image


POOLS = {
    "MaxPool": op(_max_pool),
    "AveragePool": op(_average_pool),
    "LpPool": op(_lp_pool),
    "GlobalAveragePool": op(_global_average),
    "GlobalMaxPool": op(lambda node, x: x.amax(_spatial(x), keepdim=True)),
    "GlobalLpPool": op(_global_lp),
    "Col2Im": op(_col2im, static=(1, 2)),
}

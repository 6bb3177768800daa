"""Convolutions and matrix products."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op
from sw.frontends.onnx.operators.windows import window_of

_CONV: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {
    1: F.conv_transpose1d,
    2: F.conv_transpose2d,
    3: F.conv_transpose3d,
}


def _rank(x: T) -> int:
    if x.dim() - 2 not in _CONV:
        raise refused(f"a convolution of rank {x.dim()}", "use inputs of rank 3, 4 or 5")
    return x.dim() - 2


def conv(node: Node, x: T, weight: T, bias: T | None = None) -> T:
    """Conv: x (N, C, …), weight (M, C / group, …)."""
    function = _CONV[_rank(x)]
    window = window_of(node, x.shape[2:], weight.shape[2:])
    padding: Any = window.begin
    if not window.is_even:
        x, padding = window.padded(x, 0.0), 0
    group = node.get("group", 1)
    return function(x, weight, bias, window.stride, padding, window.dilation, group)


def _conv_transpose(node: Node, x: T, weight: T, bias: T | None = None) -> T:
    rank = _rank(x)
    wanted, auto = node.get("output_shape"), node.get("auto_pad", "NOTSET")
    more = tuple(node.get("output_padding", [0] * rank))
    window = window_of(node, x.shape[2:], weight.shape[2:])
    if wanted is None and auto.startswith("SAME"):
        wanted = [n * s for n, s in zip(x.shape[2:], window.stride, strict=True)]
    begin, end = list(window.begin), list(window.end)
    for axis in range(rank) if wanted is not None else ():
        size = window.stride[axis] * (x.shape[2 + axis] - 1) + more[axis] + window.extent(axis)
        total = size - wanted[axis - rank]
        half = total // 2
        begin[axis], end[axis] = (
            (total - half, half) if auto != "SAME_UPPER" else (half, total - half)
        )
    group = node.get("group", 1)
    function = _TRANSPOSED[rank]
    if begin == end and all(more[i] < window.stride[i] for i in range(rank)):
        return function(x, weight, bias, window.stride, begin, more, group, window.dilation)
    # Everything, then cut at each side or, for what output_padding adds, extended.
    full = function(x, weight, None, window.stride, 0, 0, group, window.dilation)
    sides = [s for b, e, m in zip(begin, end, more, strict=True) for s in (m - e, -b)]
    full = F.pad(full, sides[::-1])
    return full if bias is None else full + bias.reshape(-1, *[1] * rank)


def _gemm(node: Node, a: T, b: T, c: T | None = None) -> T:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    a = a.t() if node.get("transA", 0) else a
    weight = b if node.get("transB", 0) else b.t()
    bias = c is not None and c.dim() == 1 and c.shape[0] == weight.shape[0] and beta == 1
    if alpha == 1 and (c is None or bias):
        return F.linear(a, weight, c)
    y = alpha * F.linear(a, weight)
    return y if c is None else y + beta * c


def matmul(node: Node, a: T, b: T) -> T:
    """MatMul, of NumPy's shapes."""
    if 1 in node.fixed and b.dim() == 2 and a.dim() > 1:
        return F.linear(a, b.t())
    return torch.matmul(a, b)


def _einsum(node: Node, *xs: T) -> T:
    return torch.einsum(node.get("equation"), *xs)


def _less(x: T, zero: T | None) -> T:
    x = x.double()
    return x if zero is None else x - zero.double()


def _matmul_integer(node: Node, a: T, b: T, za: T | None = None, zb: T | None = None) -> T:
    if za is not None and za.dim() == 1 and za.shape[0] > 1:
        za = za.reshape(-1, 1)
    return torch.matmul(_less(a, za), _less(b, zb)).to(torch.int32)


def _conv_integer(node: Node, x: T, w: T, zx: T | None = None, zw: T | None = None) -> T:
    if zw is not None and zw.numel() > 1:
        zw = zw.reshape(-1, *[1] * (w.dim() - 1))
    return conv(node, _less(x, zx), _less(w, zw)).to(torch.int32)


PRODUCTS = {
    "Conv": op(conv),
    "ConvTranspose": op(_conv_transpose),
    "Gemm": op(_gemm),
    "MatMul": op(matmul),
    "Einsum": op(_einsum),
    "MatMulInteger": op(_matmul_integer),
    "ConvInteger": op(_conv_integer),
}

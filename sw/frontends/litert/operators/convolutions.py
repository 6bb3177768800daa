"""Convolutions, whose results are [N, C, H, W] (`Row.image`), and fully connected layers."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sw.frontends.litert.call import Call, same_pads

_SAME = 0
"""The number of padding SAME in the schema."""


def conv_2d(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """weight: [O, H, W, C of a group]."""
    groups, rest = divmod(x.shape[3], weight.shape[3])
    if rest or weight.shape[0] % max(groups, 1):
        call.fail(f"an input of {x.shape[3]} channels and weights {list(weight.shape)}")
    return _convolved(call, x, weight.permute(0, 3, 1, 2), bias, groups)


def depthwise_conv_2d(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """weight: [1, H, W, C · multiplier]."""
    if weight.shape[3] % x.shape[3]:
        call.fail(f"an input of {x.shape[3]} channels and weights {list(weight.shape)}")
    return _convolved(call, x, weight.permute(3, 0, 1, 2), bias, x.shape[3])


def _convolved(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
    _constant(call, 1)
    o = call.options
    stride = (o.StrideH(), o.StrideW())
    dilation = (o.DilationHFactor(), o.DilationWFactor())
    image, padding = call.image(x), [0, 0]
    pads = call.operator.pads
    if pads is None and o.Padding() == _SAME:
        pads = same_pads(x.shape[1:3], weight.shape[2:], stride, dilation)
    if pads is not None:
        (top, bottom), (left, right) = pads
        if top == bottom and left == right:
            padding = [top, left]
        else:
            image = F.pad(image, (left, right, top, bottom))
    out = F.conv2d(image, weight, bias, stride, padding, dilation, groups)
    return call.activated(out)


def _constant(call: Call, index: int) -> None:
    if not call.is_constant(index):
        call.fail("weights are computed at run time", "only constant weights", call.inputs[index])


def transpose_conv(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """weight: [O, H, W, C]; operand 0 is the result's shape."""
    _constant(call, 1)
    o, wanted = call.options, call.ints(0)[1:3]
    stride, kernel = (o.StrideH(), o.StrideW()), weight.shape[1:3]
    padding, extra, cut = [0, 0], [0, 0], [0, 0]
    for i in range(2):
        full = (x.shape[1 + i] - 1) * stride[i] + kernel[i]
        total = max(full - wanted[i], 0) if o.Padding() == _SAME else 0
        padding[i] = total // 2
        more = wanted[i] - full + 2 * padding[i]
        extra[i], cut[i] = max(more, 0), max(-more, 0)
    kernels = weight.permute(3, 0, 1, 2)
    out = F.conv_transpose2d(call.image(x, 2), kernels, bias, stride, padding, extra)
    out = out[:, :, : out.shape[2] - cut[0], : out.shape[3] - cut[1]]
    return call.activated(out)


def fully_connected(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """weight: [O, I]; without keep_num_dims the result is [rows, O]."""
    o: Any = call.options
    if o.WeightsFormat():
        call.fail("weights in a shuffled format", "convert the model without it", call.inputs[1])
    rows = x if o.KeepNumDims() else x.reshape(-1, weight.shape[1])
    if call.is_constant(1):
        out = F.linear(rows, weight, bias)
    else:
        out = torch.matmul(rows, weight.t())
        out = out if bias is None else out + bias
    return call.activated(out)


def batch_matmul(call: Call, a: Tensor, b: Tensor) -> Tensor:
    o = call.options
    a = a.transpose(-1, -2) if o.AdjX() else a
    b = b.transpose(-1, -2) if o.AdjY() else b
    return torch.matmul(a, b)

"""Which function imports which ATen operator."""

import operator
from typing import Any

import torch
from torch.fx import Node

from sw.compiler.frontend.capture import batch_norm_error
from sw.compiler.frontend.pt2e.arguments import Handler
from sw.compiler.frontend.pt2e.elementwise import (
    add_or_sub,
    bounded,
    clamp,
    clamp_max,
    hardtanh,
    mul_or_div,
)
from sw.compiler.frontend.pt2e.importer import Importer, Item, qd
from sw.compiler.frontend.pt2e.layers import aten_convolution, conv2d, linear, matmul
from sw.compiler.frontend.pt2e.moves import (
    dropout,
    getitem,
    pad,
    permute,
    reshape,
    same,
    slice_,
    transpose,
)
from sw.compiler.frontend.pt2e.pools import adaptive_avg_pool2d, avg_pool2d, max_pool2d, mean
from sw.compiler.frontend.pt2e.quantization import dequantize, dequantize_channels, quantize

aten = torch.ops.aten


_HANDLERS: dict[Any, Handler] = {
    qd.quantize_per_tensor.default: quantize,
    qd.dequantize_per_tensor.default: dequantize,
    qd.dequantize_per_channel.default: dequantize_channels,
    aten.conv2d.default: conv2d,
    aten.conv2d.padding: conv2d,
    aten.convolution.default: aten_convolution,
    aten.linear.default: linear,
    aten.matmul.default: matmul,
    aten.bmm.default: matmul,
    aten.mm.default: matmul,
    aten.add.Tensor: add_or_sub,
    aten.add_.Tensor: add_or_sub,
    aten.sub.Tensor: add_or_sub,
    aten.mul.Tensor: mul_or_div,
    aten.div.Tensor: mul_or_div,
    aten.relu.default: bounded(0.0, None),
    aten.relu_.default: bounded(0.0, None),
    aten.relu6.default: bounded(0.0, 6.0),
    aten.hardtanh.default: hardtanh,
    aten.hardtanh_.default: hardtanh,
    aten.clamp.default: clamp,
    aten.clamp_min.default: clamp,
    aten.clamp_max.default: clamp_max,
    aten.max_pool2d.default: max_pool2d,
    aten.max_pool2d_with_indices.default: max_pool2d,
    aten.avg_pool2d.default: avg_pool2d,
    aten.adaptive_avg_pool2d.default: adaptive_avg_pool2d,
    aten._adaptive_avg_pool2d.default: adaptive_avg_pool2d,
    aten.mean.dim: mean,
    aten.pad.default: pad,
    aten.constant_pad_nd.default: pad,
    aten.slice.Tensor: slice_,
    aten.flatten.using_ints: reshape,
    aten.view.default: reshape,
    aten._unsafe_view.default: reshape,
    aten.reshape.default: reshape,
    aten.unsqueeze.default: reshape,
    aten.squeeze.default: reshape,
    aten.squeeze.dim: reshape,
    aten.squeeze.dims: reshape,
    aten.permute.default: permute,
    aten.transpose.int: transpose,
    aten.t.default: transpose,
    aten.clone.default: same,
    aten.contiguous.default: same,
    aten.alias.default: same,
    aten.dropout.default: dropout,
    operator.getitem: getitem,
}


def import_node(im: Importer, node: Node) -> Item:
    """Translate one FX node; `CompileError` for an operator that is not in the table."""
    handler = _HANDLERS.get(node.target)
    if "batch_norm" in str(node.target):
        raise batch_norm_error(node)
    if handler is None or node.op != "call_function":
        raise im.error(
            node,
            f"operator {node.target} is not supported",
            f"run this part of the model outside, or express it with: {', '.join(_names())}",
        )
    return handler(im, node)


def _names() -> list[str]:
    """The supported operators as a user writes them."""
    names = {str(t).split(".")[1] for t in _HANDLERS if str(t).startswith("aten.")}
    return sorted(n for n in names if not n.startswith("_") and not n.endswith("_"))

"""Quantized models: PT2E's quantize and dequantize operators, around operators on floats.

Whatever ONNX calls uint8 is computed with as int8, 128 less, zero points too: the NPU has int8.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor as T

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import KEEP, op
from sw.frontends.onnx.operators.products import conv, matmul
from sw.frontends.onnx.types import dtype_of


def _operators() -> Any:
    """The namespace, which exists once PyTorch's library for it is imported."""
    import torch.ao.quantization.fx._decomposed

    return torch.ops.quantized_decomposed


def _ends(dtype: torch.dtype) -> tuple[int, int]:
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def _int8(x: T) -> T:
    return (x.to(torch.int16) - 128).to(torch.int8) if x.dtype is torch.uint8 else x


def _grid(zero: Any, dtype: torch.dtype) -> tuple[np.ndarray[Any, Any], torch.dtype]:
    """Zero points and type of what is computed with."""
    points = np.zeros(1, np.int64) if zero is None else zero.astype(np.int64)
    return (points - 128, torch.int8) if dtype is torch.uint8 else (points, dtype)


def _many(scale: Any, zero: Any) -> bool:
    """Whether there is a scale or a zero point for each channel."""
    return scale.size > 1 or zero.size > 1


def _spread(values: Any, size: int, dtype: torch.dtype) -> T:
    return torch.tensor(np.broadcast_to(values.reshape(-1), size).tolist(), dtype=dtype)


def _axis(node: Node, x: T, scale: Any) -> int:
    axis: int = node.get("axis", 1)
    if scale.ndim > 1 or node.get("block_size", 0):
        raise refused("scales for blocks", "quantize by tensor or by channel")
    return axis % x.dim() if x.dim() else 0


def dequantized(x: T, scale: Any, zero: Any, axis: int, dtype: torch.dtype) -> T:
    """Floats of integers. dtype: what ONNX says they are; x may be int8 where that is uint8."""
    points, inner = _grid(zero, dtype)
    low, high = _ends(inner)
    x = _int8(x)
    ops = _operators()
    if not _many(scale, points):
        return ops.dequantize_per_tensor(
            x, float(scale.item()), int(points.item()), low, high, inner
        )
    size = x.shape[axis]
    scales, zeros = _spread(scale, size, torch.float32), _spread(points, size, torch.int64)
    return ops.dequantize_per_channel(x, scales, zeros, axis, low, high, inner)


def quantized(x: T, scale: Any, zero: Any, axis: int, dtype: torch.dtype, *, shifted: bool) -> T:
    """Integers of floats; where dtype is uint8 they are int8 if shifted."""
    points, inner = _grid(zero, dtype)
    low, high = _ends(inner)
    ops = _operators()
    if _many(scale, points):
        size = x.shape[axis]
        scales, zeros = _spread(scale, size, torch.float32), _spread(points, size, torch.int64)
        y = ops.quantize_per_channel(x, scales, zeros, axis, low, high, inner)
    else:
        y = ops.quantize_per_tensor(x, float(scale.item()), int(points.item()), low, high, inner)
    shift = dtype is torch.uint8 and not shifted
    return (y.to(torch.int16) + 128).to(torch.uint8) if shift else y


def _type(node: Node, position: int, x: T, zero: Any) -> torch.dtype:
    """What ONNX says the integers of an operand are."""
    if node.inputs[position] in node.shifted:
        return torch.uint8
    return x.dtype if zero is None else torch.from_numpy(zero).dtype


def _quantize(node: Node, x: T, scale: Any, zero: Any = None) -> T:
    node.ignore("saturate", "precision")
    number = node.get("output_dtype", 0)
    dtype = dtype_of(number) if number else torch.uint8
    dtype = dtype if zero is None else torch.as_tensor(zero).dtype
    axis = _axis(node, x, scale)
    if not isinstance(scale, np.ndarray) or isinstance(zero, T):
        return _dynamic(x, scale, zero, axis, dtype)
    shifted = node.outputs[0] in node.shifted
    return quantized(x.float(), scale, zero, axis, dtype, shifted=shifted)


def _dynamic(x: T, scale: Any, zero: Any, axis: int, dtype: torch.dtype) -> T:
    """Integers on a grid that is computed at run time."""
    channels = [-1 if i == axis else 1 for i in range(x.dim())]
    scale, zero = torch.as_tensor(scale), torch.as_tensor(0 if zero is None else zero)
    if scale.numel() > 1:
        scale, zero = scale.reshape(channels), zero.reshape(channels if zero.dim() else ())
    return torch.clamp(torch.round(x / scale) + zero, *_ends(dtype)).to(dtype)


def _dequantize(node: Node, x: T, scale: Any, zero: Any = None) -> T:
    number = node.get("output_dtype", 0)
    y = dequantized(x, scale, zero, _axis(node, x, scale), _type(node, 0, x, zero))
    like = dtype_of(number) if number else torch.from_numpy(scale).dtype
    return y if like is torch.float32 else y.to(like)


def _result(node: Node, y: T, scale: Any, zero: Any) -> T:
    dtype = torch.from_numpy(zero).dtype
    return quantized(y, scale, zero, 0, dtype, shifted=node.outputs[0] in node.shifted)


def _conv(
    node: Node, x: T, sx: Any, zx: Any, w: T, sw: Any, zw: Any, sy: Any, zy: Any, b: Any = None
) -> T:
    real = dequantized(x, sx, zx, 0, _type(node, 0, x, zx))
    weight = dequantized(w, sw, zw, 0, _type(node, 3, w, zw))
    bias = None
    if b is not None:
        scales = (sx * sw).reshape(-1)
        bias = dequantized(b, scales, None, 0, torch.int32)
    return _result(node, conv(node, real, weight, bias), sy, zy)


def _matmul(node: Node, a: T, sa: Any, za: Any, b: T, sb: Any, zb: Any, sy: Any, zy: Any) -> T:
    left = dequantized(a, sa, za, max(0, a.dim() - 2), _type(node, 0, a, za))
    right = dequantized(b, sb, zb, b.dim() - 1, _type(node, 3, b, zb))
    return _result(node, matmul(node, left, right), sy, zy)


QUANTIZED = {
    "QuantizeLinear": op(_quantize, arrays=(1, 2), constants=KEEP),
    "DequantizeLinear": op(_dequantize, static=(1, 2), constants=KEEP),
    "QLinearConv": op(_conv, static=(1, 2, 4, 5, 6, 7)),
    "QLinearMatMul": op(_matmul, static=(1, 2, 4, 5, 6, 7)),
}

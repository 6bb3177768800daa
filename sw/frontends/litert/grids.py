"""Integers and reals: the quantize and dequantize nodes of a graph that PT2E has converted.

The importer of the compiler knows these by name, and takes scales and zero points from them.
"""

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch import Tensor as Values

from sw.frontends.litert.records import Quantization, Tensor

_OPS = torch.ops.quantized_decomposed


def settled(value: Values, tensor: Tensor) -> Values:
    """A result as its tensor holds it: rounded to the grid of a quantized one, else of its type."""
    q, dtype = tensor.quantization, _type(tensor.dtype)
    if q is None or dtype is torch.float32:
        return value if value.dtype is dtype else value.to(dtype)
    grid = (q.scale[0], q.zero_point[0], *_ends(dtype), dtype)
    return _OPS.dequantize_per_tensor(_OPS.quantize_per_tensor(value, *grid), *grid)


def steps_of(value: Values, tensor: Tensor) -> Values:
    """A real constant as the integers of a quantized tensor."""
    q, dtype = tensor.quantization, _type(tensor.dtype)
    assert q is not None
    return _OPS.quantize_per_tensor(value, q.scale[0], q.zero_point[0], *_ends(dtype), dtype)


def restored(
    data: Values, q: Quantization, scales: Values | None = None, zeros: Values | None = None
) -> Values:
    """The reals of a quantized constant; scales and zero points by channel are tensors."""
    ends = _ends(data.dtype)
    if q.axis < 0:
        return _OPS.dequantize_per_tensor(data, q.scale[0], q.zero_point[0], *ends, data.dtype)
    return _OPS.dequantize_per_channel(data, scales, zeros, q.axis, *ends, data.dtype)


def by_channel(q: Quantization) -> tuple[Values, Values]:
    """(scales, zero points) as tensors."""
    return torch.tensor(q.scale), torch.tensor(q.zero_point, dtype=torch.int64)


def is_quantized(tensor: Tensor) -> bool:
    """Whether a tensor holds integers that stand for reals."""
    return tensor.quantization is not None and tensor.dtype != "float32"


def _type(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, name)
    return found


def _ends(dtype: torch.dtype) -> tuple[int, int]:
    info = torch.iinfo(dtype)
    return info.min, info.max

"""Weights that are packed in blocks of a few bits, each block with its scale."""

from typing import Any

import numpy as np
import torch
from torch import Tensor as T

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op

_BITS = (2, 4, 8)


def _unpacked(data: Any, bits: int) -> Any:
    """The numbers of the last dimension's bytes, low bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (data[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*data.shape[:-1], -1)


def _weights(node: Node, packed: Any, scales: Any, zeros: Any = None) -> T:
    """Floats [K, N] of bytes [N, blocks, bytes of a block].

    zeros: None (the middle of the range), floats for each block, or packed as the weights are.
    """
    k, n, size = (node.get(name) for name in ("K", "N", "block_size"))
    bits = node.get("bits", 4)
    if bits not in _BITS:
        raise refused(f"weights of {bits} bits", "quantize them to 4 or 8 bits")
    blocks = -(-k // size)
    numbers = _unpacked(packed.reshape(n, blocks, -1), bits)[..., :size].astype(np.float32)
    if zeros is None:
        middle: Any = np.float32(1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        middle = _unpacked(zeros.reshape(n, -1), bits)[:, :blocks, None].astype(np.float32)
    else:
        middle = zeros.reshape(n, blocks, 1).astype(np.float32)
    real = (numbers - middle) * scales.reshape(n, blocks, 1).astype(np.float32)
    return torch.from_numpy(real.reshape(n, -1)[:, :k].T.copy())


BLOCKS = {"BlockWeights": op(_weights, static=(0, 1, 2))}

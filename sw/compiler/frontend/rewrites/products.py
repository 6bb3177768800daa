"""Products that broadcast, attention of other ranks, transposed convolutions of volumes."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from sw.compiler.frontend.rewrites.computed import affine, any_convolution


def mv(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b.unsqueeze(1)).squeeze(1)


def addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return (x if beta == 1 else x * beta) + (a @ b if alpha == 1 else a @ b * alpha)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A computed bias is added behind it; a computed weight is a matrix."""
    made = x @ weight.t() if bias is None else functional.linear(x, weight)
    return affine(made, None, bias)


def bilinear(a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Σ a_i · w_oij · b_j: a linear layer of b, times a, summed."""
    out, first, second = weight.shape
    made = functional.linear(b, weight.reshape(out * first, second))
    made = made.reshape(*b.shape[:-1], out, first)
    total = (made * a.unsqueeze(-2)).sum(-1)
    return total if bias is None else total + bias


def cdist(a: Tensor, b: Tensor, p: float = 2, compute_mode: int | None = None) -> Tensor:
    """Distances of all pairs of rows, by their differences."""
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    if p == 1:
        return torch.abs(difference).sum(-1)
    if p != 2:
        raise ValueError(f"distances of order {p}: only 1 and 2")
    return torch.sqrt((difference * difference).sum(-1))


cdist_forward = cdist


def cosine_similarity(a: Tensor, b: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """a·b / √(max(a·a, ε²) · max(b·b, ε²)), a root each: their product has no common range."""
    norms = [torch.sqrt((x * x).sum(dim)).clamp_min(eps) for x in (a, b)]
    return (a * b).sum(dim) / norms[0] / norms[1]


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0,
    causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attention of another rank, as one of four dimensions."""
    if dropout or q.dim() == 4:
        raise ValueError("attention with dropout, or of four dimensions")
    lead, rows, keys = q.shape[:-2], q.shape[-2], k.shape[-2]

    def heads(x: Tensor) -> Tensor:
        return x.reshape(1, math.prod(lead), *x.shape[-2:])

    if mask is not None and mask.dim() > 2:
        mask = heads(mask.expand(*lead, rows, keys))
    made = functional.scaled_dot_product_attention(
        heads(q), heads(k), heads(v), mask, 0.0, causal, scale=scale
    )
    return made.reshape(*lead, rows, v.shape[-1])


# Transposed convolutions --------------------------------------------------------------------------


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    """A transposed one of volumes: planes of one phase of the depth as channels of one in 2-D.

    Output plane q·s + r is the sum over j of input plane q − j times kernel plane r + j·s.
    """
    if not transposed or x.dim() != 5:
        given = stride, padding, dilation, transposed, output_padding, groups
        return any_convolution(x, weight, bias, *given)
    s, p, extra, d = (
        list(v) * 3 if len(v) == 1 else list(v) for v in (stride, padding, output_padding, dilation)
    )
    n, channels, depth = x.shape[:3]
    planes = _stuffed(weight, d[0])
    taps = -(-planes.shape[2] // s[0])
    planes = torch.constant_pad_nd(planes, [0, 0, 0, 0, 0, taps * s[0] - planes.shape[2]], 0.0)
    out = (depth - 1) * s[0] - 2 * p[0] + d[0] * (weight.shape[2] - 1) + extra[0] + 1
    blocks = max(depth + taps - 1, -(-(p[0] + out) // s[0]))
    # Channels (group, tap, channel of the group): input planes q − j beside each other.
    wide = torch.constant_pad_nd(x, [0, 0, 0, 0, taps - 1, blocks - depth], 0.0)
    shifted = [wide[:, :, taps - 1 - j : taps - 1 - j + blocks] for j in range(taps)]
    inner = channels // groups
    parts = [v.reshape(n, groups, 1, inner, blocks, -1) for v in shifted]
    image = (torch.cat(parts, 2) if taps > 1 else parts[0]).reshape(n, taps * channels, blocks, -1)
    image = image.transpose(1, 2).reshape(n * blocks, taps * channels, *x.shape[3:])
    # Kernel [group, tap, channel] × [channel of the result, phase].
    made = planes.shape[1]
    kernel = planes.reshape(groups, inner, made, taps, s[0], -1).permute(0, 3, 1, 2, 4, 5)
    kernel = kernel.reshape(taps * channels, made * s[0], *planes.shape[3:])
    full = None if bias is None else bias.repeat_interleave(s[0])
    result = functional.conv_transpose2d(
        image, kernel, full, s[1:], p[1:], extra[1:], groups, d[1:]
    )
    h, w = result.shape[2:]
    result = result.reshape(n, blocks, made * groups, s[0], h * w).permute(0, 2, 1, 3, 4)
    result = result.reshape(n, made * groups, blocks * s[0], h, w)
    return result[:, :, p[0] : p[0] + out]


def _stuffed(weight: Tensor, by: int) -> Tensor:
    """A kernel with by − 1 zero planes between its planes."""
    if by == 1:
        return weight
    shape = list(weight.shape)
    wide = torch.constant_pad_nd(weight.unsqueeze(3), [0, 0, 0, 0, 0, by - 1], 0.0)
    return wide.reshape(*shape[:2], shape[2] * by, *shape[3:])[:, :, : (shape[2] - 1) * by + 1]

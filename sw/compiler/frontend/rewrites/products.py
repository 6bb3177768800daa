"""Products that broadcast, attention of other ranks, transposed convolutions of volumes."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Vectors as matrices; leading dimensions that broadcast are expanded."""
    if a.dim() == 1 and b.dim() == 1:
        return (a.unsqueeze(0) @ b.unsqueeze(1)).reshape(())
    if a.dim() == 1:
        return (a.unsqueeze(0) @ b).squeeze(-2)
    if b.dim() == 1:
        return (a @ b.unsqueeze(1)).squeeze(-1)
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.dim() == 2 and b.dim() > 2 and math.prod(lead) > 1:
        # One matrix by many: their columns side by side.
        count, k, n = math.prod(lead), b.shape[-2], b.shape[-1]
        wide = b.reshape(count, k, n).transpose(0, 1).reshape(k, count * n)
        made = (a @ wide).reshape(a.shape[0], count, n).transpose(0, 1)
        return made.reshape(*lead, a.shape[0], n)
    if a.shape[:-2] == b.shape[:-2]:
        raise ValueError("a product that needs no other words")
    return a.expand(*lead, *a.shape[-2:]) @ b.expand(*lead, *b.shape[-2:])


def mv(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b.unsqueeze(1)).squeeze(1)


def dot(a: Tensor, b: Tensor) -> Tensor:
    return (a.unsqueeze(0) @ b.unsqueeze(1)).reshape(())


def addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = a @ b
    return (x if beta == 1 else x * beta) + (product if alpha == 1 else product * alpha)


def addmv(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return addmm(x.unsqueeze(1), a, b.unsqueeze(1), beta=beta, alpha=alpha).squeeze(1)


def baddbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return addmm(x, a, b, beta=beta, alpha=alpha)


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


def cosine_similarity(a: Tensor, b: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """a·b / √(max(a·a, ε²) · max(b·b, ε²)), a root each: their product has no common range."""
    norms = [torch.sqrt((x * x).sum(dim)).clamp_min(eps) for x in (a, b)]
    return (a * b).sum(dim) / norms[0] / norms[1]


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0,
              causal: bool = False, *, scale: float | None = None,
              enable_gqa: bool = False) -> Tensor:  # fmt: skip
    """Attention of another rank, as one of four dimensions."""
    if dropout or q.dim() == 4:
        raise ValueError("attention with dropout, or of four dimensions")
    *lead, rows, size = q.shape
    count = math.prod(lead)
    made = functional.scaled_dot_product_attention(
        q.reshape(1, count, rows, size), k.reshape(1, count, *k.shape[-2:]),
        v.reshape(1, count, *v.shape[-2:]), _wide_mask(mask, lead, (rows, k.shape[-2])), 0.0,
        causal, scale=scale,
    )  # fmt: skip
    return made.reshape(*lead, rows, v.shape[-1])


def _wide_mask(mask: Tensor | None, lead: Sequence[int], size: tuple[int, int]) -> Tensor | None:
    if mask is None or mask.dim() <= 2:
        return mask
    return mask.expand(*lead, *size).reshape(1, math.prod(lead), *size)


# Transposed convolutions --------------------------------------------------------------------------


def conv_transpose3d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
                     padding: Any = 0, output_padding: Any = 0, groups: int = 1,
                     dilation: Any = 1) -> Tensor:  # fmt: skip
    """Planes that belong to one phase of the depth as channels of a transposed convolution in 2-D.

    Output plane q·s + r is the sum over j of input plane q − j times kernel plane r + j·s.
    """
    s, p, extra, d = (
        [v] * 3 if isinstance(v, int) else (list(v) * 3 if len(v) == 1 else list(v))
        for v in (stride, padding, output_padding, dilation)
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


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """The transposed one of volumes."""
    if not transposed or x.dim() != 5:
        raise ValueError("a convolution that needs no other words")
    return conv_transpose3d(x, weight, bias, stride, padding, output_padding, groups, dilation)

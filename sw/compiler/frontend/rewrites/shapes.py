"""Parts, orders and copies of values; values picked by indices."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def roll(x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    """Two parts of each dimension change places."""
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        return roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        at = (-shift) % size
        if at:
            x = torch.cat([x.narrow(dim, at, size - at), x.narrow(dim, 0, at)], dim)
    return x


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    n, c, *space = x.shape
    split = x.reshape(n, groups, c // groups, math.prod(space))
    return split.transpose(1, 2).reshape(x.shape)


def pixel_shuffle(x: Tensor, factor: int) -> Tensor:
    *lead, c, h, w = x.shape
    n, made = math.prod(lead), c // factor**2
    x = x.reshape(n * made, factor, factor, h, w).permute(0, 3, 1, 4, 2)
    return x.reshape(*lead, made, h * factor, w * factor)


def pixel_unshuffle(x: Tensor, factor: int) -> Tensor:
    *lead, c, h, w = x.shape
    n = math.prod(lead)
    x = x.reshape(n * c, h // factor, factor, w // factor, factor).permute(0, 2, 4, 1, 3)
    return x.reshape(*lead, c * factor**2, h // factor, w // factor)


def triangle(x: Tensor, diagonal: int = 0, upper: bool = False) -> Tensor:
    """tril, triu: zeros beyond a diagonal."""
    ones = torch.ones(x.shape[-2:], dtype=torch.bool)
    keep = ones.triu(diagonal) if upper else ones.tril(diagonal)
    return torch.where(keep, x, 0.0 if x.is_floating_point() else 0)


def upper_triangle(x: Tensor, diagonal: int = 0) -> Tensor:
    return triangle(x, diagonal, upper=True)


def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Every (m + 1)-th element of the matrices as rows of n · m."""
    x = x.movedim((dim1, dim2), (-2, -1))
    *lead, n, m = x.shape
    first = offset if offset >= 0 else -offset * m
    count = max(0, min(n, m - offset) if offset >= 0 else min(n + offset, m))
    flat = x.reshape(*lead, n * m)
    return flat[..., first : first + (count - 1) * (m + 1) + 1 : m + 1]


def trace(x: Tensor) -> Tensor:
    return diagonal(x).sum()


def tile(x: Tensor, dims: Sequence[int]) -> Tensor:
    rank = max(x.dim(), len(dims))
    return x.repeat((*(1,) * (rank - len(dims)), *dims))


def repeat_interleave(x: Tensor, repeats: int, dim: int | None = None, *,
                      output_size: int | None = None) -> Tensor:  # fmt: skip
    if dim is None:
        x, dim = x.reshape(-1), 0
    dim %= x.dim()
    shape = list(x.shape)
    wide = x.unsqueeze(dim + 1).expand(*shape[: dim + 1], repeats, *shape[dim + 1 :])
    shape[dim] *= repeats
    return wide.reshape(shape)


def windows(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """unfold along a dimension: windows that may overlap, as the last dimension."""
    dim %= max(x.dim(), 1)
    count = (x.shape[dim] - size) // step + 1
    parts = [x.narrow(dim, i, (count - 1) * step + 1) for i in range(size)]
    index = [slice(None)] * x.dim()
    index[dim] = slice(None, None, step)
    return torch.stack([p[tuple(index)] for p in parts], -1)


def columns(x: Tensor, kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
            stride: Sequence[int]) -> Tensor:  # fmt: skip
    """im2col: the values under each place of a kernel, kernel positions as channels."""
    x = torch.constant_pad_nd(x, [padding[1], padding[1], padding[0], padding[0]], 0.0)
    n, c, h, w = x.shape
    out = [(s - d * (k - 1) - 1) // t + 1 for s, d, k, t in
           zip((h, w), dilation, kernel, stride, strict=True)]  # fmt: skip
    parts = []
    for i in range(kernel[0]):
        rows = x[:, :, i * dilation[0] :: stride[0]][:, :, : out[0]]
        for j in range(kernel[1]):
            parts.append(rows[:, :, :, j * dilation[1] :: stride[1]][:, :, :, : out[1]])
    made = torch.stack(parts, 2)
    return made.reshape(n, c * len(parts), out[0] * out[1])


def slice_scatter(x: Tensor, source: Tensor, dim: int = 0, start: int | None = None,
                  end: int | None = None, step: int = 1) -> Tensor:  # fmt: skip
    """`source` in the place of a slice."""
    if step != 1:
        raise ValueError(f"slice_scatter with step {step}: only 1")
    first, last, _ = slice(start, end).indices(x.shape[dim])
    parts = [x.narrow(dim, 0, first), source, x.narrow(dim, last, x.shape[dim] - last)]
    return torch.cat([p for p in parts if p.shape[dim]], dim)


def select_scatter(x: Tensor, source: Tensor, dim: int, index: int) -> Tensor:
    index %= x.shape[dim]
    return slice_scatter(x, source.unsqueeze(dim), dim, index, index + 1)


def filled(x: Tensor, value: Any) -> Tensor:
    """fill by a constant."""
    return value.expand(x.shape) if isinstance(value, Tensor) else torch.full_like(x, value)


def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    at = torch.arange(x.shape[dim]).unsqueeze(-1) == index
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    return torch.where(at.any(-1).reshape(shape), value, x)


def indexed(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Several index tensors for neighbouring dimensions: one index into these as one."""
    axes = [i for i, index in enumerate(indices) if index is not None]
    if axes != list(range(axes[0], axes[-1] + 1)):
        raise ValueError("indices of dimensions that are not neighbours")
    given = [i for i in indices if i is not None]
    if any(i.dtype is torch.bool for i in given):
        raise ValueError("indices of bool: the result's size depends on them")
    flat: Tensor | None = None
    for axis, index in zip(axes, given, strict=True):
        index = torch.where(index < 0, index + x.shape[axis], index)
        flat = index if flat is None else flat * x.shape[axis] + index
    assert flat is not None
    shape = (*x.shape[: axes[0]], -1, *x.shape[axes[-1] + 1 :])
    return x.reshape(shape)[(*[slice(None)] * axes[0], flat)]


def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
         append: Tensor | None = None) -> Tensor:  # fmt: skip
    parts = [p for p in (prepend, x, append) if p is not None]
    x = torch.cat(parts, dim) if len(parts) > 1 else x
    for _ in range(n):
        x = x.narrow(dim, 1, x.shape[dim] - 1) - x.narrow(dim, 0, x.shape[dim] - 1)
    return x

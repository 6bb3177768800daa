"""Parts, orders and copies of values; values picked by indices."""

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


def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Every (m + 1)-th element of the matrices as rows of n · m."""
    x = x.movedim((dim1, dim2), (-2, -1))
    *lead, n, m = x.shape
    first = offset if offset >= 0 else -offset * m
    count = max(0, min(n, m - offset) if offset >= 0 else min(n + offset, m))
    flat = x.reshape(*lead, n * m)
    return flat[..., first : first + (count - 1) * (m + 1) + 1 : m + 1]


def unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """unfold along a dimension: windows that may overlap, as the last dimension."""
    dim %= max(x.dim(), 1)
    count = (x.shape[dim] - size) // step + 1
    parts = [x.narrow(dim, i, (count - 1) * step + 1) for i in range(size)]
    index = [slice(None)] * x.dim()
    index[dim] = slice(None, None, step)
    return torch.stack([p[tuple(index)] for p in parts], -1)


def slice_scatter(x: Tensor, source: Tensor, dim: int = 0, start: int | None = None,
                  end: int | None = None, step: int = 1) -> Tensor:  # fmt: skip
    """`source` in the place of a slice."""
    if step != 1:
        raise ValueError(f"slice_scatter with step {step}: only 1")
    first, last, _ = slice(start, end).indices(x.shape[dim])
    parts = [x.narrow(dim, 0, first), source, x.narrow(dim, last, x.shape[dim] - last)]
    return torch.cat([p for p in parts if p.shape[dim]], dim)


def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    at = torch.arange(x.shape[dim]).unsqueeze(-1) == index
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    return torch.where(at.any(-1).reshape(shape), value, x)


def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
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


def type_as(x: Tensor, other: Tensor) -> Tensor:
    """The kind of `other`, none of whose values are read: `x` may be a constant."""
    return x.to(other.dtype)


def full_like(x: Tensor, value: Any, **given: Any) -> Tensor:
    """A constant without operands, with the strides of `x`.

    What takes only its shape from a value would tie the part that computes that value to whatever
    reads the constant.
    """
    order = sorted(range(x.dim()), key=lambda axis: -x.stride(axis))
    dtype = given.get("dtype") or x.dtype
    made = torch.full([x.shape[axis] for axis in order], value, dtype=dtype)
    return made.permute([order.index(axis) for axis in range(x.dim())])


def empty_like(x: Tensor, **given: Any) -> Tensor:
    """Zeros: what nobody has filled is the same each time."""
    return full_like(x, 0, **given)


def new_empty(x: Tensor, size: Sequence[int], **_: Any) -> Tensor:
    return x.new_zeros(size)

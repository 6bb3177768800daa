"""The largest values of a row, and values that are written to places."""

import torch
from torch import Tensor

_MOST = 256
"""Values of a row that are compared with each other."""


def topk(
    x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """By rank: how many values come before each. Of equal values the first comes first."""
    x = x.movedim(dim, -1)
    count = x.shape[-1]
    if count > _MOST:
        raise ValueError(f"topk of {count} values a row: at most {_MOST}")
    own, other = x.unsqueeze(-1), x.unsqueeze(-2)
    before = other > own if largest else other < own
    first = torch.ones(count, count, dtype=torch.bool).tril(-1)
    rank = torch.logical_or(before, torch.logical_and(other == own, first)).sum(-1)
    chosen = rank.unsqueeze(-2) == torch.arange(k).unsqueeze(-1)
    places = (chosen * torch.arange(count)).sum(-1)
    return torch.gather(x, -1, places).movedim(-1, dim), places.movedim(-1, dim)


def scatter_src(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Places of a row that are named once."""
    hit, values = _written(x, dim, index, src)
    return torch.where(hit.any(-1).movedim(-1, dim), values.movedim(-1, dim), x)


def scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    hit = _hits(x, dim, index).any(-1)
    return torch.where(hit.movedim(-1, dim), value, x)


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return x + _written(x, dim, index, src)[1].movedim(-1, dim)


def _hits(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """By place and index of a row: whether the one is written by the other."""
    if any(a != b for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True))
           if i != dim % x.dim()):  # fmt: skip
        raise ValueError("indices of fewer rows than the tensor has")
    places = torch.arange(x.shape[dim])
    return index.movedim(dim, -1).unsqueeze(-2) == places.unsqueeze(-1)


def _written(x: Tensor, dim: int, index: Tensor, src: Tensor) -> tuple[Tensor, Tensor]:
    if src.shape != index.shape:
        raise ValueError("scatter of a tensor that is larger than its indices")
    hit = _hits(x, dim, index)
    return hit, torch.where(hit, src.movedim(dim, -1).unsqueeze(-2), 0).sum(-1)

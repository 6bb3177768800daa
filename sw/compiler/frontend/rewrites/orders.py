"""The largest values of a row, and values that are written to places."""

import math

import torch
from torch import Tensor

_MOST, _COMPARISONS = 256, 1 << 24
"""Values of a row that are compared with each other, and comparisons of all rows."""


def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """As `topk`; equal values keep their order."""
    return topk(x, x.shape[dim], dim, descending)


def sort_stable(
    x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return sort(x, dim, descending)


def argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    return sort(x, dim, descending)[1]


def topk(
    x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """By rank: how many values come before each. Of equal values the first comes first."""
    x = x.movedim(dim, -1)
    count = x.shape[-1]
    if count > _MOST:
        raise ValueError(f"an order of {count} values a row: at most {_MOST}")
    _require_few(x.numel() * count)
    own, other = x.unsqueeze(-1), x.unsqueeze(-2)
    before = other > own if largest else other < own
    first = torch.ones(count, count, dtype=torch.bool).tril(-1)
    rank = torch.logical_or(before, torch.logical_and(other == own, first)).sum(-1)
    chosen = rank.unsqueeze(-2) == torch.arange(k).unsqueeze(-1)
    places = (chosen * torch.arange(count)).sum(-1)
    return torch.gather(x, -1, places).movedim(-1, dim), places.movedim(-1, dim)


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Of equal bins between two numbers; the last one takes the upper end."""
    if min >= max:
        raise ValueError("histc between the values' own ends: name min and max")
    edges = torch.linspace(min, max, bins + 1)
    x = x.reshape(-1, 1)
    above = torch.cat([x >= edges[:-1], x > edges[-1:]], 1).to(torch.int64).sum(0)
    return (above[:-1] - above[1:]).to(x.dtype)


def cumsum(x: Tensor, dim: int, *, dtype: torch.dtype) -> Tensor:
    """Integers of float values."""
    return torch.cumsum(x.to(dtype), dim)


def grouped_mm_fallback(x: Tensor, weights: Tensor, offs: Tensor) -> Tensor:
    """Of package `transformers`: the rows up to each offset by a matrix of their own.

    Every row meets every matrix, and one product is chosen.
    """
    rows = torch.arange(x.shape[0])
    group = (rows.unsqueeze(-1) >= offs).sum(-1)
    chosen = group == torch.arange(weights.shape[0]).unsqueeze(-1)
    products = torch.stack([x @ weight for weight in weights.unbind(0)])
    return torch.where(chosen.unsqueeze(-1), products, 0).sum(0)


def scatter_src(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Of values for one place the last one counts, as on PyTorch's CPU."""
    hit = _hits(x, dim, index)
    order = torch.arange(1, hit.shape[-1] + 1)
    hit = hit * order == torch.where(hit, order, 0).amax(-1, keepdim=True).clamp(min=1)
    values = _written(hit, dim, index, src)
    return torch.where(hit.any(-1).movedim(-1, dim), values, x)


def scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    hit = _hits(x, dim, index).any(-1)
    return torch.where(hit.movedim(-1, dim), value, x)


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return x + _written(_hits(x, dim, index), dim, index, src)


def index_put(
    x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Places by a mask, which take one value, or by vectors for dimensions that follow another."""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    axis, first = given[0]
    if any(index.dtype == torch.bool for _, index in given):
        if len(given) > 1 or values.numel() > 1:
            raise ValueError("index_put by a mask of one value only: use torch.where")
        mask = first.reshape(*first.shape, *[1] * (x.dim() - axis - first.dim()))
        value = values.reshape(())
        return torch.where(mask, x + value if accumulate else value, x)
    if [a for a, _ in given] != list(range(axis, axis + len(given))):
        raise ValueError("index_put by indices of dimensions that do not follow one another")
    sizes = x.shape[axis : axis + len(given)]
    vectors = torch.broadcast_tensors(*(index for _, index in given))
    at = torch.zeros_like(vectors[0])
    for vector, size in zip(vectors, sizes, strict=True):
        at = at * size + torch.where(vector < 0, vector + size, vector)
    rest = x.shape[axis + len(given) :]
    values = values.expand(*x.shape[:axis], *at.shape, *rest)
    values = values.reshape(*x.shape[:axis], at.numel(), *rest)
    index = at.reshape(-1, *[1] * len(rest)).expand(values.shape)
    flat = x.reshape(*x.shape[:axis], math.prod(sizes), *rest)
    write = scatter_add if accumulate else scatter_src
    return write(flat, axis, index, values).reshape(x.shape)


def _hits(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """By place and index of a row: whether the one is written by the other."""
    if any(a != b for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True))
           if i != dim % x.dim()):  # fmt: skip
        raise ValueError("indices of fewer rows than the tensor has")
    _require_few(index.numel() * x.shape[dim])
    places = torch.arange(x.shape[dim])
    return index.movedim(dim, -1).unsqueeze(-2) == places.unsqueeze(-1)


def _written(hit: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """The sum of what `hit` says is written to each place."""
    if src.shape != index.shape:
        raise ValueError("scatter of a tensor that is larger than its indices")
    return torch.where(hit, src.movedim(dim, -1).unsqueeze(-2), 0).sum(-1).movedim(-1, dim)


def _require_few(comparisons: int) -> None:
    if comparisons > _COMPARISONS:
        raise ValueError(f"{comparisons:,} comparisons of places: at most {_COMPARISONS:,}")

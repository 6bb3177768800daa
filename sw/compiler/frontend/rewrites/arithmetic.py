"""Functions of elements, reductions, comparisons and integers."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def added(a: Any, b: Any, alpha: float = 1) -> Tensor:
    """add with a factor."""
    return a + b * alpha


def subtracted(a: Any, b: Any, alpha: float = 1) -> Tensor:
    return a - b * alpha


def subtracted_from(a: Any, b: Any, alpha: float = 1) -> Tensor:
    """rsub."""
    return b - (a if alpha == 1 else a * alpha)


def lerp(a: Tensor, b: Tensor, weight: Any) -> Tensor:
    return a + (b - a) * weight


def addcmul(x: Tensor, a: Tensor, b: Tensor, value: float = 1) -> Tensor:
    return x + (a * b if value == 1 else a * b * value)


def addcdiv(x: Tensor, a: Tensor, b: Tensor, value: float = 1) -> Tensor:
    return x + (a / b if value == 1 else a / b * value)


def clamp(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """clamp between tensors."""
    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


def maximum(a: Tensor, b: Tensor) -> Tensor:
    return torch.maximum(a, b)


def minimum(a: Tensor, b: Tensor) -> Tensor:
    return torch.minimum(a, b)


def sign(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)
    return (x > 0).to(torch.float32) - (x < 0).to(torch.float32)


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """relu(x) − w · relu(−x)."""
    if weight.numel() > 1:
        weight = weight.reshape(1, -1, *[1] * (x.dim() - 2))
    return torch.relu(x) - weight * torch.relu(-x)


def threshold(x: Tensor, limit: float, value: float) -> Tensor:
    return torch.where(x > limit, x, float(value))


def hardshrink(x: Tensor, limit: float = 0.5) -> Tensor:
    return torch.where(torch.abs(x) > limit, x, 0.0)


def softshrink(x: Tensor, limit: float = 0.5) -> Tensor:
    return torch.relu(x - limit) - torch.relu(-x - limit)


def rrelu(x: Tensor, low: float = 1 / 8, high: float = 1 / 3, training: bool = False,
          generator: Any = None) -> Tensor:  # fmt: skip
    """Outside training: a leaky relu of the mean slope."""
    if training:
        raise ValueError("rrelu in training mode is random")
    return torch.nn.functional.leaky_relu(x, (low + high) / 2)


def glu(x: Tensor, dim: int = -1) -> Tensor:
    a, b = x.chunk(2, dim)
    return a * torch.sigmoid(b)


def frac(x: Tensor) -> Tensor:
    return x - torch.trunc(x)


def hypot(a: Tensor, b: Tensor) -> Tensor:
    return torch.sqrt(a * a + b * b)


def logaddexp(a: Tensor, b: Tensor) -> Tensor:
    return torch.maximum(a, b) + torch.nn.functional.softplus(-torch.abs(a - b))


def nan_to_num(x: Tensor, *_: Any) -> Tensor:
    """Integers of the NPU are neither NaN nor infinite."""
    return x.clone()


def heaviside(x: Tensor, values: Tensor) -> Tensor:
    return torch.where(x > 0, 1.0, torch.where(x < 0, torch.zeros_like(values), values))


# Division -----------------------------------------------------------------------------------------


def divided(a: Tensor, b: Any, rounding_mode: str | None = None) -> Tensor:
    """div with a rounding mode."""
    if rounding_mode is None:
        return a / b
    if _whole(a, b):
        if rounding_mode == "trunc":
            raise ValueError("integer division that needs no other words")
        return floor_divide(a, b)
    return torch.floor(a / b) if rounding_mode == "floor" else torch.trunc(a / b)


def floor_divide(a: Tensor, b: Any) -> Tensor:
    """Integers: what is cut towards zero, one less where the signs differ and a rest remains."""
    if not _whole(a, b):
        return torch.floor(a / b)
    cut = torch.div(a, b, rounding_mode="trunc")
    rest = a - cut * b
    below = (b < 0) if isinstance(b, Tensor) else torch.full_like(rest, b < 0, dtype=torch.bool)
    wrong = torch.logical_and(rest != 0, torch.logical_xor(rest < 0, below))
    return cut - wrong.to(cut.dtype)


def remainder(a: Tensor, b: Any) -> Tensor:
    """The rest behind floor."""
    return a - floor_divide(a, b) * b


def fmod(a: Tensor, b: Any) -> Tensor:
    """The rest behind trunc."""
    if _whole(a, b):
        return a - torch.div(a, b, rounding_mode="trunc") * b
    return a - torch.trunc(a / b) * b


def _whole(a: Any, b: Any) -> bool:
    """Whether both are integers; of float values, only numbers divide."""
    floats = [v.is_floating_point() if isinstance(v, Tensor) else isinstance(v, float) for v in
              (a, b)]  # fmt: skip
    if any(floats) and isinstance(b, Tensor) and b.dim():
        raise ValueError("rounded division of float values by a number only")
    return not any(floats)


def isinf(x: Tensor) -> Tensor:
    """Integers of the NPU are neither NaN nor infinite."""
    return torch.full_like(x, False, dtype=torch.bool)


# Reductions ---------------------------------------------------------------------------------------


def variance(x: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
             correction: float | None = None) -> Tensor:  # fmt: skip
    """The mean of squared distances from the mean; every spelling of var."""
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased in (None, True) else 0
    axes = _axes(x, dim)
    count = math.prod(x.shape[a] for a in axes)
    distance = x - x.mean(axes, keepdim=True)
    squares = (distance * distance).mean(axes, keepdim=keepdim)
    return squares if not correction else squares * (count / (count - correction))


def deviation(x: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
              correction: float | None = None) -> Tensor:  # fmt: skip
    return torch.sqrt(variance(x, dim, unbiased, keepdim, correction))


def variance_mean(x: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
                  correction: float | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    found = variance(x, dim, unbiased, keepdim, correction)
    axes = _axes(x, None if isinstance(dim, bool) else dim)
    return found, x.mean(axes, keepdim=keepdim)


def deviation_mean(x: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
                   correction: float | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    found, mean = variance_mean(x, dim, unbiased, keepdim, correction)
    return torch.sqrt(found), mean


def _axes(x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None or (not isinstance(dim, int) and not dim):
        return list(range(x.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False,
                dtype: torch.dtype | None = None) -> Tensor:  # fmt: skip
    """The p-norm along dimensions: 1, 2, ∞ and others."""
    axes = _axes(x, dim)
    if ord == 2:
        return torch.sqrt((x * x).sum(axes, keepdim=keepdim))
    size = torch.abs(x)
    if ord == math.inf:
        return size.amax(axes, keepdim=keepdim)
    if ord == -math.inf:
        return size.amin(axes, keepdim=keepdim)
    if ord == 1:
        return size.sum(axes, keepdim=keepdim)
    if ord <= 0:
        raise ValueError(f"norm of order {ord}: only positive ones")
    return (size**ord).sum(axes, keepdim=keepdim) ** (1 / ord)


def norm(x: Tensor, p: float | None = 2, dim: Any = None, keepdim: bool = False,
         dtype: torch.dtype | None = None) -> Tensor:  # fmt: skip
    return vector_norm(x, 2 if p is None else p, dim, keepdim)


def logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    axes = _axes(x, dim)
    top = x.amax(axes, keepdim=True)
    total = torch.exp(x - top).sum(axes, keepdim=True)
    found = top + torch.log(total)
    return found if keepdim else found.squeeze(axes)


def log_softmax(x: Tensor, dim: int, *_: Any, **__: Any) -> Tensor:
    """x − max − log Σ exp(x − max): the sum is at least 1, where the logarithm is a good table."""
    below = x - x.amax(dim, keepdim=True)
    return below - torch.log(torch.exp(below).sum(dim, keepdim=True))


def product(x: Tensor, dim: int | None = None, keepdim: bool = False, *,
            dtype: torch.dtype | None = None) -> Tensor:  # fmt: skip
    """Products of halves, as long as there are two."""
    if dim is None:
        x, dim = x.reshape(-1), 0
    while x.shape[dim] > 1:
        half, odd = divmod(x.shape[dim], 2)
        first, second, *last = x.split([half, half, 1] if odd else [half, half], dim)
        x = torch.cat([first * second, *last], dim) if odd else first * second
    return x if keepdim else x.squeeze(dim)


def every(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """all: none is zero."""
    wrong = torch.logical_not(x)
    axes = _axes(x, dim)
    found = torch.any(wrong, axes[0], keepdim=True)
    for axis in axes[1:]:
        found = torch.any(found, axis, keepdim=True)
    found = torch.logical_not(found)
    return found if keepdim else found.squeeze(axes)


def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return torch.argmax(-x, dim, keepdim)


def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    axes = _axes(x, dim)
    return x.amin(axes, keepdim=keepdim), x.amax(axes, keepdim=keepdim)


def count_nonzero(x: Tensor, dim: Any = None) -> Tensor:
    return (x != 0).sum(_axes(x, dim))


# Integers -----------------------------------------------------------------------------------------


def one_hot(indices: Tensor, classes: int = -1) -> Tensor:
    if classes < 0:
        raise ValueError("one_hot needs the number of classes")
    return (indices.unsqueeze(-1) == torch.arange(classes)).to(torch.int64)


def bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False,
              right: bool = False) -> Tensor:  # fmt: skip
    """The number of boundaries below each value."""
    x = x.unsqueeze(-1)
    below = x >= boundaries if right else x > boundaries
    return below.sum(-1)

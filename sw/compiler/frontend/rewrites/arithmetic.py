"""Functions of elements, reductions, comparisons and integers."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def add(a: Any, b: Any, alpha: float = 1) -> Tensor:
    """With a factor."""
    return a + b * alpha


def sub(a: Any, b: Any, alpha: float = 1) -> Tensor:
    return a - b * alpha


def lerp(a: Tensor, b: Tensor, weight: Any) -> Tensor:
    return a + (b - a) * weight


def clamp(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """Between tensors."""
    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


def fmax(a: Tensor, b: Tensor) -> Tensor:
    """Nothing is NaN or infinite on the NPU."""
    return torch.maximum(a, b)


def fmin(a: Tensor, b: Tensor) -> Tensor:
    return torch.minimum(a, b)


def sign(x: Tensor) -> Tensor:
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


def atan2(y: Tensor, x: Tensor) -> Tensor:
    """The angle of a point, from that of its place in an eighth of the circle."""
    high, wide = y.abs(), x.abs()
    ratio = torch.minimum(high, wide) / torch.maximum(high, wide).clamp_min(1e-12)
    angle = torch.atan(ratio)
    angle = torch.where(high > wide, math.pi / 2 - angle, angle)
    angle = torch.where(x < 0, math.pi - angle, angle)
    return torch.where(y < 0, -angle, angle)


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """relu(x) − w · relu(−x)."""
    if weight.numel() > 1:
        weight = weight.reshape(1, -1, *[1] * (x.dim() - 2))
    return torch.relu(x) - weight * torch.relu(-x)


def threshold(x: Tensor, limit: float, value: float) -> Tensor:
    return torch.where(x > limit, x, float(value))


def softshrink(x: Tensor, limit: float = 0.5) -> Tensor:
    return torch.relu(x - limit) - torch.relu(-x - limit)


def rrelu(
    x: Tensor, low: float = 1 / 8, high: float = 1 / 3, training: bool = False, **_: Any
) -> Tensor:
    """Outside training: a leaky relu of the mean slope."""
    if training:
        raise ValueError("rrelu in training mode is random")
    return torch.nn.functional.leaky_relu(x, (low + high) / 2)


def hypot(a: Tensor, b: Tensor) -> Tensor:
    return torch.sqrt(a * a + b * b)


def logaddexp(a: Tensor, b: Tensor) -> Tensor:
    return torch.maximum(a, b) + torch.nn.functional.softplus(-torch.abs(a - b))


def nan_to_num(x: Tensor, *_: Any) -> Tensor:
    """Nothing is NaN or infinite on the NPU."""
    return x.clone()


# Division -----------------------------------------------------------------------------------------


def div(a: Tensor, b: Any, rounding_mode: str | None = None) -> Tensor:
    """With a rounding mode."""
    if rounding_mode is None:
        return a / b
    if _whole(a, b):
        if rounding_mode == "trunc":
            raise ValueError("integer division that needs no other words")
        return _floor_divide(a, b)
    return torch.floor(a / b) if rounding_mode == "floor" else torch.trunc(a / b)


def _floor_divide(a: Tensor, b: Any) -> Tensor:
    """Integers: what is cut towards zero, one less where the signs differ and a rest remains."""
    cut = torch.div(a, b, rounding_mode="trunc")
    rest = a - cut * b
    below = (b < 0) if isinstance(b, Tensor) else torch.full_like(rest, b < 0, dtype=torch.bool)
    wrong = torch.logical_and(rest != 0, torch.logical_xor(rest < 0, below))
    return cut - wrong.to(cut.dtype)


def remainder(a: Tensor, b: Any) -> Tensor:
    """The rest behind floor."""
    return a - div(a, b, rounding_mode="floor") * b


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
    """Nothing is NaN or infinite on the NPU."""
    return torch.full_like(x, False, dtype=torch.bool)


isnan = isinf


# Reductions ---------------------------------------------------------------------------------------


def var_correction(
    x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """The mean of squared distances from the mean."""
    axes = _axes(x, dim)
    count = math.prod(x.shape[a] for a in axes)
    correction = 1 if correction is None else correction
    distance = x - x.mean(axes, keepdim=True)
    squares = (distance * distance).mean(axes, keepdim=keepdim)
    return squares if not correction else squares * (count / (count - correction))


def var_mean_correction(x: Tensor, dim: Any = None, **given: Any) -> tuple[Tensor, Tensor]:
    mean = x.mean(_axes(x, dim), keepdim=given.get("keepdim", False))
    return var_correction(x, dim, **given), mean


def std_mean_correction(x: Tensor, dim: Any = None, **given: Any) -> tuple[Tensor, Tensor]:
    variance, mean = var_mean_correction(x, dim, **given)
    return torch.sqrt(variance), mean


def _axes(x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None or (not isinstance(dim, int) and not dim):
        return list(range(x.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


def logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    axes = _axes(x, dim)
    top = x.amax(axes, keepdim=True)
    total = torch.exp(x - top).sum(axes, keepdim=True)
    found = top + torch.log(total)
    return found if keepdim else found.squeeze(axes)


def prod(x: Tensor, dim: int | None = None, keepdim: bool = False, **_: Any) -> Tensor:
    """Products of halves, as long as there are two."""
    if dim is None:
        x, dim = x.reshape(-1), 0
    while x.shape[dim] > 1:
        half, odd = divmod(x.shape[dim], 2)
        first, second, *last = x.split([half, half, 1] if odd else [half, half], dim)
        x = torch.cat([first * second, *last], dim) if odd else first * second
    return x if keepdim else x.squeeze(dim)


def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    turned = -x if x.is_floating_point() else -1 - x  # the least integer has no negative
    return torch.argmax(turned, dim, keepdim)


def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    axes = _axes(x, dim)
    return x.amin(axes, keepdim=keepdim), x.amax(axes, keepdim=keepdim)


# Integers -----------------------------------------------------------------------------------------


def neg(x: Tensor) -> Tensor:
    return x * -1


def abs(x: Tensor) -> Tensor:
    return torch.maximum(x, x * -1)


def square(x: Tensor) -> Tensor:
    return x * x


def pow(x: Tensor, exponent: Any) -> Tensor:
    """By a whole number that is positive."""
    if not isinstance(exponent, int) or exponent < 1 or x.is_floating_point():
        raise ValueError("pow of integers by a positive number, of float values by any")
    return prod(x.unsqueeze(0).expand(exponent, *x.shape), 0)


def one_hot(indices: Tensor, classes: int = -1) -> Tensor:
    if classes < 0:
        raise ValueError("one_hot needs the number of classes")
    return (indices.unsqueeze(-1) == torch.arange(classes)).to(torch.int64)


def bucketize(x: Tensor, boundaries: Tensor, *, right: bool = False, **_: Any) -> Tensor:
    """The number of boundaries below each value."""
    x = x.unsqueeze(-1)
    below = x >= boundaries if right else x > boundaries
    return below.sum(-1)

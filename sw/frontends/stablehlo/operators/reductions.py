"""Reductions, of dimensions and of windows."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, Row, dtype_of
from sw.frontends.stablehlo.errors import refused
from sw.frontends.stablehlo.operators.products import padded, pads_of

_NEUTRAL: dict[str, Any] = {"add": 0, "multiply": 1, "and": True, "or": False}


def _prod(x: T, dims: Sequence[int]) -> T:
    for dim in sorted(dims, reverse=True):
        x = torch.prod(x, dim)
    return x


def _sum(x: T, dims: Sequence[int]) -> T:
    return torch.sum(x, list(dims), dtype=x.dtype)


_REDUCERS: dict[str, Any] = {
    "add": _sum, "multiply": _prod, "maximum": torch.amax, "minimum": torch.amin,
    "and": torch.all, "or": torch.any,
}  # fmt: skip
_PAIRS: dict[str, Any] = {
    "add": torch.add, "multiply": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum,
    "and": torch.logical_and, "or": torch.logical_or,
}  # fmt: skip


def is_neutral(reducer: str, initial: Any, dtype: torch.dtype) -> bool:
    """Whether a reduction that begins with `initial` is one without it."""
    if reducer in _NEUTRAL:
        return bool(initial == _NEUTRAL[reducer])
    sign = -1 if reducer == "maximum" else 1
    if dtype.is_floating_point:
        return bool(initial * sign >= torch.finfo(torch.float32).max)
    limits = torch.iinfo(dtype)
    return bool(initial == (limits.min if sign < 0 else limits.max))


def _reduce(call: Call, *operands: T) -> Any:
    reducer, dims = call.get("reducer"), call.ints("dimensions")
    if reducer in ("argmax", "argmin"):
        return _place(call, operands[0], dims)
    if len(operands) != 2:
        raise refused("a reduction of several operands", "reduce one after the other")
    x, initial = operands
    made = _REDUCERS[reducer](x, dims) if dims else x
    number = call.constant(1, initial) if call.is_fixed(1) else None
    if number is not None and is_neutral(reducer, number, dtype_of(call.operands[0])):
        return made
    begin = initial if isinstance(initial, T) else torch.tensor(initial)
    return _PAIRS[reducer](made, begin)


def _place(call: Call, x: T, dims: Sequence[int]) -> tuple[T, T]:
    """The extreme value and where it is, along one dimension."""
    if len(dims) != 1:
        raise refused("an argmax over several dimensions", "reshape the operand first")
    (dim,) = dims
    largest = call.get("reducer") == "argmax"
    index = (torch.argmax if largest else torch.argmin)(x, dim)
    return (torch.amax if largest else torch.amin)(x, dim), index


# Windows --------------------------------------------------------------------------------------

_MAX: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


class _Window:
    """The dimensions of a window that are not of size 1, as PyTorch wants them: last."""

    def __init__(self, call: Call) -> None:
        shape = call.operands[0].shape
        rank = len(shape)
        size, strides = call.ints("window_dimensions"), call.ints("window_strides", [1] * rank)
        pads, dilation = pads_of(call, rank), call.ints("window_dilations", [1] * rank)
        if any(d > 1 for d in call.ints("base_dilations")):
            raise refused("a window over a dilated operand", "pad it first")
        moved = [d for d in range(rank) if size[d] > 1 or strides[d] > 1 or pads[d] != (0, 0)]
        while len(moved) < 2 and len(moved) < rank - 1:  # pools of rows are those of images
            moved = sorted([*moved, next(d for d in reversed(range(rank)) if d not in moved)])
        if not 1 <= len(moved) <= 3:
            raise refused(f"a window over {len(moved)} dimensions", "use up to 3")
        self.order = [*(d for d in range(rank) if d not in moved), *moved]
        self.size, self.strides = [size[d] for d in moved], [strides[d] for d in moved]
        self.pads, self.dilation = [pads[d] for d in moved], [dilation[d] for d in moved]
        self.inputs = [shape[d] for d in moved]
        self.outputs = [call.shape[d] for d in moved]
        self.rank = len(moved)

    def apply(self, x: T, pool: Any) -> T:
        """`pool` of `x` as [N, C, …], and back."""
        x = x.permute(*self.order) if self.order != sorted(self.order) else x
        outer = x.shape[: x.dim() - self.rank]
        if len(outer) != 2:
            x = x.reshape(1, math.prod(outer), *x.shape[len(outer) :])
        made = pool(x)
        made = made.reshape(*outer, *made.shape[2:]) if len(outer) != 2 else made
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return made.permute(*back) if back != sorted(back) else made

    def rounding(self) -> bool | None:
        """PyTorch's ceil_mode with which the padding in front makes as many windows; None: none."""
        if any(2 * low > k or low < 0 for (low, _), k in zip(self.pads, self.size, strict=True)):
            return None
        rows = list(zip(self.inputs, self.pads, self.size, self.strides, self.dilation,
                        strict=True))  # fmt: skip
        for ceil in (False, True):
            found = []
            for n, (low, _), k, s, d in rows:
                steps = n + 2 * low - d * (k - 1) - 1
                count = (-(-steps // s) if ceil else steps // s) + 1
                found.append(count - (ceil and (count - 1) * s >= n + low))
            if found == self.outputs:
                return ceil
        return None

    @property
    def low(self) -> list[int]:
        return [low for low, _ in self.pads]


def _reduce_window(call: Call, *operands: T) -> T:
    reducer = call.get("reducer")
    if len(operands) != 2 or reducer not in ("add", "maximum", "minimum"):
        raise refused(f"a window of {reducer}", "use max, min, sum or average")
    x, initial = operands
    if not is_neutral(reducer, call.constant(1, initial), dtype_of(call.operands[0])):
        raise refused("a window that begins with a value of its own", "begin with the neutral one")
    if reducer == "add":
        return _sums(call, x)
    window, floats = _Window(call), x.is_floating_point()
    sign = 1 if reducer == "maximum" else -1
    made = sign * window.apply(sign * (x if floats else x.float()), lambda y: _largest(window, y))
    return made if floats else made.to(x.dtype)


def _largest(window: _Window, x: T) -> T:
    ceil, padding = window.rounding(), window.low
    if ceil is None:
        x, ceil, padding = padded(x, window.pads, -math.inf), False, [0] * window.rank
    made: T = _MAX[window.rank](x, window.size, window.strides, padding, window.dilation, ceil)
    return made


def _is_cumulative(window: _Window) -> bool:
    return window.strides == [1] * window.rank and all(
        (k == n and pads == (n - 1, 0)) or (k == 1 and pads == (0, 0))
        for k, n, pads in zip(window.size, window.inputs, window.pads, strict=True)
    )


def _sums(call: Call, x: T) -> T:
    window = _Window(call)
    dims = [i for i, k in enumerate(call.ints("window_dimensions")) if k > 1]
    if len(dims) == 1 and _is_cumulative(window):
        return torch.cumsum(x, dims[0], dtype=x.dtype)
    made = window.apply(x.float(), lambda y: _average(window, y, True))
    return (made * math.prod(window.size)).to(x.dtype)


def _average(window: _Window, x: T, padding_counts: bool) -> T:
    if any(d > 1 for d in window.dilation):
        raise refused("a sum over a dilated window", "use a convolution")
    ceil, padding = window.rounding(), window.low
    if padding_counts and ceil is not False:
        x, ceil, padding = padded(x, window.pads), False, [0] * window.rank
    if ceil is None:
        raise refused("an average over a window with such a padding", "pad the operand first")
    made: T = _AVERAGE[window.rank](x, window.size, window.strides, padding, ceil, padding_counts)
    return made


def _average_window(call: Call, x: T) -> T:
    """A sum over a window that is divided by its size, or by how much of it lies inside."""
    window, counts = _Window(call), bool(call.get("padding_counts"))
    return window.apply(x, lambda y: _average(window, y, counts))


def _mean(call: Call, x: T) -> T:
    return torch.mean(x, call.ints("dimensions"))


REDUCTIONS = {
    "reduce": Row(function=_reduce, numbers=1),
    "reduce_window": Row(function=_reduce_window, numbers=1),
    "average_window": Row(function=_average_window),
    "mean": Row(function=_mean),
}

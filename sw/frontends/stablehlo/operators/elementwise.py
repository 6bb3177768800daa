"""Elementwise operations. Operands are tensors, or numbers where a constant is one."""

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, Function, Row, dtype_of
from sw.frontends.stablehlo.errors import refused


def plain(function: Function) -> Row:
    """An operation that is a function of its operands alone."""
    return Row(function=lambda call, *operands: function(*operands), elementwise=True)


def _row(function: Function) -> Row:
    return Row(function=function, elementwise=True)


def _is_integer(call: Call) -> bool:
    return not dtype_of(call.results[0]).is_floating_point


def _divide(call: Call, a: Any, b: Any) -> Any:
    if _is_integer(call):
        return torch.div(_tensor(a), b, rounding_mode="trunc")
    return a / b


def _tensor(a: Any) -> T:
    return a if isinstance(a, T) else torch.tensor(a)


def _maximum(a: Any, b: Any) -> T:
    if not isinstance(a, T):
        a, b = b, a
    if isinstance(b, T):
        return torch.maximum(a, b)
    return torch.relu(a) if b == 0 else torch.clamp(a, min=b)


def _minimum(a: Any, b: Any) -> T:
    if not isinstance(a, T):
        a, b = b, a
    return torch.minimum(a, b) if isinstance(b, T) else torch.clamp(a, max=b)


def _clamp(low: Any, x: Any, high: Any) -> T:
    if not isinstance(low, T) and not isinstance(high, T):
        return torch.clamp(_tensor(x), low, high)
    return _minimum(_maximum(_tensor(x), low), high)


_COMPARISONS: dict[str, Any] = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le,
    "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip


def _compare(call: Call, a: Any, b: Any) -> Any:
    direction = call.get("comparison_direction")
    if direction not in _COMPARISONS:
        raise refused(f"comparison {direction}")
    return _COMPARISONS[direction](a, b)


def _power(a: Any, b: Any) -> T:
    if not isinstance(b, T) and b == int(b):
        b = int(b)
    return torch.pow(a, b)


def _bitwise(on_bools: Function, on_integers: Function) -> Row:
    def function(call: Call, *operands: Any) -> T:
        bools = call.results[0].element == "i1"
        made: T = (on_bools if bools else on_integers)(*map(_tensor, operands))
        return made

    return _row(function)


def _convert(call: Call, x: Any) -> T:
    dtype = dtype_of(call.results[0])
    x = _tensor(x)
    return x != 0 if dtype is torch.bool and x.dtype is not torch.bool else x.to(dtype)


def _round_half_away(x: T) -> T:
    return torch.sign(x) * torch.floor(torch.abs(x) + 0.5)


def _function(call: Call, *operands: T) -> T:
    """One of PyTorch's functions, which a group of operations was recognized as.

    names: of the operands, the first being x. options: its other arguments.
    """
    x, *more = operands
    given = {**dict(zip(call.get("names", ()), more, strict=True)), **call.get("options", {})}
    name = call.get("name")
    found: T = (getattr(F, name, None) or getattr(torch, name))(x, **given)
    return found


_UNARY: dict[str, Function] = {
    "abs": torch.abs, "cbrt": lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3),
    "ceil": torch.ceil, "cosine": torch.cos, "exponential": torch.exp,
    "exponential_minus_one": torch.expm1, "floor": torch.floor, "is_finite": torch.isfinite,
    "log": torch.log, "log_plus_one": torch.log1p, "logistic": torch.sigmoid,
    "negate": torch.neg, "round_nearest_afz": _round_half_away,
    "round_nearest_even": torch.round, "rsqrt": torch.rsqrt, "sign": torch.sign,
    "sine": torch.sin, "sqrt": torch.sqrt, "tan": torch.tan, "tanh": torch.tanh,
    "optimization_barrier": lambda x: x,
    "chlo.acos": torch.acos, "chlo.acosh": torch.acosh, "chlo.asin": torch.asin,
    "chlo.asinh": torch.asinh, "chlo.atan": torch.atan, "chlo.atanh": torch.atanh,
    "chlo.cosh": torch.cosh, "chlo.erf": torch.erf, "chlo.erfc": torch.erfc,
    "chlo.is_inf": torch.isinf, "chlo.sinh": torch.sinh, "chlo.square": torch.square,
    "chlo.tan": torch.tan,
}  # fmt: skip

_BINARY: dict[str, Function] = {
    "add": operator.add, "atan2": lambda a, b: torch.atan2(_tensor(a), _tensor(b)),
    "maximum": _maximum, "minimum": _minimum, "multiply": operator.mul, "power": _power,
    "remainder": lambda a, b: torch.fmod(_tensor(a), b),
    "shift_left": operator.lshift, "shift_right_arithmetic": operator.rshift,
    "subtract": operator.sub,
}  # fmt: skip

ELEMENTWISE: dict[str, Row] = {
    **{kind: plain(function) for kind, function in _UNARY.items()},
    **{kind: plain(function) for kind, function in _BINARY.items()},
    "and": _bitwise(torch.logical_and, torch.bitwise_and),
    "or": _bitwise(torch.logical_or, torch.bitwise_or),
    "xor": _bitwise(torch.logical_xor, torch.bitwise_xor),
    "not": _bitwise(torch.logical_not, torch.bitwise_not),
    "clamp": plain(_clamp),
    "compare": _row(_compare),
    "convert": _row(_convert),
    "divide": _row(_divide),
    "select": plain(torch.where),
    "function": Row(function=_function),
}
for _name in ("add", "atan2", "maximum", "minimum", "multiply", "power", "remainder", "subtract"):
    ELEMENTWISE[f"chlo.broadcast_{_name}"] = plain(_BINARY[_name])
ELEMENTWISE["chlo.broadcast_divide"] = _row(_divide)
ELEMENTWISE["chlo.broadcast_compare"] = _row(_compare)
ELEMENTWISE["chlo.broadcast_select"] = plain(torch.where)

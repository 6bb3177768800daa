"""Elementwise arithmetic, comparison and logic."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor as T

from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op
from sw.frontends.onnx.types import dtype_of


def number(value: Any) -> Any:
    """A constant of one element as a number, anything else as it is."""
    return value.item() if isinstance(value, np.ndarray) else value


def _unary(function: Callable[[T], T]) -> Any:
    return op(lambda node, x: function(x))


def operands(a: Any, b: Any) -> tuple[Any, Any]:
    """Operands of Python's operators: a constant becomes a number where the shape stays."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return torch.from_numpy(a), torch.from_numpy(b)
    if isinstance(a, np.ndarray):
        return _scalar(a, b), b
    return (a, _scalar(b, a)) if isinstance(b, np.ndarray) else (a, b)


def _scalar(constant: Any, other: T) -> Any:
    return constant.item() if constant.ndim <= other.dim() else torch.from_numpy(constant)


def _binary(function: Callable[[Any, Any], Any]) -> Any:
    return op(lambda node, a, b: function(*operands(a, b)), numbers=(0, 1))


def _tensors(function: Callable[[T, T], T]) -> Any:
    return op(lambda node, a, b: function(a, b))


def _div(a: Any, b: Any) -> Any:
    tensor = a if isinstance(a, T) else b
    if tensor.is_floating_point():
        return a / b
    return torch.div(torch.as_tensor(a), b, rounding_mode="trunc").to(tensor.dtype)


def _pow(node: Node, a: T, b: Any) -> T:
    _, b = operands(a, b)
    return torch.pow(a, b).to(a.dtype)


def _mod(node: Node, a: T, b: T) -> T:
    return torch.fmod(a, b) if node.only("fmod", 0, 1) else torch.remainder(a, b)


def _shift(node: Node, a: T, b: T) -> T:
    left = node.only("direction", "LEFT", "RIGHT") == "LEFT"
    return torch.bitwise_left_shift(a, b) if left else torch.bitwise_right_shift(a, b)


def _variadic(function: Callable[[T, T], T]) -> Any:
    return op(lambda node, *xs: functools.reduce(function, xs))


def _mean(node: Node, *xs: T) -> T:
    return functools.reduce(torch.add, xs) / len(xs)


def _clip(node: Node, x: T, low: Any = None, high: Any = None) -> T:
    low, high = number(low), number(high)
    for bound, limit in ((low, torch.maximum), (high, torch.minimum)):
        if isinstance(bound, T):
            x = limit(x, bound)
    low, high = (None if isinstance(b, T) else b for b in (low, high))
    return x if low is None and high is None else torch.clamp(x, low, high)


def _cast(node: Node, x: T) -> T:
    node.ignore("saturate", "round_mode")
    return x.to(dtype_of(node.get("to")))


def _cast_like(node: Node, x: T, like: T) -> T:
    node.ignore("saturate", "round_mode")
    return x.to(like.dtype)


def _is_inf(node: Node, x: T) -> T:
    positive, negative = node.get("detect_positive", 1), node.get("detect_negative", 1)
    found = torch.zeros_like(x, dtype=torch.bool)
    if positive:
        found = found | (x == torch.inf)
    return found | (x == -torch.inf) if negative else found


UNARY = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "BitwiseNot": torch.bitwise_not,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Det": torch.linalg.det,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "IsNaN": torch.isnan,
    "Log": torch.log,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Round": torch.round,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
}

ELEMENTWISE = {
    **{name: _unary(function) for name, function in UNARY.items()},
    "Add": _binary(operator.add),
    "Sub": _binary(operator.sub),
    "Mul": _binary(operator.mul),
    "Div": _binary(_div),
    "Pow": op(_pow, numbers=(1,)),
    "Mod": op(_mod),
    "And": _tensors(torch.logical_and),
    "Or": _tensors(torch.logical_or),
    "Xor": _tensors(torch.logical_xor),
    "BitwiseAnd": _tensors(torch.bitwise_and),
    "BitwiseOr": _tensors(torch.bitwise_or),
    "BitwiseXor": _tensors(torch.bitwise_xor),
    "BitShift": op(_shift),
    "Equal": _tensors(torch.eq),
    "Greater": _tensors(torch.gt),
    "GreaterOrEqual": _tensors(torch.ge),
    "Less": _tensors(torch.lt),
    "LessOrEqual": _tensors(torch.le),
    "Where": op(lambda node, c, a, b: torch.where(c, a, b)),
    "Max": _variadic(torch.maximum),
    "Min": _variadic(torch.minimum),
    "Sum": _variadic(torch.add),
    "Mean": op(_mean),
    "Clip": op(_clip, numbers=(1, 2)),
    "Cast": op(_cast),
    "CastLike": op(_cast_like),
    "IsInf": op(_is_inf),
}

"""Arithmetic, activations, norms, reductions."""

import math
from collections.abc import Callable
from typing import Any

from sw.frontends.onnx.errors import refused
from sw.frontends.tvm.call import HINT, Call

Row = Callable[[Call], Any]


def _plain(kind: str, operands: int = 1, **attributes: Any) -> Row:
    """An operator that ONNX has by another name."""
    return lambda c: c.add(kind, *(c.x(i) for i in range(operands)), **attributes)


def _clip(c: Call) -> Any:
    return c.add("Clip", c.x(), _like(c, c.number(1)), _like(c, c.number(2)))


def _like(c: Call, number: Any) -> Any:
    """A number as a constant of the first operand's type."""
    return c.graph.value(c.x()).new_tensor(number)


def _rsqrt(c: Call) -> Any:
    return c.add("Reciprocal", c.add("Sqrt", c.x()))


def _silu(c: Call) -> Any:
    return c.add("Mul", c.x(), c.add("Sigmoid", c.x()))


def _softplus(c: Call) -> Any:
    if c.get("beta", 1.0) != 1.0:
        raise refused("a softplus with beta", HINT)
    return c.add("Softplus", c.x())


def _prelu(c: Call) -> Any:
    rank, (axis,) = len(c.shape()), c.axes("axis") or [1]
    slope = c.x(1)
    if len(c.shape(1)) == 1 and c.shape(1)[0] > 1:
        slope = c.add("Reshape", slope, [-1 if i == axis else 1 for i in range(rank)])
    return c.add("PRelu", c.x(), slope)


def _batch_norm(c: Call) -> Any:
    """(result, mean, variance): the last two are the operands, which inference does not change."""
    if c.get("training", False):
        raise refused("a batch norm in training", "export the model in inference mode")
    rank, (axis,) = len(c.shape()), c.axes("axis") or [1]
    order = [axis, *(i for i in range(rank) if i != axis)]
    order = [order[1], order[0], *order[2:]] if rank > 1 else order
    x = c.x() if axis == 1 else c.add("Transpose", c.x(), perm=order)
    ones, zeros = [1.0] * c.shape(3)[0], [0.0] * c.shape(3)[0]
    scale = c.x(1) if c.get("scale", True) else _floats(c, ones)
    offset = c.x(2) if c.get("center", True) else _floats(c, zeros)
    made = c.add("BatchNormalization", x, scale, offset, c.x(3), c.x(4), epsilon=c.get("epsilon"))
    if axis != 1:
        made = c.add("Transpose", made, perm=sorted(range(rank), key=order.__getitem__))
    return made, c.x(3), c.x(4)


def _floats(c: Call, values: list[float]) -> Any:
    return c.graph.value(c.x()).new_tensor(values)


def _last(c: Call, name: str = "axes") -> int:
    """The first of the last dimensions, which an attribute names."""
    rank = len(c.shape())
    axes = sorted(c.axes(name) or [rank - 1])
    if axes != list(range(axes[0], rank)):
        raise refused(f"a norm over dimensions {axes} of {rank}", HINT)
    return axes[0]


def _layer_norm(c: Call) -> Any:
    axis = _last(c)
    count = math.prod(c.shape()[axis:])
    scale = c.x(1) if c.get("scale", True) else _floats(c, [1.0] * count)
    offset = c.x(2) if c.get("center", True) else None
    return c.add("LayerNormalization", c.x(), scale, offset, axis=axis, epsilon=c.get("epsilon"))


def _rms_norm(c: Call) -> Any:
    return c.add("RMSNormalization", c.x(), c.x(1), axis=_last(c), epsilon=c.get("epsilon"))


def _group_norm(c: Call) -> Any:
    if c.axes("channel_axis") != [1] or c.axes("axes") != list(range(2, len(c.shape()))):
        raise refused("a group norm that is not over [N, C, …]", HINT)
    groups = int(c.get("num_groups"))
    channels = c.shape()[1]
    scale = c.x(1) if c.get("scale", True) else _floats(c, [1.0] * channels)
    offset = c.x(2) if c.get("center", True) else _floats(c, [0.0] * channels)
    more = {"num_groups": groups, "epsilon": c.get("epsilon")}
    return c.add("GroupNormalization", c.x(), scale, offset, **more)


def _reduction(kind: str) -> Row:
    def row(c: Call) -> Any:
        axes = c.axes() or list(range(len(c.shape())))
        return c.add(kind, c.x(), axes, keepdims=int(c.get("keepdims", False)))

    return row


def _moment(root: bool) -> Row:
    """The variance, or its root: the mean square of the distance from the mean."""

    def row(c: Call) -> Any:
        axes, keep = c.axes() or list(range(len(c.shape()))), int(c.get("keepdims", False))
        away = c.add("Sub", c.x(), c.add("ReduceMean", c.x(), axes, keepdims=1))
        made = c.add("ReduceMean", c.add("Mul", away, away), axes, keepdims=keep)
        return c.add("Sqrt", made) if root else made

    return row


def _arg(kind: str) -> Row:
    def row(c: Call) -> Any:
        axes = c.axes()
        if axes is None:
            raise refused("the place among all elements", HINT)
        return c.add(kind, c.x(), axis=axes[0], keepdims=int(c.get("keepdims", False)))

    return row


def _cumulative(kind: str) -> Row:
    def row(c: Call) -> Any:
        axes = c.axes()
        if axes is None or c.get("exclusive", False):
            raise refused("a running sum over all elements, or an exclusive one", HINT)
        return c.add(kind, c.x(), axes[0])

    return row


_UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf",
    "exp": "Exp", "floor": "Floor", "isnan": "IsNaN", "log": "Log", "logical_not": "Not",
    "negative": "Neg", "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin",
    "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "nn.relu": "Relu",
    "nn.gelu": "Gelu", "nn.selu": "Selu",
}  # fmt: skip
_BINARY = {
    "add": "Add", "divide": "Div", "equal": "Equal", "greater": "Greater",
    "greater_equal": "GreaterOrEqual", "less": "Less", "less_equal": "LessOrEqual",
    "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "maximum": "Max",
    "minimum": "Min", "multiply": "Mul", "power": "Pow", "subtract": "Sub",
}  # fmt: skip
_REDUCTIONS = {
    "max": "ReduceMax", "mean": "ReduceMean", "min": "ReduceMin", "prod": "ReduceProd",
    "sum": "ReduceSum",
}  # fmt: skip

ELEMENTWISE: dict[str, Row] = {
    **{name: _plain(kind) for name, kind in _UNARY.items()},
    **{name: _plain(kind, 2) for name, kind in _BINARY.items()},
    **{name: _reduction(kind) for name, kind in _REDUCTIONS.items()},
    "argmax": _arg("ArgMax"),
    "argmin": _arg("ArgMin"),
    "astype": lambda c: c.cast(c.x(), c.get("dtype")),
    "clip": _clip,
    "cumsum": _cumulative("CumSum"),
    "not_equal": lambda c: c.add("Not", c.add("Equal", c.x(0), c.x(1))),
    "nn.batch_norm": _batch_norm,
    "nn.dropout": lambda c: (c.x(), c.x()),
    "nn.gelu_tanh": _plain("Gelu", approximate="tanh"),
    "nn.group_norm": _group_norm,
    "nn.layer_norm": _layer_norm,
    "nn.leakyrelu": lambda c: c.add("LeakyRelu", c.x(), alpha=c.get("alpha")),
    "nn.log_softmax": lambda c: c.add("LogSoftmax", c.x(), axis=c.get("axis", -1)),
    "nn.prelu": _prelu,
    "nn.rms_norm": _rms_norm,
    "nn.silu": _silu,
    "nn.softmax": lambda c: c.add("Softmax", c.x(), axis=c.get("axis", -1)),
    "nn.softplus": _softplus,
    "rsqrt": _rsqrt,
    "square": lambda c: c.add("Mul", c.x(), c.x()),
    "std": _moment(root=True),
    "variance": _moment(root=False),
    "where": _plain("Where", 3),
}

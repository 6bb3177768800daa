"""Arithmetic, activations, reductions, norms, products."""

import math
from collections.abc import Callable
from typing import Any

from sw.frontends.nnef.call import HINT, Call
from sw.frontends.onnx.errors import refused

Row = Callable[[Call], Any]


def _unary(kind: str) -> Row:
    return lambda c: c.add(kind, c.x())


def _binary(kind: str, first: str = "x", second: str = "y") -> Row:
    return lambda c: c.add(kind, *c.aligned(c.x(first), c.x(second)))


def _number(c: Call, like: str, value: float) -> str:
    return c.graph.hold(c.graph.value(like).new_tensor(float(value)))


def _not_equal(c: Call) -> Any:
    return c.add("Not", c.add("Equal", *c.aligned(c.x("x"), c.x("y"))))


def _select(c: Call) -> Any:
    names = ("condition", "true_value", "false_value")
    return c.add("Where", *c.aligned(*map(c.x, names)))


def _clamp(c: Call) -> Any:
    x, low, high = c.aligned(c.x("x"), c.x("a"), c.x("b"))
    if not c.shape(low) and not c.shape(high):
        return c.add("Clip", x, low, high)
    return c.add("Max", c.add("Min", x, high), low)


def _square(c: Call) -> Any:
    return c.add("Mul", c.x(), c.x())


def _rsqrt(c: Call) -> Any:
    return c.add("Reciprocal", c.add("Sqrt", c.x()))


def _silu(c: Call) -> Any:
    return c.add("Mul", c.x(), c.add("Sigmoid", c.x()))


def _gelu(c: Call) -> Any:
    """As the language defines it: by a sigmoid of 1.702 x."""
    x = c.x()
    return c.add("Mul", x, c.add("Sigmoid", c.add("Mul", x, _number(c, x, 1.702))))


def _selu(c: Call) -> Any:
    return c.add("Selu", c.x(), alpha=float(c.get("alpha")), gamma=float(c.get("lambda")))


def _softmax(c: Call) -> Any:
    axes = c.axes()
    if len(axes) != 1:
        raise refused(f"a softmax over dimensions {axes}", "reshape them to one")
    return c.add("Softmax", c.x(), axis=axes[0])


def _reduction(kind: str) -> Row:
    return lambda c: c.add(kind, c.x("input"), c.axes(), keepdims=1)


def _sum(c: Call) -> Any:
    kind = "ReduceMean" if c.get("normalize") else "ReduceSum"
    return c.add(kind, c.x("input"), c.axes(), keepdims=1)


def _arg(kind: str) -> Row:
    def row(c: Call) -> Any:
        axes = c.axes()
        if len(axes) != 1:
            raise refused(f"a place among dimensions {axes}", "reshape them to one")
        return c.add(kind, c.x("input"), axis=axes[0], keepdims=1)

    return row


def _matmul(c: Call) -> Any:
    a, b = c.x("A"), c.x("B")
    return c.add("MatMul", _turned(c, a, "transposeA"), _turned(c, b, "transposeB"))


def _turned(c: Call, x: str, name: str) -> str:
    if not c.get(name):
        return x
    rank = len(c.shape(x))
    return str(c.add("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2]))


def _linear(c: Call) -> Any:
    x, weight, bias = c.x("input"), c.x("filter"), c.x("bias")
    if len(c.shape(weight)) != 2 or len(c.shape(x)) != 2:
        raise refused(f"a linear layer of {list(c.shape(x))}", "reshape it to two dimensions")
    outputs, value = c.shape(weight)[0], c.graph.constant(bias)
    if value is not None and value.numel() == 1 and not bool(value):
        return c.add("Gemm", x, weight, transB=1)
    if math.prod(c.shape(bias)) == outputs:
        return c.add("Gemm", x, weight, c.shaped(bias, [outputs]), transB=1)
    made = c.add("Gemm", x, weight, transB=1)
    return c.add("Add", *c.aligned(made, bias))


def _batch_norm(c: Call) -> Any:
    x = c.x("input")
    channels = c.shape(x)[1] if len(c.shape(x)) > 1 else 0
    parts = {name: c.x(name) for name in ("scale", "offset", "mean", "variance")}
    epsilon = float(c.get("epsilon"))
    if all(c.shape(part) == (1, channels) for part in parts.values()):
        flat = [c.shaped(part, [channels]) for part in parts.values()]
        return c.add("BatchNormalization", x, *flat, epsilon=epsilon)
    scale, offset, mean, variance = parts.values()
    root = c.add("Sqrt", c.add("Add", variance, _number(c, x, epsilon)))
    away = c.add("Sub", *c.aligned(x, mean))
    scaled = c.add("Div", *c.aligned(c.add("Mul", *c.aligned(away, scale)), root))
    return c.add("Add", *c.aligned(scaled, offset))


def _local_response(c: Call) -> Any:
    size, x = c.ints("size"), c.x("input")
    if [n for i, n in enumerate(size) if i != 1] != [1] * (len(c.shape(x)) - 1):
        raise refused(f"a local response over {size}", HINT)
    how: dict[str, Any] = {name: float(c.get(name)) for name in ("alpha", "beta", "bias")}
    return c.add("LRN", x, size=size[1], **how)


def _add_n(c: Call) -> Any:
    return c.add("Sum", *c.aligned(*c.xs("x")))


_UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "copy": "Identity", "cos": "Cos",
    "cosh": "Cosh", "exp": "Exp", "floor": "Floor", "log": "Log", "neg": "Neg", "not": "Not",
    "rcp": "Reciprocal", "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign",
    "sin": "Sin", "sinh": "Sinh", "softplus": "Softplus", "sqrt": "Sqrt", "tan": "Tan",
    "tanh": "Tanh",
}  # fmt: skip
_BINARY = {
    "add": "Add", "and": "And", "div": "Div", "eq": "Equal", "ge": "GreaterOrEqual",
    "gt": "Greater", "le": "LessOrEqual", "lt": "Less", "max": "Max", "min": "Min", "mul": "Mul",
    "or": "Or", "pow": "Pow", "sub": "Sub",
}  # fmt: skip

ELEMENTWISE: dict[str, Row] = {
    **{name: _unary(kind) for name, kind in _UNARY.items()},
    **{name: _binary(kind) for name, kind in _BINARY.items()},
    "add_n": _add_n,
    "argmax_reduce": _arg("ArgMax"),
    "argmin_reduce": _arg("ArgMin"),
    "batch_normalization": _batch_norm,
    "clamp": _clamp,
    "elu": lambda c: c.add("Elu", c.x(), alpha=float(c.get("alpha"))),
    "gelu": _gelu,
    "leaky_relu": lambda c: c.add("LeakyRelu", c.x(), alpha=float(c.get("alpha"))),
    "linear": _linear,
    "local_response_normalization": _local_response,
    "matmul": _matmul,
    "max_reduce": _reduction("ReduceMax"),
    "mean_reduce": _reduction("ReduceMean"),
    "min_reduce": _reduction("ReduceMin"),
    "ne": _not_equal,
    "prelu": _binary("PRelu", "x", "alpha"),
    "rsqrt": _rsqrt,
    "select": _select,
    "selu": _selu,
    "silu": _silu,
    "softmax": _softmax,
    "sqr": _square,
    "sum_reduce": _sum,
}

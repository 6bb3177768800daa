"""Layer norms and RMS norms over the last dimension, with their scales and offsets."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor as T

from sw.frontends.stablehlo.graph import Graph, narrowed, operation
from sw.frontends.stablehlo.groups.match import Matcher
from sw.frontends.stablehlo.records import Op


def norms(graph: Graph) -> None:
    """Put one operation in place of (x − mean) / √(variance + ε) · γ + β and of x / √(…) · γ."""
    matcher = Matcher(graph)
    found: dict[int, Op] = {}
    for op in graph.ops:
        made = _normalized(matcher, op) or _scaled(matcher, op, found)
        if made is not None:
            found[op.results[0]] = made
    graph.ops = [found.get(op.results[0], op) for op in graph.ops]


def _normalized(matcher: Matcher, op: Op) -> Op | None:
    for x, spread in _quotients(matcher, op):
        centred = matcher.made(x, "subtract")
        if centred is not None:
            source, mean = centred.operands
            if _is_mean(matcher, mean, source):
                eps = _variance(matcher, spread, source, mean, x)
                if eps is not None:
                    return _function(matcher, op, "layer_norm", source, eps)
        eps = _offset(matcher, spread, lambda v, x=x: _is_mean_square(matcher, v, x))
        if eps is not None:
            return _function(matcher, op, "rms_norm", x, eps)
    return None


def _function(matcher: Matcher, op: Op, name: str, x: int, eps: float) -> Op:
    size = matcher.graph.shape(x)[-1]
    options = {"normalized_shape": [size], "eps": eps}
    return operation(op, "function", [x], op.results, name=name, options=options, names=())


def _quotients(matcher: Matcher, op: Op) -> Iterator[tuple[int, int]]:
    """(x, y) where the operation computes x / √y."""
    if op.kind == "multiply":
        for x, factor in (op.operands, op.operands[::-1]):
            root = matcher.made(factor, "rsqrt")
            if root is not None:
                yield x, root.operands[0]
    if op.kind == "divide":
        root = matcher.made(op.operands[1], "sqrt")
        if root is not None:
            yield op.operands[0], root.operands[0]


def _offset(matcher: Matcher, value: int, test: Any) -> float | None:
    """ε where the value is what the test says plus ε."""
    for variance, eps in matcher.pairs(value, "add"):
        number = matcher.graph.number(eps)
        if number is not None and number >= 0 and test(variance):
            return float(number)
    return None


def _is_mean(matcher: Matcher, value: int, x: int) -> bool:
    """Whether a value is the mean of x over its last dimension."""
    found = matcher.reduced(value, "mean")
    last = len(matcher.graph.shape(x)) - 1
    return found is not None and found.is_kept and found.source == x and found.dims == (last,)


def _is_mean_square(matcher: Matcher, value: int, x: int) -> bool:
    found = matcher.reduced(value, "mean")
    if found is None or found.dims != (len(matcher.graph.shape(x)) - 1,) or not found.is_kept:
        return False
    square = matcher.made(found.source, "multiply", "chlo.square", "power")
    if square is None or square.operands[0] != x:
        return False
    if square.kind == "power":
        return bool(matcher.graph.number(square.operands[1]) == 2)
    return all(operand == x for operand in square.operands)


def _variance(matcher: Matcher, spread: int, x: int, mean: int, centred: int) -> float | None:
    """ε, if the value is the variance of x plus it: mean (x − mean)², or mean x² − mean²."""

    def test(value: int) -> bool:
        for inner, zero in matcher.pairs(value, "maximum"):
            if matcher.graph.number(zero) == 0:
                return test(inner)
        relu = matcher.made(value, "function")
        if relu is not None and relu.attributes["name"] == "relu":
            return test(relu.operands[0])
        found = matcher.reduced(value, "mean")
        square = matcher.made(found.source, "multiply") if found else None
        if square is not None and _is_mean_square(matcher, value, square.operands[0]):
            y = square.operands[0]
            if y == centred or (
                (again := matcher.made(y, "subtract")) is not None
                and again.operands[0] == x
                and _is_mean(matcher, again.operands[1], x)
            ):
                return True
        for squares, less in matcher.pairs(value, "subtract"):
            product = matcher.made(less, "multiply")
            if product is not None and all(_is_mean(matcher, v, x) for v in product.operands):
                return _is_mean_square(matcher, squares, x)
        return False

    return _offset(matcher, spread, test)


def _scaled(matcher: Matcher, op: Op, found: dict[int, Op]) -> Op | None:
    """A norm with the constants of its last dimension that it is multiplied with, or added."""
    if op.kind not in ("multiply", "add"):
        return None
    wanted = "weight" if op.kind == "multiply" else "bias"
    for x, other in (op.operands, op.operands[::-1]):
        norm = found.get(x)
        if norm is None or other not in matcher.graph.constants or matcher.uses[x] > 1:
            continue
        names = norm.attributes["names"]
        size = matcher.graph.shape(norm.operands[0])[-1]
        vector = _vector(matcher.graph.constants[other], size)
        takes = wanted == "weight" or norm.attributes["name"] == "layer_norm"
        if vector is None or not takes or wanted in names or "bias" in names:
            continue
        operands = [*norm.operands, matcher.graph.hold(vector)]
        attributes = {**norm.attributes, "names": (*names, wanted)}
        return operation(op, "function", operands, op.results, **attributes)
    return None


def _vector(constant: T, size: int) -> T | None:
    """A constant that differs along the last dimension only, as a vector."""
    small = narrowed(constant)
    if small.numel() == 1:
        return small.reshape(1).expand(size).contiguous()
    return small.reshape(-1).contiguous() if small.shape[-1] == size == small.numel() else None

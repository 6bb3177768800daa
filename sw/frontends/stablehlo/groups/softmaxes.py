"""Softmax and log-softmax, whichever way their operand was shifted."""

from sw.frontends.stablehlo.graph import Graph, operation
from sw.frontends.stablehlo.groups.match import Matcher
from sw.frontends.stablehlo.records import Op


def softmaxes(graph: Graph) -> None:
    """e / Σe with e = exp(x), and x − log Σ exp(x)."""
    matcher = Matcher(graph)
    graph.ops = [_softmax(matcher, op) or _log_softmax(matcher, op) or op for op in graph.ops]


def _softmax(matcher: Matcher, op: Op) -> Op | None:
    if op.kind != "divide":
        return None
    power, total = op.operands
    exponential = matcher.made(power, "exponential")
    found = matcher.reduced(total, "reduce", "add")
    if exponential is None or found is None or found.source != power or not found.is_kept:
        return None
    return _named(matcher, op, "softmax", exponential.operands[0], found.dims)


def _log_softmax(matcher: Matcher, op: Op) -> Op | None:
    if op.kind != "subtract":
        return None
    x, logarithm = op.operands
    reshaped = matcher.made(logarithm, "reshape")
    log = matcher.made(reshaped.operands[0] if reshaped else logarithm, "log")
    found = matcher.reduced(log.operands[0], "reduce", "add") if log else None
    exponential = matcher.made(found.source, "exponential") if found else None
    if found is None or exponential is None or exponential.operands[0] != x:
        return None
    kept = [1 if d in found.dims else n for d, n in enumerate(matcher.graph.shape(x))]
    if list(matcher.graph.shape(logarithm)) != kept:
        return None
    return _named(matcher, op, "log_softmax", x, found.dims)


def _named(matcher: Matcher, op: Op, name: str, x: int, dims: tuple[int, ...]) -> Op | None:
    """The function of x without what was subtracted from each row, which changes nothing."""
    if len(dims) != 1:
        return None
    shift = matcher.made(x, "subtract")
    if shift is not None:
        y, less = shift.operands
        shape, row = matcher.graph.shape(less), matcher.graph.shape(y)
        if row == matcher.graph.shape(x) and len(shape) == len(row) and shape[dims[0]] == 1:
            x = y
    return operation(op, "function", [x], op.results, name=name, options={"dim": dims[0]})

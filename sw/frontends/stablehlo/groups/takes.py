"""Indexing as JAX writes it: negative indices counted from the end, others out of range NaN."""

import math
from dataclasses import replace

from sw.frontends.stablehlo.graph import Graph
from sw.frontends.stablehlo.groups.match import Matcher
from sw.frontends.stablehlo.records import Op


def takes(graph: Graph) -> None:
    """Gathers by plain indices. Those out of range, for which JAX gives NaN, must not occur."""
    matcher = Matcher(graph)
    names: dict[int, int] = {}
    ops = []
    for op in graph.ops:
        if op.kind == "gather":
            op = _by_plain_index(matcher, op)
        filled = _filled(matcher, op)
        if filled is not None:
            names[op.results[0]] = filled
        ops.append(op)
    graph.ops = ops
    graph.rename(names)


def _by_plain_index(matcher: Matcher, op: Op) -> Op:
    """A gather by i where the file has i < 0 ? i + n : i; `wraps` keeps what that means."""
    graph = matcher.graph
    table, value = op.operands
    numbers = op.attributes["dimension_numbers"]
    if len(numbers["start_index_map"]) != 1 or numbers["operand_batching_dims"]:
        return op
    shaped = matcher.made(value, "reshape", "broadcast_in_dim")
    if shaped is None or math.prod(graph.shape(shaped.operands[0])) != math.prod(
        graph.shape(value)
    ):
        return op
    choice = matcher.made(shaped.operands[0], "select")
    if choice is None:
        return op
    condition, other, index = choice.operands
    compared, total = matcher.made(condition, "compare"), matcher.made(other, "add")
    if compared is None or total is None or total.operands[0] != index:
        return op
    below = compared.attributes["comparison_direction"] == "LT"
    zero = graph.number(compared.operands[1]) == 0 and compared.operands[0] == index
    size = graph.shape(table)[numbers["start_index_map"][0]]
    if not below or not zero or graph.number(total.operands[1]) != size:
        return op
    attributes = {**op.attributes, "wraps": True, "index_shape": graph.shape(value)}
    return replace(op, operands=(table, index), attributes=attributes)


def _filled(matcher: Matcher, op: Op) -> int | None:
    """The gather in a choice between it and NaN."""
    if op.kind != "select":
        return None
    _, value, other = op.operands
    number = matcher.graph.number(other)
    is_nan = isinstance(number, float) and math.isnan(number)
    return value if is_nan and matcher.made(value, "gather") is not None else None

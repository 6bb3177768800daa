"""Sums that are divided by how many terms they have are means; those of windows average pools."""

import math
from dataclasses import replace

import torch
from torch import Tensor as T

from sw.frontends.stablehlo.fold import call_of
from sw.frontends.stablehlo.graph import Graph, narrowed, operation
from sw.frontends.stablehlo.groups.match import Matcher
from sw.frontends.stablehlo.records import Op
from sw.frontends.stablehlo.table import ROWS


def averages(graph: Graph) -> None:
    """Put means and average pools in place of such sums and quotients."""
    matcher = Matcher(graph)
    ops: list[Op] = []
    for op in graph.ops:
        factor = _factor(graph, op)
        made = None
        if factor is not None:
            made = _mean(matcher, op, *factor) or _pool(matcher, op, *factor)
        ops += made or [op]
    graph.ops = ops


def _factor(graph: Graph, op: Op) -> tuple[int, T] | None:
    """(the sum, what it is divided by) of a quotient by a constant, or of such a product."""
    if op.kind not in ("divide", "multiply"):
        return None
    for value, other in (op.operands, op.operands[::-1]):
        if other in graph.constants and value not in graph.constants:
            constant = narrowed(graph.constants[other]).double()
            if op.kind == "multiply":
                return value, 1 / constant
            return (value, constant) if value == op.operands[0] else None
    return None


def _mean(matcher: Matcher, op: Op, value: int, divisor: T) -> list[Op] | None:
    found, graph = matcher.reduced(value, "reduce", "add"), matcher.graph
    if found is None or divisor.numel() != 1:
        return None
    count = math.prod(graph.shape(found.source)[d] for d in found.dims)
    if not math.isclose(float(divisor), count, rel_tol=1e-6):
        return None
    shape = tuple(n for d, n in enumerate(graph.shape(found.source)) if d not in found.dims)
    if shape == graph.shape(op.results[0]):
        return [operation(op, "mean", [found.source], op.results, dimensions=found.dims)]
    middle = graph.new(replace(graph.types[op.results[0]], shape=shape))
    return [
        operation(op, "mean", [found.source], [middle], dimensions=found.dims),
        operation(op, "reshape", [middle], op.results),
    ]


def _pool(matcher: Matcher, op: Op, value: int, divisor: T) -> list[Op] | None:
    window, graph = matcher.made(value, "reduce_window"), matcher.graph
    if window is None or window.attributes["reducer"] != "add" or len(window.operands) != 2:
        return None
    size = math.prod(int(k) for k in window.attributes["window_dimensions"])
    counts = bool(torch.allclose(divisor, torch.tensor(float(size)).double()))
    if not counts:
        call = call_of(graph, window)
        ones = torch.ones(call.operands[0].shape)
        inside = ROWS["reduce_window"].function(call, ones, torch.tensor(0.0)).double()
        if not torch.allclose(divisor.expand(inside.shape), inside):
            return None
    attributes = {**window.attributes, "padding_counts": counts}
    return [operation(op, "average_window", window.operands[:1], op.results, **attributes)]

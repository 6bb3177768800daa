"""Constants computed, and operations left out that change nothing."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, Row, run
from sw.frontends.stablehlo.errors import StableHloError
from sw.frontends.stablehlo.graph import Graph, narrowed, renamed
from sw.frontends.stablehlo.records import Op
from sw.frontends.stablehlo.table import ROWS

MOST_MADE = 1 << 26
"""Elements of a constant that is computed."""


def call_of(graph: Graph, op: Op) -> Call:
    """An operation as its function sees it."""
    return Call(
        op=op,
        operands=tuple(graph.types[v] for v in op.operands),
        results=tuple(graph.types[v] for v in op.results),
        fixed=tuple(v in graph.constants for v in op.operands),
    )


def fold(graph: Graph) -> None:
    """Compute every operation of constants alone, and leave out identities."""
    kept: list[Op] = []
    names: dict[int, int] = {}
    for op in graph.ops:
        op = replace(op, operands=renamed(op.operands, names))
        if _asks_for_nan(op):
            shape = graph.shape(op.results[0])
            graph.constants[op.results[0]] = torch.zeros((), dtype=torch.bool).expand(shape)
            continue
        if all(v in graph.constants for v in op.operands):
            made = _computed(graph, op, ROWS[op.kind])
            graph.constants.update(zip(op.results, made, strict=True))
            continue
        same = _same(graph, op)
        if same is None:
            kept.append(op)
        else:
            names[op.results[0]] = same
    graph.ops = kept
    graph.outputs = renamed(graph.outputs, names)
    graph.clean()


def _asks_for_nan(op: Op) -> bool:
    """Whether an operation tells where a value is not equal to itself: the NPU has no NaN."""
    if op.kind != "compare" or op.attributes.get("comparison_direction") != "NE":
        return False
    return op.operands[0] == op.operands[1]


def _computed(graph: Graph, op: Op, row: Row) -> tuple[T, ...]:
    """The results of constants. Where operands repeat one number, so does the result."""
    call, operands = call_of(graph, op), [graph.constants[v] for v in op.operands]
    if row.elementwise and len(call.results) == 1:
        small = [narrowed(x) for x in operands]
        shape = torch.broadcast_shapes(*(x.shape for x in small))
        kinds = replace(call.results[0], shape=tuple(shape))
        (made,) = run(replace(call, results=(kinds,)), row, small)
        return (made.expand(call.shape),)
    for kind in call.results:
        if kind.elements > MOST_MADE and op.kind not in ("constant", "broadcast_in_dim", "iota"):
            raise StableHloError(
                f"a constant of type {kind}: more than {MOST_MADE:,} elements",
                hint="make the model smaller", operation=op.name, place=op.place,
            )  # fmt: skip
    return run(call, row, operands)


_NEUTRAL: dict[str, Any] = {
    "add": 0, "subtract": 0, "multiply": 1, "divide": 1, "power": 1,
    "maximum": float("-inf"), "minimum": float("inf"),
}  # fmt: skip
_COMMUTES = ("add", "multiply", "maximum", "minimum")


def _same(graph: Graph, op: Op) -> int | None:
    """The operand that an operation's only result equals, if it does."""
    if len(op.results) != 1 or not op.operands:
        return None
    kind, first = graph.types[op.results[0]], op.operands[0]
    if op.kind in ("reshape", "broadcast_in_dim", "convert", "optimization_barrier"):
        dims = op.attributes.get("broadcast_dimensions")
        plain = dims is None or list(dims) == list(range(len(kind.shape)))
        return first if plain and _alike(graph, first, op) else None
    if op.kind == "select":
        chosen = graph.constants.get(first)
        if chosen is None or not chosen.numel() or bool(chosen.any()) != bool(chosen.all()):
            return None
        return op.operands[1 if bool(chosen.any()) else 2]
    if op.kind in _NEUTRAL and _alike(graph, first, op):
        if graph.number(op.operands[1]) == _NEUTRAL[op.kind]:
            return first
        if op.kind in _COMMUTES and graph.number(first) == _NEUTRAL[op.kind]:
            return op.operands[1]
    return None


def _alike(graph: Graph, value: int, op: Op) -> bool:
    return graph.types[value] == graph.types[op.results[0]]

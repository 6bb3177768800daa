"""Elementwise operations of one value are one function: which, its values for some numbers tell.

JAX writes activations in many ways, an exact GELU as a hundred operations of two polynomials. All
that lies between a value and what is computed of it and of numbers alone is evaluated at a few
thousand points, and compared with the functions of PyTorch that the importer has a table for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.stablehlo.fold import call_of
from sw.frontends.stablehlo.graph import Graph, operation
from sw.frontends.stablehlo.records import Op
from sw.frontends.stablehlo.table import ROWS

_MOST = 256
"""Operations of one function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A function of PyTorch. options: of it, told by its values."""

    name: str
    options: Callable[[Callable[[float], float]], dict[str, Any]] = lambda f: {}


_KNOWN = (
    Known(name="relu"),
    Known(name="relu6"),
    Known(name="sigmoid"),
    Known(name="tanh"),
    Known(name="silu"),
    Known(name="gelu"),
    Known(name="gelu", options=lambda f: {"approximate": "tanh"}),
    Known(name="softplus"),
    Known(name="logsigmoid"),
    Known(name="mish"),
    Known(name="selu"),
    Known(name="hardswish"),
    Known(name="hardsigmoid"),
    Known(name="erf"),
    Known(name="erfc"),
    Known(name="elu", options=lambda f: {"alpha": -f(-80.0)}),
    Known(name="celu", options=lambda f: {"alpha": -f(-80.0)}),
    Known(name="leaky_relu", options=lambda f: {"negative_slope": -f(-1.0)}),
    Known(name="hardtanh", options=lambda f: {"min_val": f(-1e4), "max_val": f(1e4)}),
)
_TAILS = (-1e4, -300.0, -80.0, 80.0, 300.0, 1e4)
_TOLERANCE = 3e-6
_FEW = 16
"""Points that tell most functions from each other."""


def univariates(graph: Graph) -> None:
    """Put one operation in place of those that are a known function."""
    makers, points = graph.makers(), _points()
    done: dict[int, Op] = {}
    for op in reversed(graph.ops):  # the largest groups first
        if not _is_part(graph, op) or op.results[0] in done:
            continue
        for source, group in _sources(graph, op, makers):
            known = _recognized(_Function(graph, source, group), points)
            if known is not None:
                name, options = known
                done[op.results[0]] = operation(
                    op, "function", [source], op.results, name=name, options=options
                )
                break
    graph.ops = [done.get(op.results[0], op) for op in graph.ops]
    graph.clean()


def _points() -> T:
    """Where functions are compared: near 0, far away, and nowhere special."""
    generator = torch.Generator().manual_seed(0)
    near = torch.randn(2048, generator=generator, dtype=torch.float64) * 4
    return torch.cat([near, torch.linspace(-12.0, 12.0, 1999).double(), torch.tensor(_TAILS)])


def _is_part(graph: Graph, op: Op) -> bool:
    kind = graph.types[op.results[0]]
    return len(op.results) == 1 and ROWS[op.kind].elementwise and kind.element[0] in "fbi"


def _sources(graph: Graph, op: Op, makers: dict[int, Op]) -> Iterator[tuple[int, list[Op]]]:
    """(value, operations from it to the result) for values that everything comes from.

    The farthest first: it makes the largest group.
    """
    found, group, open_values = [], list[Op](), {op.results[0]}
    order = {each.results[0]: i for i, each in enumerate(graph.ops)}
    while len(group) < _MOST:
        # The last operation that is not in the group yet, so that all its readers are.
        inner = [v for v in open_values if v in makers and _is_part(graph, makers[v])]
        if not inner:
            break
        last = max(inner, key=lambda v: order.get(v, -1))
        maker = makers[last]
        if any(graph.number(v) is None for v in maker.operands if v in graph.constants):
            break
        open_values.discard(last)
        open_values.update(v for v in maker.operands if v not in graph.constants)
        group.insert(0, maker)
        if len(open_values) == 1:
            (source,) = open_values
            if graph.types[source] == graph.types[op.results[0]]:
                found.append((source, list(group)))
    yield from reversed([each for each in found if len(each[1]) > 1])


class _Function:
    """What a group computes of its source."""

    def __init__(self, graph: Graph, source: int, group: list[Op]) -> None:
        self.source, self.result = graph.types[source], group[-1].results[0]
        self._first = source
        self._steps = [
            (
                ROWS[op.kind].function,
                call_of(graph, op),
                [(v, graph.number(v)) for v in op.operands],
            )
            for op in group
        ]

    def __call__(self, x: T) -> T:
        values: dict[int, Any] = {self._first: x}
        for function, call, operands in self._steps:
            given = [values.get(value, number) for value, number in operands]
            values[call.op.results[0]] = function(call, *given)
        made: T = values[self.result]
        return made

    def at(self, x: float) -> float:
        return float(self(torch.tensor([x]).double())[0])


def _operands(graph: Graph, op: Op) -> list[tuple[int, Any]]:
    return [(value, graph.number(value)) for value in op.operands]


def _recognized(function: _Function, points: T) -> tuple[str, dict[str, Any]] | None:
    """(name, options) of the known function that a group is."""
    if function.source.element[0] not in "fb":
        return None
    few = points[:_FEW]
    wanted: list[T] = []
    for x in (few, points):
        try:
            wanted.append(function(x))
        except Exception:  # an operation that wants other operands than a vector of float64
            return None
        if not isinstance(wanted[-1], T) or not bool(wanted[-1][x.abs() < 20].isfinite().all()):
            return None
    for known in _KNOWN:
        options = known.options(function.at)
        rows = zip((few, points), wanted, strict=True)
        if all(_matches(known.name, options, x, y) for x, y in rows):
            return known.name, options
    return None


def _matches(name: str, options: dict[str, Any], points: T, wanted: T) -> bool:
    try:
        made = (getattr(F, name, None) or getattr(torch, name))(points, **options)
    except (RuntimeError, ValueError):
        return False
    fine = wanted.isfinite()  # overflow far away is no difference
    close = (made - wanted).abs() <= _TOLERANCE * (1 + points.abs())
    return bool((close | ~fine).all())

"""Integers of one call that outgrow the program: they wrap around, or leave what calibration saw.

Float inputs are cut to the range that was calibrated. Integers (lengths, positions, masks) go in as
they are: what a program computes from them has 32 bits, and scales that fit the calibration.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spec.numerics import scaled
from sw.compiler.tosa.graph import DTYPES, Graph
from sw.compiler.tosa.nodes import Op
from sw.compiler.tosa.semantics.arrays import Array, Int, scalar, wide
from sw.compiler.tosa.semantics.elementwise import left_shift
from sw.compiler.tosa.table import operator

MARGIN = 0.1
"""Share of a range that values may lie outside it before they are far outside."""


def _rescaled(op: Op, x: Array, multiplier: Array, shift: Array, *zps: Array) -> Int:
    return scaled(wide(x) - scalar(zps[0]), wide(multiplier), wide(shift)) + scalar(zps[1])


_EXACT: Mapping[str, Callable[..., Int]] = {
    "RESCALE": _rescaled,
    "ADD": lambda op, a, b: wide(a) + wide(b),
    "SUB": lambda op, a, b: wide(a) - wide(b),
    "MUL": lambda op, a, b, shift: wide(a) * wide(b) >> scalar(shift),
    "LOGICAL_LEFT_SHIFT": lambda op, a, b: left_shift(wide(a), wide(b)),
    "REDUCE_SUM": lambda op, a: wide(a).sum(axis=op.attributes["axis"], keepdims=True),
}
"""Results of the operators that may leave int32, in 64 bits."""


@dataclass(frozen=True, slots=True)
class Outgrown:
    """`count` of the `of` values of `tensor` lie outside `low`…`high`; `largest` of all magnitudes.

    op: the operator whose results wrap around, None for integers that calibration did not see.
    """

    tensor: str
    count: int
    of: int
    low: float
    high: float
    largest: float
    op: Op | None = None


def outgrown(
    graph: Graph, integers: Mapping[str, Array], seen: Mapping[str, tuple[float, float]]
) -> Iterator[Outgrown]:
    """What the integers of a call outgrow, in the order of the graph.

    integers: by name, the inputs that are integers as they are. seen: by tensor, the least and the
    largest that calibration saw of integers that float values are computed from; what is far
    outside counts. Only what is computed from `integers` and constants alone is looked at, and only
    as long as it is int32 or bool: values with a scale are bounded by it.
    """
    values = dict(integers)
    for name, array in integers.items():
        yield from _unseen(name, array, seen)
    for op in graph.ops:
        out = graph.tensors[op.outputs[0]]
        args = [values.get(name, graph.tensors[name].data) for name in op.inputs]
        given = [arg for arg in args if arg is not None]
        if len(given) < len(args) or not any(name in values for name in op.inputs):
            continue
        if op.kind in _EXACT:
            yield from _outside(
                out.name, _EXACT[op.kind](op, *given), -(1 << 31), (1 << 31) - 1, op
            )
        if out.dtype in ("int32", "bool") or op.kind == "CAST":
            result = operator(op).evaluate(op, given, out.dtype)
            values[out.name] = np.asarray(result, DTYPES[out.dtype])
            yield from _unseen(out.name, values[out.name], seen)


def _unseen(name: str, array: Array, seen: Mapping[str, tuple[float, float]]) -> Iterator[Outgrown]:
    if name in seen and array.size:
        low, high = seen[name]
        margin = MARGIN * max(-low, high)
        yield from _outside(name, array, low - margin, high + margin)


def _outside(
    name: str, array: Any, low: float, high: float, op: Op | None = None
) -> Iterator[Outgrown]:
    count = int(((array < low) | (array > high)).sum())
    if count:
        largest = float(max(-int(array.min()), int(array.max())))
        yield Outgrown(name, count, array.size, low, high, largest, op)

"""Dimensions of a VECTOR as its loops: which lie in lanes, which are reduced, which are one."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from spec.isa import LOOPS
from sw.compiler.program.records import VectorFields, VectorLoop

Stride = int | Fraction
"""Bytes, or vectors of the accumulator: along the last dimension an element is part of one."""


class Row(NamedTuple):
    """One dimension of a step: its size, strides of A, B and result, whether it is reduced."""

    size: int
    a: Stride
    b: Stride
    out: Stride
    reduced: bool


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a VECTOR, and the fields that say which of them are lanes and reductions."""

    loops: list[VectorLoop]
    fields: VectorFields
    reduces: bool


def in_lanes(
    rows: Sequence[Row], items: Sequence[Stride], within_axis: bool
) -> tuple[list[Row], Row]:
    """(the outer dimensions, the one that lies in the lanes of a vector).

    `items`: strides of neighbouring elements. `within_axis`: a reduction is not over lanes.
    """
    alone = Row(1, items[0], items[1], items[2], False)
    if not rows:
        return [], alone
    *outer, last = rows
    if (last.reduced and within_axis) or (not last.reduced and _apart(last, items)):
        # Neighbours here do not lie in neighbouring lanes: one element a vector.
        return list(rows), alone
    return outer, last


def nest(
    rows: Sequence[Row], lanes: Row, cols: int, with_params: bool, *, by_rows: bool = False
) -> Nest:
    """Loops over `rows` and over the vectors of `lanes`; those that are reduced come last.

    The vectors are the outermost loop, so that parameters change seldom. by_rows: they may be the
    innermost one where B has one element for all vectors of a row: it is read once, and both ports
    of the vector engine read A meanwhile.
    """
    count = -(-lanes.size // cols)
    loops = [_loop(row, row.size) for row in rows if not row.reduced]
    reduced = [_loop(row, row.size) for row in rows if row.reduced]
    block = _loop(lanes, count, cols)._replace(param=int(with_params))
    used = min(lanes.size, cols)
    fields = VectorFields(lanes=used, lanes_last=lanes.size - (count - 1) * used)
    if lanes.reduced:
        fields["reduce_lanes"] = 1
        if count > 1:
            fields["lane_loop"] = len(loops)
            reduced = [block, *reduced]
    else:
        inner = by_rows and not reduced and not lanes.b and any(row.b for row in rows)
        fields["lane_loop"] = len(loops) if inner else 0
        loops = [*loops, block] if inner else [block, *loops]
    assert len(loops) + len(reduced) <= LOOPS
    fields["reduce_loops"] = sum(1 << (len(loops) + i) for i in range(len(reduced)))
    return Nest([*loops, *reduced], fields, bool(reduced) or lanes.reduced)


def follow(outer: Row, inner: Row) -> bool:
    """Whether both dimensions are one."""
    strides = tuple(inner.size * s for s in (inner.a, inner.b, inner.out))
    return outer.reduced == inner.reduced and (outer.a, outer.b, outer.out) == strides


def _loop(row: Row, count: int, times: int = 1) -> VectorLoop:
    strides = [times * Fraction(s) for s in (row.a, row.b, row.out)]
    assert all(s.denominator == 1 for s in strides)
    a, b, out = map(int, strides)
    return VectorLoop(count=count, a=a, b=b, o=out)


def _apart(row: Row, items: Sequence[Stride]) -> bool:
    """Whether a stream of this innermost dimension has vectors for elements."""
    streams = (row.a, row.b, row.out)
    return any(s not in (0, item) for s, item in zip(streams, items, strict=True))

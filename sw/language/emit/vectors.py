"""VECTOR instructions of a kernel's expressions."""

from spec.isa import LOOPS, Reduce, Space
from sw.compiler.kernels.fused.sizes import MAX_EXTENT
from sw.compiler.kernels.nests import Row, Stride, follow, in_lanes, nest
from sw.compiler.kernels.views import DTYPE
from sw.compiler.program.records import Vector, VectorFields
from sw.compiler.program.virtual import Access, Buffer
from sw.language.emit.issue import Issue, Places
from sw.language.errors import ApartError
from sw.language.memory import Piece
from sw.language.steps import VectorStep
from sw.language.types import item_bytes


def vector_issue(step: VectorStep, places: Places, params: Buffer | None, parts: int) -> Issue:
    """The VECTOR of an expression, whose results can be taken in `parts`; its parameters."""
    pending, out = step.pending, step.out
    a, b = pending.a, pending.b
    rows, lanes = in_lanes(
        _rows(step, pending.by_column, parts),
        [_item(p) for p in (a, b or a, out)],
        pending.axis < len(a.shape) - 1,
    )
    if len(rows) >= LOOPS:
        raise ApartError(f"the rows of {LOOPS - 1} loops")
    if pending.by_column and lanes.size != pending.extents[-1]:
        raise ApartError("columns with scales of their own")
    made = nest(rows, lanes, places.config.cols, pending.by_column)
    fields = VectorFields(
        a_space=Space.ACC if a.in_acc else Space.SPAD,
        a_type=DTYPE[a.dtype],
        a_base=places.base(a),
        a_one=int(lanes.a == 0),
        reduce=pending.reduce if made.reduces else Reduce.NONE,
        o_min=pending.low,
        o_max=pending.high,
        o_space=Space.ACC if out.in_acc else Space.SPAD,
        o_type=DTYPE[out.dtype],
        o_base=places.base(out),
    )
    bases = {"a_base": places.of(a.memory)[0], "o_base": places.of(out.memory)[0]}
    by_block = lanes.size > places.config.cols and not lanes.reduced
    results = places.touched(out, write=True, by_block=by_block)
    if parts > 1:
        # Loop 1 goes through the parts, as loop 0 has one block.
        results = places.in_parts(results[0], parts, 2)
    accesses = [*places.touched(a, write=False, by_block=by_block), *results]
    if b is not None:
        fields |= VectorFields(
            b_type=DTYPE[b.dtype], b_base=places.base(b), b_one=int(lanes.b == 0)
        )
        bases["b_base"] = places.of(b.memory)[0]
        accesses.append(places.access(b, write=False))
    if params is not None:
        bases["param_base"] = params
        accesses.append(Access(buffer=params, start=0, stop=params.size, write=False))
    if pending.table is not None:
        table = places.context.table
        accesses.append(Access(buffer=table, start=0, stop=pending.table.nbytes, write=False))
    record = Vector(**(made.fields | fields | pending.values), loop=made.loops)
    return Issue(record, bases, accesses)


def _item(piece: Piece) -> Stride:
    """Between neighbouring elements of the last dimension."""
    return piece.layout.strides[-1] if piece.in_acc else item_bytes(piece.dtype)


def _rows(step: VectorStep, apart: bool, parts: int) -> list[Row]:
    """The dimensions that a VECTOR goes through, neighbours merged where every stream goes on.

    `apart`: the last one has parameters, and is no part of a longer one.
    """
    pending, rows = step.pending, list[Row]()
    streams = [_strides(p) for p in (pending.a, pending.b, step.out)]
    last = len(pending.extents) - 1
    for d, size in enumerate(pending.extents):
        if size == 1:
            continue
        reduced = pending.reduce is not Reduce.NONE and d == pending.axis
        a, b, out = (stream[d] if stream else 0 for stream in streams)
        row = Row(size, a, b, 0 if reduced else out, reduced)
        joins = rows and not ((apart or parts > 1) and d == last)
        if joins and rows[-1].size * size <= MAX_EXTENT and follow(rows[-1], row):
            row = row._replace(size=size * rows.pop().size)
        rows.append(row)
    if parts > 1:
        return [*_cut(rows[0], parts), *rows[1:]]
    return rows


def _strides(piece: Piece | None) -> list[Stride] | None:
    """Of every dimension; 0 where there is one element, which broadcasts."""
    if piece is None:
        return None
    pairs = zip(piece.shape, piece.layout.strides, strict=True)
    return [0 if size == 1 else stride for size, stride in pairs]


def _cut(row: Row, parts: int) -> list[Row]:
    """A dimension as two, of which the outer one goes through equal parts."""
    inner = row.size // parts
    outer = row._replace(size=parts, a=row.a * inner, b=row.b * inner, out=row.out * inner)
    return [outer, row._replace(size=inner)]

"""An array that is written piece by piece, as loops do it, is a concatenation of the pieces."""

from dataclasses import dataclass

from sw.frontends.stablehlo.graph import Graph, operation
from sw.frontends.stablehlo.records import Op, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """base: the array before. pieces: (first, size, value) along `dim`, in order of `first`."""

    base: int
    dim: int
    pieces: tuple[tuple[int, int, int], ...]


def stacks(graph: Graph) -> None:
    """Put a concatenation in place of updates in a row, if nothing reads what is between them."""
    uses = graph.uses()
    written: dict[int, _Written] = {}
    extended: set[int] = set()
    for op in graph.ops:
        if op.kind == "dynamic_update_slice":
            before = written.get(op.operands[0]) if uses[op.operands[0]] == 1 else None
            found = _extended(graph, op, before)
            if found is not None:
                written[op.results[0]] = found
                if found.base != op.operands[0]:
                    extended.add(op.operands[0])
    ends = {v: w for v, w in written.items() if v not in extended and len(w.pieces) > 1}
    ops: list[Op] = []
    for op in graph.ops:
        result = op.results[0]
        ops += [op] if result not in ends else _concatenated(graph, op, ends[result])
    graph.ops = ops
    graph.clean()


def _extended(graph: Graph, op: Op, before: _Written | None) -> _Written | None:
    """What an update makes of an array, in which `before` may have been written already."""
    base, update, *starts = op.operands
    whole, part = graph.shape(base), graph.shape(update)
    dims = [dim for dim, (n, k) in enumerate(zip(whole, part, strict=True)) if n != k]
    if len(dims) != 1:
        return None
    (dim,) = dims
    number = graph.number(starts[dim])
    if number is None:
        return None
    size = part[dim]
    first = max(0, min(int(number), whole[dim] - size))
    mine = (first, size, update)
    if before is not None and before.dim == dim:
        others = [p for p in before.pieces if (p[0], p[1]) != (first, size)]
        if all(p[0] + p[1] <= first or first + size <= p[0] for p in others):
            return _Written(base=before.base, dim=dim, pieces=tuple(sorted([*others, mine])))
    return _Written(base=base, dim=dim, pieces=(mine,))


def _concatenated(graph: Graph, op: Op, found: _Written) -> list[Op]:
    """The operations that make the result; what is not written comes from the base."""
    made, parts, at = [], [], 0
    end = graph.shape(found.base)[found.dim]
    for first, size, value in (*found.pieces, (end, 0, -1)):
        if first > at:
            kept = _slice(graph, op, found, at, first)
            made.append(kept)
            parts.append(kept.results[0])
        if size:
            parts.append(value)
        at = first + size
    return [*made, operation(op, "concatenate", parts, op.results, dimension=found.dim)]


def _slice(graph: Graph, op: Op, found: _Written, first: int, end: int) -> Op:
    kind = graph.types[found.base]
    starts, limits = [0] * len(kind.shape), list(kind.shape)
    starts[found.dim], limits[found.dim] = first, end
    shape = tuple(b - a for a, b in zip(starts, limits, strict=True))
    result = graph.new(Type(shape=shape, element=kind.element))
    return operation(
        op, "slice", (found.base,), (result,),
        start_indices=starts, limit_indices=limits, strides=[1] * len(shape),
    )  # fmt: skip

"""Remove operators that change nothing: IDENTITY, moves to the same shape, the widest CLAMP, RESIZE
of every pixel to its own place, reductions of a single element.
"""

from spec.isa import DType
from spec.numerics import RANGES
from sw.compiler.tosa.graph import Graph, Op

_TYPES = {"int8": DType.I8, "int16": DType.I16}
_MOVES = ("IDENTITY", "RESHAPE", "SLICE", "PAD")
_REDUCTIONS = ("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ALL", "REDUCE_ANY")


def remove_identities(graph: Graph) -> None:
    """Readers of such an operator read its operand. A graph output keeps its name, so it stays."""
    renamed: dict[str, str] = {}
    kept = []
    for op in graph.ops:
        op.inputs = [renamed.get(name, name) for name in op.inputs]
        if op.outputs[0] not in graph.outputs and _changes_nothing(graph, op):
            renamed[op.outputs[0]] = op.inputs[0]
        else:
            kept.append(op)
    graph.ops = kept


def _changes_nothing(graph: Graph, op: Op) -> bool:
    before, after = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    if op.kind == "CLAMP":
        low, high = RANGES[_TYPES[before.dtype]]
        return op.attributes["min_val"] <= low and op.attributes["max_val"] >= high
    if op.kind == "TRANSPOSE":
        order = [p for p in op.attributes["perms"] if before.shape[p] > 1]
        return before.shape == after.shape and order == sorted(order)
    if op.kind == "RESIZE":
        rows, cols = graph.constant(op.inputs[1]).reshape(2, 2).tolist()
        offset = graph.constant(op.inputs[2])
        in_place = rows[0] == rows[1] and cols[0] == cols[1] and not offset.any()
        nearest = op.attributes["mode"] == "NEAREST"
        return nearest and in_place and before.shape == after.shape
    return op.kind in (*_MOVES, *_REDUCTIONS) and before.shape == after.shape

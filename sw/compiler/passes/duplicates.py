"""Remove moves of elements that have been made already: the same operator of the same operands.

Operators that compute stay, even if they are equal: each layer may have its own for nothing, while
a result that two layers read must be stored.
"""

from collections.abc import Hashable

from sw.compiler.tosa.graph import Graph, Op

_MOVES = ("TRANSPOSE", "RESHAPE", "SLICE", "CONCAT", "PAD", "TILE", "REVERSE", "GATHER")


def remove_duplicates(graph: Graph) -> None:
    """Readers of the second one read the first. A graph output keeps its name, so it stays."""
    made: dict[Hashable, str] = {}
    renamed: dict[str, str] = {}
    kept = []
    for op in graph.ops:
        op.inputs = [renamed.get(name, name) for name in op.inputs]
        if op.kind in _MOVES:
            first = made.setdefault(_key(graph, op), op.outputs[0])
            if first != op.outputs[0] and op.outputs[0] not in graph.outputs:
                renamed[op.outputs[0]] = first
                continue
        kept.append(op)
    graph.ops = kept


def _key(graph: Graph, op: Op) -> Hashable:
    """What two equal operators have in common."""
    attributes = tuple(sorted((name, str(value)) for name, value in op.attributes.items()))
    return op.kind, tuple(_operand(graph, name) for name in op.inputs), attributes


def _operand(graph: Graph, name: str) -> Hashable:
    """An operand: shapes and scalars by value, everything else by name."""
    tensor = graph.tensors[name]
    if tensor.data is None or (tensor.data.size > 1 and tensor.dtype != "shape"):
        return name
    return tensor.dtype, tensor.shape, tensor.data.tobytes()

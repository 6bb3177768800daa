"""TABLEs of the same content one after another: the device has one, and waits for a new content.

Gates of a recurrent step are such TABLEs: sigmoids of slices of one tensor, with others between.
"""

from sw.compiler.tosa.graph import Graph, Op

REACH = 64
"""Operators over which a TABLE is moved; what it gives must be kept for as long."""


def group_tables(graph: Graph) -> None:
    """A TABLE moves up behind another one with its content, where its operand is there already and
    a TABLE of another content lies between them.
    """
    latest: dict[bytes, int] = {}
    content = b""
    for at, op in enumerate(list(graph.ops)):
        if op.kind != "TABLE":
            continue
        table = graph.constant(op.inputs[1]).tobytes() if _constant(graph, op.inputs[1]) else b""
        before, content = content, table
        to = latest.get(table, -1) + 1
        if table and to and before != table and at - to <= REACH and _ready(graph, op, to, at):
            graph.ops.insert(to, graph.ops.pop(at))
            # Those between are one further down.
            latest = {known: i + (i >= to) for known, i in latest.items()}
            at, content = to, before
        latest[table] = at


def _constant(graph: Graph, name: str) -> bool:
    return graph.tensors[name].is_constant


def _ready(graph: Graph, op: Op, start: int, stop: int) -> bool:
    """Whether none of the operators from `start` to `stop` makes the operand."""
    return all(op.inputs[0] not in other.outputs for other in graph.ops[start:stop])

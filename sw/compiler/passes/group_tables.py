"""TABLEs of the same content one after another: the device has one, and waits for a new content.

Gates of a recurrent step are such TABLEs: sigmoids of slices of one tensor, with others between.
"""

from sw.compiler.tosa.graph import Graph, Op

REACH = 64
"""Operators over which a TABLE is moved; what it gives must be kept for as long."""

_VIEWS = ("SLICE", "RESHAPE", "IDENTITY")
"""Operators of one operand that cost nothing, and move with the TABLE that reads them."""


def group_tables(graph: Graph) -> None:
    """A TABLE moves up behind another one with its content, where its operand is there already and
    a TABLE of another content lies between them.
    """
    latest: dict[bytes, int] = {}
    content = b""
    for at, op in enumerate(list(graph.ops)):
        if op.kind != "TABLE" or not graph.tensors[op.inputs[1]].is_constant:
            continue
        table, before = graph.constant(op.inputs[1]).tobytes(), content
        content = table
        to = latest.get(table, at) + 1
        moved = _with_views(graph, op, to, at) if before != table and to <= at <= to + REACH else []
        if moved:
            made = {each.outputs[0] for each in moved}
            rest = [each for each in graph.ops[to : at + 1] if each.outputs[0] not in made]
            graph.ops[to : at + 1] = [*moved, *rest]
            # Those between are further down.
            latest = {known: i + len(moved) * (i >= to) for known, i in latest.items()}
            at, content = to + len(moved) - 1, before
        latest[table] = at


def _with_views(graph: Graph, op: Op, start: int, stop: int) -> list[Op]:
    """`op` behind the views that make its operand between operators `start` and `stop`; [] if
    others make it there.
    """
    moved = [op]
    for other in reversed(graph.ops[start:stop]):
        if moved[0].inputs[0] in other.outputs:
            if other.kind not in _VIEWS:
                return []
            moved.insert(0, other)
    return moved

"""What a TILE repeats goes to elementwise operators as it is: they broadcast it themselves.

`expand` and `expand_as` of a framework write a factor of each channel once for every pixel.
"""

from dataclasses import replace

from sw.compiler.passes.exchange import exchange
from sw.compiler.tosa.graph import Graph, Op

_UNARY = ("RESCALE", "CLAMP", "TABLE", "CAST", "ABS", "NEGATE", "TRANSPOSE")
"""Operators that a TILE may follow as well."""

_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "EQUAL", "GREATER", "GREATER_EQUAL")


def broadcast_tiles(graph: Graph) -> None:
    """Every TILE of dimensions of one element goes, where such operators are all that reads it."""
    for op in [op for op in graph.ops if op.kind == "TILE"]:
        if _broadcasts(graph, op) and (behind := _behind(graph, op)) is not None:
            for each in behind:
                _move(graph, op, each)
            _drop(graph, op)


def _broadcasts(graph: Graph, tile: Op) -> bool:
    """Whether it repeats nothing but dimensions of one element."""
    shape = graph.tensors[tile.inputs[0]].shape
    return all(n == 1 or size == 1 for n, size in zip(_times(graph, tile), shape, strict=True))


def _times(graph: Graph, tile: Op) -> list[int]:
    return [int(n) for n in graph.constant(tile.inputs[1]).reshape(-1)]


def _readers(graph: Graph, name: str) -> list[Op]:
    return [op for op in graph.ops if name in op.inputs]


def _behind(graph: Graph, tile: Op) -> list[Op] | None:
    """The operators of one operand between `tile` and those that broadcast; None if others read it,
    or if it must stay before one of them.
    """
    found: list[Op] = []
    (name,), times = tile.outputs, _times(graph, tile)
    while name not in graph.outputs:
        users = _readers(graph, name)
        if len(users) != 1 or users[0].kind not in _UNARY:
            shape = graph.tensors[name].shape
            return found if users and all(_spans(graph, u, name, shape) for u in users) else None
        (op,) = users
        if op.attributes.get("per_channel") and times[-1] > 1:
            return None
        if op.kind == "TRANSPOSE":
            times = [times[p] for p in op.attributes["perms"]]
        found.append(op)
        (name,) = op.outputs
    return None


def _move(graph: Graph, tile: Op, op: Op) -> None:
    """Put `op`, which reads `tile`, before it."""
    shape, result = graph.tensors[tile.inputs[0]].shape, graph.tensors[op.outputs[0]]
    if op.kind == "TRANSPOSE":
        perms, times = op.attributes["perms"], _times(graph, tile)
        shape, times = tuple(shape[p] for p in perms), [times[p] for p in perms]
        tile.inputs[1] = graph.add_constant(f"{result.name}_times", times, "shape")
    early = replace(result, name=graph.fresh_name(f"{result.name}_early"), shape=shape)
    exchange(graph, tile, op, early)


def _drop(graph: Graph, tile: Op) -> None:
    """Let the readers of `tile` read its operand."""
    (name,) = tile.outputs
    for op in _readers(graph, name):
        op.inputs = [tile.inputs[0] if operand == name else operand for operand in op.inputs]
    graph.ops.remove(tile)


def _spans(graph: Graph, op: Op, name: str, shape: tuple[int, ...]) -> bool:
    """Whether the result of `op` has `shape` without operand `name`."""
    if op.kind not in _BINARY:
        return False
    others = [operand for operand in op.inputs[:2] if operand != name]
    return [graph.tensors[other].shape for other in others] == [shape]

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
    """Every TILE of dimensions of one element moves behind such operators, and goes at the end."""
    for op in [op for op in graph.ops if op.kind == "TILE"]:
        if _broadcasts(graph, op):
            while _moved(graph, op):
                pass
            _drop(graph, op)


def _broadcasts(graph: Graph, tile: Op) -> bool:
    """Whether it repeats nothing but dimensions of one element."""
    times = graph.constant(tile.inputs[1]).reshape(-1).tolist()
    shape = graph.tensors[tile.inputs[0]].shape
    return all(n == 1 or size == 1 for n, size in zip(times, shape, strict=True))


def _moved(graph: Graph, tile: Op) -> bool:
    """Put the operator that alone reads `tile` before it, if that computes each element alike."""
    (name,) = tile.outputs
    users = [op for op in graph.ops if name in op.inputs]
    if len(users) != 1 or name in graph.outputs or users[0].kind not in _UNARY:
        return False
    (op,) = users
    times = graph.constant(tile.inputs[1]).reshape(-1).tolist()
    if op.attributes.get("per_channel") and times[-1] > 1:
        return False
    shape, result = graph.tensors[tile.inputs[0]].shape, graph.tensors[op.outputs[0]]
    if op.kind == "TRANSPOSE":
        perms = op.attributes["perms"]
        shape, times = tuple(shape[p] for p in perms), [times[p] for p in perms]
        tile.inputs[1] = graph.add_constant(f"{result.name}_times", times, "shape")
    early = replace(result, name=graph.fresh_name(f"{result.name}_early"), shape=shape)
    exchange(graph, tile, op, early)
    return True


def _drop(graph: Graph, tile: Op) -> None:
    """Let the readers of `tile` read its operand, if each has another one of the whole shape."""
    (name,) = tile.outputs
    users = [op for op in graph.ops if name in op.inputs]
    shape = graph.tensors[name].shape
    if name in graph.outputs or not all(_spans(graph, op, name, shape) for op in users):
        return
    for op in users:
        op.inputs = [tile.inputs[0] if operand == name else operand for operand in op.inputs]
    graph.ops.remove(tile)


def _spans(graph: Graph, op: Op, name: str, shape: tuple[int, ...]) -> bool:
    """Whether the result of `op` has `shape` without operand `name`."""
    if op.kind not in _BINARY:
        return False
    others = [operand for operand in op.inputs[:2] if operand != name]
    return [graph.tensors[other].shape for other in others] == [shape]

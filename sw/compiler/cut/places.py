"""Where a graph can be cut: places that a single tensor passes."""

from collections.abc import Sequence

from sw.compiler.tosa.graph import Graph

PASSED = ("int8", "uint8", "int16", "uint16", "bool", "int32")
"""Types that a program can have as input and output, in the order of preference."""
_FREE = ("RESHAPE", "IDENTITY")
"""Operators that move nothing: behind them is no further place to cut."""


def cut_places(graph: Graph) -> list[str]:
    """The tensors that alone lead from the operators before them to those behind them, in order.

    Constants, and what is computed of constants alone, count for nothing: both sides have them. An
    input or an output of the graph passes a place if something behind it reads it, or something
    before it writes it. Sums that are not yet rescaled (int32) are left out where there are others.
    """
    last = {name: len(graph.ops) for name in graph.outputs}
    for number, op in enumerate(graph.ops):
        for name in op.inputs:
            last[name] = max(last.get(name, 0), number)
    live = {name for name in graph.inputs if name in last}
    dependent, places, worked = set(graph.inputs), [], False
    for number, op in enumerate(graph.ops[:-1]):
        if dependent.isdisjoint(op.inputs):
            continue
        dependent.update(op.outputs)
        worked |= op.kind not in _FREE
        live = {name for name in live | set(op.outputs) if last.get(name, -1) > number}
        if worked and len(live) == 1 and not live & {*graph.inputs, *graph.outputs}:
            (name,) = live
            if graph.tensors[name].dtype in PASSED:
                places.append(name)
                worked = False
    narrow = [name for name in places if graph.tensors[name].dtype != "int32"]
    return narrow or places


def part(graph: Graph, inputs: Sequence[str], outputs: Sequence[str], name: str) -> Graph:
    """The operators that lead from `inputs` to `outputs`, as a graph of its own."""
    producers = graph.producers()
    wanted, seen = list(outputs), set(inputs)
    kept: set[int] = set()
    while wanted:
        tensor = wanted.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        if tensor in producers:
            kept.add(id(producers[tensor]))
            wanted += producers[tensor].inputs
    ops = [op.copy() for op in graph.ops if id(op) in kept]
    found = Graph(
        name=name,
        inputs=list(inputs),
        outputs=list(outputs),
        ops=ops,
        tensors={key: tensor for key, tensor in graph.tensors.items() if key in seen},
        modules=graph.modules,
    )
    found.verify()
    return found

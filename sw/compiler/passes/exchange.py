"""Two operators that follow one another, in the other order."""

from sw.compiler.tosa.graph import Graph, Op, Tensor


def exchange(graph: Graph, first: Op, second: Op, between: Tensor) -> None:
    """`second` reads what `first` read, by its first operand; `first` then has the result.

    between: what `second` makes now, under a new name. Nobody else may read what lay between.
    """
    graph.add_tensor(between)
    second.inputs[0], first.inputs[0] = first.inputs[0], between.name
    first.outputs[0], second.outputs[0] = second.outputs[0], between.name
    graph.ops.remove(first)
    graph.ops.insert(graph.ops.index(second) + 1, first)

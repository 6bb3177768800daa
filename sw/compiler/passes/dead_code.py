"""Remove operators and tensors that no output depends on. Inputs stay: they are ports."""

from sw.compiler.tosa.graph import Graph


def remove_dead_code(graph: Graph) -> None:
    """Keep what the outputs need."""
    needed = set(graph.outputs)
    kept = []
    for op in reversed(graph.ops):
        if needed.intersection(op.outputs):
            kept.append(op)
            needed.update(op.inputs)
    graph.ops = kept[::-1]
    needed.update(graph.inputs)
    graph.tensors = {name: t for name, t in graph.tensors.items() if name in needed}

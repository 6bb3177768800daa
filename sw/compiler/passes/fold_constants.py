"""Evaluate operators whose operands are all constants."""

from dataclasses import replace

from spec.available import require_memory
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph


def fold_constants(graph: Graph) -> None:
    """Replace such operators by constants; the interpreter computes them."""
    kept = []
    for op in graph.ops:
        if not all(graph.tensors[name].is_constant for name in op.inputs):
            kept.append(op)
            continue
        (out,) = op.outputs
        # The interpreter computes in 64 bits, with copies of its operands.
        require_memory(16 * graph.tensors[out].nbytes, f"constant {out!r}")
        tensors = {name: graph.tensors[name] for name in (*op.inputs, out)}
        single = Graph(name=op.name, outputs=[out], ops=[op], tensors=tensors)
        graph.tensors[out] = replace(graph.tensors[out], data=run_graph(single, {})[out])
    graph.ops = kept

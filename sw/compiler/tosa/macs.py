"""Multiply-accumulates of a graph: what utilization is measured against."""

import math

from sw.compiler.tosa.graph import Graph, Op


def graph_macs(graph: Graph) -> int:
    """Output elements x reduction: CONV2D, CONV3D (taps·Cin), DEPTHWISE_CONV2D (taps), MATMUL (K).

    TRANSPOSE_CONV2D: input elements x what each adds to (taps·Cout).
    Taps that fall on padding count. Channels that only fill up a block do not, nor do zeros that a
    pass put among the weights, nor the sums of an average that is a DEPTHWISE_CONV2D by ones.
    """
    return sum(op_macs(graph, op) for op in graph.ops)


def op_macs(graph: Graph, op: Op) -> int:
    """The same of one operator; 0 for every other kind."""
    if op.work is not None:
        return op.work.macs
    size = graph.tensors[op.outputs[0]].size
    if op.kind in ("CONV2D", "CONV3D"):
        return size * math.prod(graph.tensors[op.inputs[1]].shape[1:])
    if op.kind == "TRANSPOSE_CONV2D":
        source, weights = (graph.tensors[name] for name in op.inputs[:2])
        return source.size * math.prod(weights.shape[:3])
    if op.kind == "DEPTHWISE_CONV2D":
        weights = graph.tensors[op.inputs[1]]
        if weights.is_constant and (graph.constant(weights.name) == 1).all():
            return 0
        return size * math.prod(graph.tensors[op.inputs[1]].shape[:2])
    if op.kind == "MATMUL":
        return size * graph.tensors[op.inputs[0]].shape[2]
    return 0

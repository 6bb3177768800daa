"""Multiply-accumulates of a graph: what utilization is measured against."""

import math

from sw.compiler.tosa import Graph


def graph_macs(graph: Graph) -> int:
    """Output elements x reduction: CONV2D (kh·kw·Cin), DEPTHWISE_CONV2D (kh·kw), MATMUL (K).

    Taps that fall on padding count, channels that only fill up a block do not.
    """
    total = 0
    for op in graph.ops:
        size = graph.tensors[op.outputs[0]].size
        if op.kind == "CONV2D":
            total += size * math.prod(graph.tensors[op.inputs[1]].shape[1:])
        elif op.kind == "DEPTHWISE_CONV2D":
            total += size * math.prod(graph.tensors[op.inputs[1]].shape[:2])
        elif op.kind == "MATMUL":
            total += size * graph.tensors[op.inputs[0]].shape[2]
    return total

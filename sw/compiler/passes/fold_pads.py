"""Make a PAD with the zero point the padding of the convolution that reads it."""

from sw.compiler.tosa.graph import Graph, Op


def fold_pads(graph: Graph) -> None:
    """The convolution reads the unpadded tensor; a PAD that nobody else reads is dead code."""
    producers = graph.producers()
    for op in graph.ops:
        if op.kind in ("CONV2D", "DEPTHWISE_CONV2D"):
            pad = producers.get(op.inputs[0])
            if pad is not None and pad.kind == "PAD" and _fits(graph, pad, op):
                rows = graph.constant(pad.inputs[1]).reshape(-1, 2).tolist()
                extra = (*rows[1], *rows[2])
                old = op.attributes["pad"]
                op.attributes["pad"] = tuple(a + b for a, b in zip(old, extra, strict=True))
                op.inputs[0] = pad.inputs[0]


def _fits(graph: Graph, pad: Op, conv: Op) -> bool:
    """Height and width only, with the value that the convolution's own padding stands for."""
    rows = graph.constant(pad.inputs[1]).reshape(-1, 2)
    value = graph.constant(pad.inputs[2]).reshape(-1)[0]
    zero_point = graph.constant(conv.inputs[3]).reshape(-1)[0]
    return len(rows) == 4 and not rows[[0, 3]].any() and bool(value == zero_point)

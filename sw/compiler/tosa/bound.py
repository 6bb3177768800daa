"""The layer bound: cycles that the products of a graph take at least, one after another.

A product takes the cycles of its MACs on an array that is never idle, or those in which its weights
pass the bus, whichever are more. A depthwise convolution takes its MACs on the depthwise engine
instead. Every other operator takes none. The bound is optimistic on purpose: what a program cannot
hide shows as a difference to it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from spec.config import NpuConfig
from sw.compiler.tosa.graph import Graph, Op
from sw.compiler.tosa.macs import op_macs


def op_bound(graph: Graph, op: Op, config: NpuConfig) -> float:
    """Cycles of one operator; 0 for what is no product."""
    macs = op_macs(graph, op)
    if not macs:
        return 0.0
    if op.kind == "DEPTHWISE_CONV2D" and config.depthwise:
        compute = macs / (config.cols * config.taps)
    else:
        compute = macs / config.pes
    return max(compute, weight_bytes(graph, op) / config.bus_bytes)


def graph_bound(graph: Graph, config: NpuConfig) -> float:
    """The bound of a graph: the sum over its operators."""
    return sum(op_bound(graph, op, config) for op in graph.ops)


def weight_bytes(graph: Graph, op: Op) -> int:
    """Bytes of a product's weights as they are stored, without zeros that a pass put among them.

    Those of a convolution are its second operand. A MATMUL has weights where an operand is a
    constant; a product of two activations has none.
    """
    if op.work is not None:
        return op.work.weight_bytes
    if op.kind == "MATMUL":
        operands = [graph.tensors[name] for name in op.inputs[:2]]
        return sum(tensor.nbytes for tensor in operands if tensor.is_constant)
    return graph.tensors[op.inputs[1]].nbytes


def shares(names: Sequence[str], sizes: Sequence[int], values: Mapping[str, float]) -> list[float]:
    """What each layer of a program has of `values`, figures of the products that layers compute.

    names: of each layer's product, "" for none; a part of a product has more behind a dot.
    sizes: elements of each layer's result; parts of a product share its figure by them.
    """
    owners = [_owner(name, values) for name in names]
    totals: Counter[str] = Counter()
    for owner, size in zip(owners, sizes, strict=True):
        totals[owner] += size
    pairs = zip(owners, sizes, strict=True)
    return [values[name] * size / totals[name] if name else 0.0 for name, size in pairs]


def _owner(name: str, values: Mapping[str, float]) -> str:
    while name not in values and "." in name:
        name = name.rpartition(".")[0]
    return name if name in values else ""

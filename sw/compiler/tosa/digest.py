"""A digest of what a graph computes, whatever its tensors are called."""

import hashlib

from sw.compiler.tosa.graph import Graph


def graph_digest(graph: Graph) -> str:
    """16 hex digits of operators, types, shapes, attributes and constants in order.

    Names of operators and tensors, source lines and scales of the ports do not count: two entries
    that import one model under one policy give one digest.
    """
    digest, numbers = hashlib.sha256(), dict[str, int]()

    def number(name: str) -> int:
        if name not in numbers:
            numbers[name] = len(numbers)
            tensor = graph.tensors[name]
            digest.update(f"{tensor.dtype} {tensor.shape}".encode())
            if tensor.data is not None:
                digest.update(tensor.data.tobytes())
        return numbers[name]

    for name in graph.inputs:
        number(name)
    for op in graph.ops:
        operands = [number(n) for n in op.inputs], [number(n) for n in op.outputs]
        attributes = sorted((key, str(value)) for key, value in op.attributes.items())
        digest.update(f"{op.kind} {operands} {attributes}".encode())
    digest.update(str([number(n) for n in graph.outputs]).encode())
    return digest.hexdigest()[:16]

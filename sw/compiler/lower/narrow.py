"""Constants of int32 are stored in the fewest bits that hold them.

Whoever reads them as an operand widens them for nothing. They take a half or a quarter of the bytes
on the bus, and of the cycles in which the vector engine reads them.
"""

import numpy as np

from sw.compiler.tosa.graph import Graph

READERS = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "EQUAL", "GREATER", "GREATER_EQUAL")
"""Operators that read their operands so."""


def narrowed(graph: Graph, name: str) -> str:
    """`name`, or a new constant of a narrower type with its elements."""
    tensor = graph.tensors[name]
    # What differs along one dimension becomes an immediate or parameters, which cost nothing.
    several = sum(size > 1 for size in tensor.shape) > 1
    if not tensor.is_constant or tensor.dtype != "int32" or not several:
        return name
    data = graph.constant(name)
    low, high = int(data.min()), int(data.max())
    for dtype in ("int8", "int16"):
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return graph.add_constant(f"{name}_{dtype}", data, dtype)
    return name

"""Constants of int32 that int16 or int8 hold are stored so, behind a CAST.

The layer that reads them widens them for nothing. They take a half or a quarter of the bytes on the
bus, and of the cycles in which the vector engine reads them.
"""

import numpy as np
from numpy.typing import NDArray

from sw.compiler.tosa.graph import Graph, Op

_KINDS = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "EQUAL", "GREATER", "GREATER_EQUAL")
_OPERANDS = 2


def narrow_constants(graph: Graph) -> None:
    """Every operand of an elementwise operator that is such a constant."""
    narrowed: dict[str, str] = {}
    for op in list(graph.ops):
        if op.kind not in _KINDS:
            continue
        for i, name in enumerate(op.inputs[:_OPERANDS]):
            tensor = graph.tensors[name]
            if not tensor.is_constant or tensor.dtype != "int32" or not _is_table(tensor.shape):
                continue
            if name not in narrowed:
                dtype = _narrowest(graph.constant(name))
                if dtype == "int32":
                    continue
                narrowed[name] = _cast(graph, op, name, dtype)
            op.inputs[i] = narrowed[name]


def _is_table(shape: tuple[int, ...]) -> bool:
    """Whether a constant differs along several dimensions. Others become immediates or parameters
    of an instruction, which cost nothing.
    """
    return sum(size > 1 for size in shape) > 1


def _narrowest(data: NDArray[np.int32]) -> str:
    for dtype in ("int8", "int16"):
        limits = np.iinfo(dtype)
        if limits.min <= data.min() and data.max() <= limits.max:
            return dtype
    return "int32"


def _cast(graph: Graph, reader: Op, name: str, dtype: str) -> str:
    """The constant again, of a narrower type, and widened before its first reader."""
    narrow = graph.add_constant(f"{name}_{dtype}", graph.constant(name), dtype)
    wide = graph.add_op("CAST", [narrow], out_dtype="int32", source=reader.source)
    graph.ops.insert(graph.ops.index(reader), graph.ops.pop())
    return wide

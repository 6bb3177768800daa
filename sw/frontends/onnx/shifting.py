"""Which uint8 values are computed with as int8, 128 less, from where they are quantized.

A value is, if all that read it know: what dequantizes it, and what only moves or compares it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

_QUANTIZE = ("QuantizeLinear", "QLinearConv", "QLinearMatMul")
_READS = {"DequantizeLinear": (0,), "QLinearConv": (0,), "QLinearMatMul": (0, 3)}
"""Operands that may be shifted of operators that dequantize them."""
_MOVES = ("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "MaxPool")


def shifted_values(
    nodes: Iterable[Any], outputs: Iterable[str], types: Mapping[str, int]
) -> set[str]:
    """Names of values. nodes: in order; outputs: of the graph; types: ONNX's, by name."""
    from onnx import TensorProto

    nodes = list(nodes)
    found: set[str] = set()
    for node in nodes:
        made = node.op_type in _QUANTIZE
        if made or (node.op_type in _MOVES and node.input[0] in found):
            uint8 = types.get(node.output[0]) == TensorProto.UINT8
            found |= {node.output[0]} if uint8 and len(node.output) == 1 else set()
    found -= set(outputs)
    while unknown := {name for node in nodes for name in _unknown(node, found)}:
        found -= unknown
    return found


def _unknown(node: Any, found: set[str]) -> set[str]:
    """The values in `found` that a node reads or makes without knowing how."""
    read = {name for name in node.input if name in found}
    if node.op_type in _MOVES:
        read &= {node.input[0]} if node.output[0] not in found else set()
        # What a move makes of a value that is not shifted is not either.
        return read | ({node.output[0]} & found if node.input[0] not in found else set())
    known = {node.input[i] for i in _READS.get(node.op_type, ()) if i < len(node.input)}
    return read - known

"""Constants of a graph as inputs: data that the compiler knows nothing of."""

from typing import Any

from numpy.typing import NDArray

from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.table import operator

_COMPILE_TIME = (
    "input_zp", "output_zp", "input1_zp", "weight_zp", "A_zp", "B_zp", "multiplier", "shift",
    "table", "pad_const", "weight", "bias",
)  # fmt: skip
"""Operands that stay constants: instruction fields, tables, and the weights that programs carry."""


def expose_constants(graph: Graph) -> tuple[Graph, dict[str, NDArray[Any]]]:
    """A copy of `graph` whose constant operands are inputs, and their values by name.

    What an operator needs at compile time stays: zero points, multipliers, shifts, tables, shapes,
    padding values, weights and biases.
    """
    graph = graph.copy()
    names: dict[str, str] = {}
    for op in graph.ops:
        operands = operator(op).operands
        for i, name in enumerate(op.inputs):
            tensor = graph.tensors[name]
            operand = operands[min(i, len(operands) - 1)]
            if not tensor.is_constant or tensor.dtype == "shape" or operand in _COMPILE_TIME:
                continue
            if name not in names:
                fresh = graph.fresh_name(f"{name}_data")
                names[name] = graph.add_input(fresh, tensor.shape, tensor.dtype)
            op.inputs[i] = names[name]
    return graph, {fresh: graph.constant(name) for name, fresh in names.items()}

"""The meaning of a TOSA graph: every operator in NumPy, bit for bit.

The semantics are those of the TOSA 1.0 integer profile; values are computed in int64 (products of
convolutions and matrices in float64, where every partial sum is exact) and stored in the tensor's
type. It is the yardstick for each compiler stage, and is itself checked against
`tosa_reference_model` over random operators.
"""

from collections.abc import Mapping

import numpy as np

from sw.compiler.errors import GraphError
from sw.compiler.tosa.graph import DTYPES, Graph
from sw.compiler.tosa.semantics.arrays import Array
from sw.compiler.tosa.table import operator


def run_graph(graph: Graph, inputs: Mapping[str, Array], *, keep: bool = False) -> dict[str, Array]:
    """Execute `graph` and return its outputs by name (`keep`: every tensor).

    `inputs` has one array per graph input, of the declared shape and dtype; `GraphError` names the
    first that is missing or does not fit.
    """
    values: dict[str, Array] = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    for name in graph.inputs:
        values[name] = _checked_input(graph, name, inputs)
    for op in graph.ops:
        out = graph.tensors[op.outputs[0]]
        result = operator(op).evaluate(op, [values[n] for n in op.inputs], out.dtype)
        # Not ascontiguousarray: that makes a vector of a tensor of rank 0.
        values[out.name] = np.array(result, DTYPES[out.dtype], order="C")
        if result.shape != out.shape:
            raise GraphError(
                f"{op.kind} gave {list(result.shape)}, tensor {out.name!r} is {list(out.shape)}",
                node=op.name,
            )
    return values if keep else {name: values[name] for name in graph.outputs}


def _checked_input(graph: Graph, name: str, inputs: Mapping[str, Array]) -> Array:
    tensor = graph.tensors[name]
    if name not in inputs:
        raise GraphError(f"no value for graph input {name!r}", hint=f"it is {tensor}")
    value = np.asarray(inputs[name])
    if value.shape != tensor.shape or value.dtype != DTYPES[tensor.dtype]:
        raise GraphError(
            f"graph input {name!r} is {tensor.dtype}{list(tensor.shape)}, "
            f"got {value.dtype}{list(value.shape)}"
        )
    return value

"""The operator table of the graph IR: every integer operator of TOSA 1.0, and graph verification.

Rows and their rules are in `sw/compiler/tosa/operators/`, a file per family: operand names,
attributes, shapes, types, and the specification's ERROR_IF conditions.
"""

from collections.abc import Mapping
from typing import Any

from sw.compiler.errors import GraphError
from sw.compiler.tosa.graph import DTYPES, Graph, Op, Tensor
from sw.compiler.tosa.operators.checker import Checker, OperatorSpec, Shape
from sw.compiler.tosa.operators.elementwise import ELEMENTWISE
from sw.compiler.tosa.operators.moves import MOVES
from sw.compiler.tosa.operators.products import PRODUCTS
from sw.compiler.tosa.operators.reductions import REDUCTIONS

OPERATORS: Mapping[str, OperatorSpec] = {**PRODUCTS, **ELEMENTWISE, **REDUCTIONS, **MOVES}


def operator(op: Op) -> OperatorSpec:
    """The table's row for `op`; `GraphError` on a kind that it does not have."""
    spec = OPERATORS.get(op.kind)
    if spec is None:
        raise GraphError(
            f"unknown operator {op.kind}",
            node=op.name,
            source=op.source,
            hint=f"operators of this release: {', '.join(OPERATORS)}",
        )
    return spec


def complete_attributes(op: Op, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with defaults added, lists as tuples; `GraphError` on unknown or missing names."""
    spec = operator(op)
    for key in given:
        if key not in spec.attributes:
            known = ", ".join(spec.attributes) or "none"
            raise GraphError(
                f"{op.kind} has no attribute {key!r} (known: {known})",
                node=op.name,
                source=op.source,
            )
    merged = {**spec.attributes, **given}
    for key, value in merged.items():
        if value is None:
            raise GraphError(f"{op.kind} needs attribute {key!r}", node=op.name, source=op.source)
    return {k: tuple(v) if isinstance(v, list) else v for k, v in merged.items()}


def infer(graph: Graph, op: Op, out_dtype: str = "") -> tuple[Shape, str]:
    """Shape and dtype of the output of `op`, with every rule of the operator checked."""
    spec = operator(op)
    return spec.infer(Checker(graph, op, spec), out_dtype)


def verify(graph: Graph) -> None:
    """Names resolve, every tensor is written before it is read, shapes and types are inferred."""
    for name, tensor in graph.tensors.items():
        _verify_tensor(name, tensor)
    defined = set(graph.inputs) | {t.name for t in graph.tensors.values() if t.is_constant}
    for name in graph.inputs:
        if name not in graph.tensors:
            raise GraphError(f"graph input {name!r} is no tensor of the graph")
        if graph.tensors[name].is_constant:
            raise GraphError(f"graph input {name!r} is a constant")
    for op in graph.ops:
        _verify_op(graph, op, defined)
        defined.update(op.outputs)
    if not graph.outputs:
        raise GraphError(f"graph {graph.name!r} has no outputs")
    for name in graph.outputs:
        if name not in defined:
            raise GraphError(f"graph output {name!r} is never written")


def _verify_tensor(name: str, tensor: Tensor) -> None:
    if tensor.name != name:
        raise GraphError(f"tensor {tensor.name!r} is filed under {name!r}")
    if tensor.dtype not in DTYPES:
        raise GraphError(
            f"tensor {name!r}: unknown dtype {tensor.dtype!r}; known: {', '.join(DTYPES)}"
        )
    if any(not isinstance(s, int) or s < 1 for s in tensor.shape) and tensor.dtype != "shape":
        raise GraphError(f"tensor {name!r}: shape {list(tensor.shape)} must be whole numbers >= 1")
    data = tensor.data
    if data is not None and (data.shape != tensor.shape or data.dtype != DTYPES[tensor.dtype]):
        raise GraphError(
            f"constant {name!r}: data is {data.dtype}{list(data.shape)}, declared "
            f"{tensor.dtype}{list(tensor.shape)}"
        )


def _verify_op(graph: Graph, op: Op, defined: set[str]) -> None:
    complete_attributes(op, op.attributes)
    if len(op.outputs) != 1 or op.outputs[0] not in graph.tensors:
        raise GraphError(
            f"outputs {op.outputs}: must name one tensor", node=op.name, source=op.source
        )
    out = graph.tensors[op.outputs[0]]
    shape, dtype = infer(graph, op, out.dtype)
    for name in op.inputs:
        if name not in defined:
            raise GraphError(
                f"reads tensor {name!r} before it is written", node=op.name, source=op.source
            )
    if out.name in defined:
        raise GraphError(f"tensor {out.name!r} is written twice", node=op.name, source=op.source)
    if (shape, dtype) != (out.shape, out.dtype):
        raise GraphError(
            f"{op.kind} gives {dtype}{list(shape)}, tensor {out.name!r} is declared "
            f"{out.dtype}{list(out.shape)}",
            node=op.name,
            source=op.source,
        )

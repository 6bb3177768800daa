"""Places that are known when the file is read become part of the operation that uses them."""

from dataclasses import replace
from typing import Any

import torch

from sw.frontends.stablehlo.graph import Graph
from sw.frontends.stablehlo.records import Op


def fix_places(graph: Graph) -> None:
    """Give a scatter its constant indices, and a sort what of its operands counts elements."""
    graph.ops = [_fixed(graph, op) for op in graph.ops]


def _fixed(graph: Graph, op: Op) -> Op:
    found: dict[str, Any] = {}
    if op.kind == "scatter" and op.operands[1] in graph.constants:
        found["places"] = graph.constants[op.operands[1]].numpy()
    elif op.kind == "sort":
        dim = int(op.attributes["dimension"])
        found["counted"] = tuple(_counts(graph, value, dim) for value in op.operands)
    return replace(op, attributes={**op.attributes, **found}) if found else op


def _counts(graph: Graph, value: int, dim: int) -> bool:
    """Whether a value is 0, 1, 2, … along the dimension."""
    tensor = graph.constants.get(value)
    if tensor is None or tensor.is_floating_point():
        return False
    rows = tensor.movedim(dim, -1)
    return bool((rows == torch.arange(rows.shape[-1])).all())

"""A model without ONNX Runtime's own operators."""

from collections.abc import Mapping
from typing import Any

from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.microsoft.attention import ATTENTION
from sw.frontends.onnx.microsoft.dynamic import DYNAMIC, with_real_products
from sw.frontends.onnx.microsoft.fused import FUSED
from sw.frontends.onnx.microsoft.integers import INTEGERS
from sw.frontends.onnx.microsoft.writer import FUNCTIONS, Writer
from sw.frontends.onnx.node import attributes_of, reads_of

RULES = {**FUSED, **ATTENTION, **INTEGERS, **DYNAMIC}
"""By operator: what is written down in its place."""

UNREGISTERED = ("SimplifiedLayerNormalization",)
"""Operators that ONNX Runtime writes into the standard's domain, which does not have them."""


def is_rewritten(node: Any) -> bool:
    """Whether there is a rule for the node's operator."""
    own = node.domain == "com.microsoft" or node.op_type in UNREGISTERED
    return own and node.op_type in RULES


def standard(model: Any, file: str) -> Any:
    """The model (changed in place) with standard nodes for those of com.microsoft that have a rule.

    `OnnxError` for a node that is not as ONNX Runtime writes it, with its name.
    """
    graph = model.graph
    nodes: list[Any] = []
    given = with_real_products(graph)
    read: dict[str, set[str]] = {each.name: {""} for each in graph.output}
    for node in given:
        for name in reads_of(node):
            read.setdefault(name, set()).add(node.op_type)
    for node in given:
        if is_rewritten(node):
            nodes += _written(node, graph, read, file)
        else:
            nodes.append(node)
    if any(node.domain == FUNCTIONS for node in nodes):
        model.opset_import.add(domain=FUNCTIONS, version=1)
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return model


def _written(node: Any, graph: Any, read: Mapping[str, set[str]], file: str) -> list[Any]:
    if not set(read) & set(node.output):
        return []
    name = node.name or next(iter(node.output), "")
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    try:
        writer = Writer(node, attributes_of(node, {}), read)
        RULES[node.op_type](writer)
        writer.require_all_seen()
    except OnnxError as error:
        raise error.at(file=file, node=name, operator=operator) from None
    except Exception as error:  # of a file that may hold anything
        raise OnnxError(
            f"it is not as ONNX Runtime writes it: {(str(error).splitlines() or [''])[0]}"[:300],
            hint="export the model again", file=file, node=name, operator=operator,
        ) from error  # fmt: skip
    graph.initializer.extend(writer.constants)
    return writer.nodes

"""Batch norms in inference mode, folded into the convolution or linear layer before them."""

from collections.abc import Mapping
from operator import attrgetter

import numpy as np
import torch
from torch.fx import GraphModule, Node

from sw.compiler.errors import CompileError
from sw.compiler.frontend.nodes import arguments, aten
from sw.compiler.frontend.patterns import channel_affine
from sw.compiler.frontend.sources import source_line

_LAYERS = (aten.conv2d.default, aten.conv2d.padding, aten.linear.default)
_BATCH_NORM = aten._native_batch_norm_legit_no_training.default


def batch_norm_error(node: Node) -> CompileError:
    """What to say about a batch norm that could not be folded."""
    return CompileError(
        "a batch norm that follows no convolution or linear layer, or one that is used twice, or "
        "whose parameters are computed in forward()",
        node=node.name,
        source=source_line(node),
        hint="only a batch norm right behind such a layer can be folded into its weights",
    )


def parameters_of(graph: GraphModule) -> dict[Node, torch.Tensor]:
    """The values of parameters and buffers, by the nodes that read them."""
    return {
        node: attrgetter(node.target)(graph).detach()
        for node in graph.graph.nodes
        if node.op == "get_attr"
    }


def fold_batch_norms(graph: GraphModule) -> None:
    """Fold each batch norm into the layer before it, in place; behind anything else it stays.

    `CompileError` for one whose parameters are no constants: PT2E would fail on them.
    """
    parameters = parameters_of(graph)
    for node in list(graph.graph.nodes):
        if node.target is _BATCH_NORM and _follows_layer(node, parameters):
            _fold(graph, node, parameters)
    graph.graph.eliminate_dead_code()
    graph.graph.lint()
    graph.recompile()


def _follows_layer(norm: Node, parameters: Mapping[Node, torch.Tensor]) -> bool:
    layer = norm.args[0]
    alone = isinstance(layer, Node) and layer.target in _LAYERS and len(layer.users) == 1
    return alone and arguments(layer)["weight"] in parameters


def _fold(graph: GraphModule, norm: Node, parameters: Mapping[Node, torch.Tensor]) -> None:
    """In float64: folding must not be what costs accuracy."""
    found = channel_affine(norm, parameters)
    bias = None if found is None else arguments(found[0])["bias"]
    if found is None or (bias is not None and bias not in parameters):
        raise batch_norm_error(norm)
    layer, factor, offset = found
    weight = parameters[arguments(layer)["weight"]]
    scaled = weight.double().numpy() * factor.reshape(-1, *[1] * (weight.dim() - 1))
    moved = offset if bias is None else parameters[bias].double().numpy() * factor + offset
    values = {"weight": scaled, "bias": np.broadcast_to(moved, len(weight))}
    with graph.graph.inserting_before(layer):
        nodes = [
            add_parameter(
                graph, f"{layer.name}_folded_{name}", torch.tensor(value).to(weight.dtype)
            )
            for name, value in values.items()
        ]
    layer.args = (layer.args[0], *nodes, *layer.args[3:])
    for user in list(norm.users):
        if user.args[1] == 0:  # getitem 0 is the result; the saved statistics are unused
            user.replace_all_uses_with(layer)


def add_parameter(graph: GraphModule, name: str, value: torch.Tensor) -> Node:
    """A node that reads a new buffer, where the graph inserts nodes now."""
    graph.register_buffer(name, value)
    node = graph.graph.get_attr(name)
    node.meta["val"] = getattr(graph, name)
    return node

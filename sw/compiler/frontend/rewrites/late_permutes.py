"""Permutations to channels-last move behind the elementwise operators that follow them.

Models of NHWC frameworks permute around every convolution: NHWC to NCHW before it, and back behind
it. Memory is NHWC all the time, so the permutations cost nothing. But they stand between a
convolution and its activation, and between it and the sum of a residual connection, which is where
quantization and the convolution's epilogue look for them. Behind the elementwise operators they
meet the permutation before the next convolution, and both vanish.
"""

from typing import Any

import torch
from torch.fx import GraphModule, Node, map_arg

from sw.compiler.frontend.nodes import aten, is_float, permutation, shape
from sw.compiler.frontend.operator_sets import BATCH_NORMS, CONVOLUTIONS, SPATIAL, UNIVARIATE
from sw.compiler.frontend.operators import targets
from sw.compiler.frontend.quantization.calibrate import fixed_nodes

_PERMUTES = targets("permute")
_BINARY = targets("add", "sub", "multiply", "divide")
_SOURCES = CONVOLUTIONS | BATCH_NORMS | targets(*SPATIAL)


def move_permutes(module: GraphModule) -> None:
    """Move them in place; the module computes the same."""
    fixed = fixed_nodes(module)
    images: set[Node] = set()  # in NCHW, of a convolution or a pool, or computed from such
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in _SOURCES:
            images.add(node)
        elif node.target in _PERMUTES:
            _cancel(node, images)
        elif node.target in UNIVARIATE and is_float(node):
            varying = [n for n in node.all_input_nodes if n not in fixed]
            if varying and (images.issuperset(varying) or _move(node, images, fixed)):
                images.add(node)


def _last(rank: int) -> list[int]:
    """The permutation of NCHW to NHWC."""
    return [0, *range(2, rank), 1]


def _first(rank: int) -> list[int]:
    """The permutation of NHWC to NCHW."""
    return [0, rank - 1, *range(1, rank - 1)]


def _is_permute(node: Any, images: set[Node]) -> bool:
    """Whether `node` brings the channels of an image last."""
    if node.target not in _PERMUTES or node.args[0] not in images:
        return False
    rank = len(shape(node))
    return rank > 2 and permutation(node, rank) == _last(rank)


def _cancel(node: Node, images: set[Node]) -> None:
    """An image whose channels went last and come back was in NCHW before."""
    inner: Any = node.args[0]
    rank = len(shape(node))
    if _is_permute(inner, images) and permutation(node, rank) == _first(rank):
        node.replace_all_uses_with(inner.args[0])


def _move(node: Node, images: set[Node], fixed: set[Node]) -> bool:
    """Compute `node` in NCHW and permute its result, if all that varies in it is permuted."""
    operands, rank = node.all_input_nodes, len(shape(node))
    varying = [n for n in operands if n not in fixed]
    if not all(_is_permute(n, images) and len(shape(n)) == rank for n in varying):
        return False
    constants = [n for n in operands if n in fixed]
    if constants and (node.target not in _BINARY or any(len(shape(n)) > rank for n in constants)):
        return False
    graph = node.graph
    with graph.inserting_before(node):
        sources: dict[Node, Any] = {n: n.args[0] for n in varying}
        sources |= {n: _constant(n, rank) for n in constants}
    node.args = map_arg(node.args, lambda n: sources[n])
    node.kwargs = map_arg(node.kwargs, lambda n: sources[n])
    meta = dict(node.meta)
    node.meta["val"] = node.meta["val"].permute(_first(rank))
    with graph.inserting_after(node):
        back = graph.call_function(aten.permute.default, (node, _last(rank)))
    back.meta = meta
    node.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)
    return True


def _constant(node: Node, rank: int) -> Node:
    """A constant that is broadcast to NHWC as one that is broadcast to NCHW."""
    if shape(node).count(1) == len(shape(node)):
        return node
    graph, full = node.graph, [1] * (rank - len(shape(node))) + list(shape(node))
    wide = graph.call_function(aten.view.default, (node, full))
    wide.meta = {**node.meta, "val": torch.empty_like(node.meta["val"]).reshape(full)}
    moved = graph.call_function(aten.permute.default, (wide, _first(rank)))
    moved.meta = {**node.meta, "val": wide.meta["val"].permute(_first(rank))}
    return moved

"""Products with a constant matrix become linear layers.

The weights of a linear layer have a scale for each channel, and what they are multiplied with has
one for each input channel. A matrix that is the first operand, W · xᵀ, is (x · Wᵀ)ᵀ: what follows
then lies in memory as x does, so that neither x nor the result is transposed.
"""

import math
from typing import Any

from torch.fx import GraphModule, Node

from sw.compiler.frontend.nodes import aten, is_float, permutation, shape, swapped
from sw.compiler.frontend.operator_sets import SAME, VIEWS
from sw.compiler.frontend.operators import targets
from sw.compiler.frontend.quantization.calibrate import fixed_nodes
from sw.compiler.frontend.quantization.quantize_nodes import is_dequantize
from sw.compiler.frontend.rewrites.tracing import called

_PRODUCTS = targets("matmul") | {aten.mm.default}
_PERMUTES = targets("permute")


def make_linear(module: GraphModule) -> None:
    """Rewrite a captured graph in place; it computes the same."""
    fixed = fixed_nodes(module)
    for node in list(module.graph.nodes):
        if node.target not in _PRODUCTS or not is_float(node) or node in fixed:
            continue
        left, right = node.args[:2]
        if right in fixed and len(shape(right)) > 2:
            matrix = _matrix(right)
            if matrix is not None and shape(left)[:-2] == shape(node)[:-2]:
                _multiply(node, left, matrix, turned=False)
        elif left in fixed:
            matrix, source = _matrix(left), _turned(right)
            if matrix is None or source is None:
                continue
            if shape(source)[:-2] == shape(node)[:-2]:
                _multiply(node, source, matrix, turned=True)


def _matrix(node: Node) -> Node | None:
    """The single matrix that a constant has, of two dimensions; None where it has several."""
    size = shape(node)
    while len(shape(node)) > 2 and math.prod(shape(node)[:-2]) > 1 and node.target in VIEWS:
        node = node.all_input_nodes[0]
    if shape(node)[-2:] != size[-2:] or math.prod(shape(node)) != math.prod(size[-2:]):
        return None
    return None if is_dequantize(_made(node)) else node


def _made(node: Node) -> Node:
    while node.target in SAME | VIEWS and not is_dequantize(node):
        node = node.all_input_nodes[0]
    return node


def _turned(node: Any) -> Node | None:
    """What has the last two dimensions of `node` swapped, if that is how `node` was made."""
    while node.target in SAME | VIEWS and node.target not in _PERMUTES:
        source = node.all_input_nodes[0]
        same = source.meta["val"].dtype is node.meta["val"].dtype
        if shape(source) != shape(node) or not same or is_dequantize(node):
            return None
        node = source
    rank = len(shape(node))
    if node.target not in _PERMUTES or permutation(node, rank) != swapped(rank):
        return None
    source = node.args[0]
    return None if is_dequantize(_made(source)) else source


def _multiply(node: Node, rows: Any, matrix: Node, *, turned: bool) -> None:
    """`node` as linear(rows, weights): of the matrix as it is, if the product is `turned`."""
    axes = swapped(len(shape(node)))
    with node.graph.inserting_before(node):
        weights = called(node, aten.reshape.default, matrix, list(shape(matrix)[-2:]))
        if not turned:
            weights = called(node, aten.permute.default, weights, [1, 0])
            node.target, node.args = aten.linear.default, (rows, weights)
            return
        product = called(node, aten.linear.default, rows, weights)
        node.target, node.args = aten.permute.default, (product, axes)

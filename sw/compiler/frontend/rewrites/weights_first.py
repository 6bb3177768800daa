"""Products whose second operand is a transposed softmax: the weights become the first operand.

JAX's einsum makes vᵀ·pᵀ of attention, which is (p·v)ᵀ. A product divides its rows by the sums of a
softmax (`rules/products.py`), so the weights must be its rows.
"""

from typing import Any

from torch.fx import GraphModule, Node

from sw.compiler.frontend.nodes import aten, is_float, permutation, shape, swapped
from sw.compiler.frontend.operators import targets
from sw.compiler.frontend.rewrites.tracing import called

_PRODUCTS = targets("matmul") | {aten.mm.default}
_PERMUTES = targets("permute")
_SOFTMAX = targets("softmax")


def put_weights_first(module: GraphModule) -> None:
    """Rewrite a captured graph in place; it computes the same."""
    for node in list(module.graph.nodes):
        if node.target in _PRODUCTS and _is_transposed_softmax(node.args[1]):
            _swap(node)


def _is_transposed_softmax(node: Any) -> bool:
    """Whether a value is a softmax with its last two dimensions swapped, for one reader."""
    rank = len(shape(node))
    if node.target not in _PERMUTES or len(node.users) > 1 or rank < 2:
        return False
    source: Any = node.args[0]
    return (
        source.target in _SOFTMAX
        and len(source.users) == 1
        and is_float(source)
        and permutation(node, rank) == swapped(rank)
    )


def _swap(node: Node) -> None:
    """a·pᵀ as (p·aᵀ)ᵀ."""
    left: Any = node.args[0]
    moved: Any = node.args[1]
    rank = len(shape(node))
    if len(shape(left)) != rank or len(shape(moved)) != rank:
        return
    axes = swapped(rank)
    with node.graph.inserting_before(node):
        turned = called(node, aten.permute.default, left, axes)
        product = called(node, node.target, moved.args[0], turned)
    node.target, node.args = aten.permute.default, (product, axes)

"""Spellings that the importer has other words for, and what is no work, before anything else."""

import torch
from torch.fx import GraphModule, Node

from sw.compiler.frontend.filled import without_shape_operands
from sw.compiler.frontend.operator_sets import aten
from sw.compiler.frontend.quantization.calibrate import fixed_nodes
from sw.compiler.frontend.rewrites.rewrite import rewrite

MASKED = -100.0
"""What −∞ and other huge negative numbers of a mask become: e^−100 is 0 in every format."""

_ATTENTION = aten.scaled_dot_product_attention.default


def normalize(module: GraphModule) -> None:
    """Rewrite a captured graph in place; it computes the same."""
    without_shape_operands(module)
    fixed = fixed_nodes(module)
    masks: dict[Node, Node] = {}
    for node in list(module.graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
        elif node.target is aten.cat.default:
            _without_empty(node)
        elif node.target is aten.pad.default:
            _constant_pad(module, node)
        elif node.target is aten.baddbmm.default and node.args[0] not in fixed:
            _taken_apart(module, node)
        elif node.target is _ATTENTION:
            mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
            if isinstance(mask, Node) and mask not in fixed and _dtype(mask) is torch.bool:
                node.replace_input_with(mask, _added(module, mask, masks))
    rewrite(module)
    module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()


def _dtype(node: Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _without_empty(node: Node) -> None:
    """A concatenation with nothing: a cache of keys before its first token."""
    full = [n for n in node.args[0] if n.meta["val"].numel()]
    if full and len(full) < len(node.args[0]) and _dtype(full[0]) is _dtype(node):
        if len(full) == 1 and full[0].meta["val"].shape == node.meta["val"].shape:
            node.target, node.args = aten.clone.default, (full[0],)
            node.kwargs = {"memory_format": torch.contiguous_format}
        else:
            node.args = (full, *node.args[1:])


def _constant_pad(module: GraphModule, node: Node) -> None:
    mode = node.args[2] if len(node.args) > 2 else node.kwargs.get("mode", "constant")
    value = node.args[3] if len(node.args) > 3 else node.kwargs.get("value")
    if mode == "constant":
        node.target = aten.constant_pad_nd.default
        node.args, node.kwargs = (*node.args[:2], value or 0.0), {}


def _taken_apart(module: GraphModule, node: Node) -> None:
    """β·input + α·(a @ b) with an input that is no constant."""
    first, a, b = node.args[:3]
    beta, alpha = node.kwargs.get("beta", 1), node.kwargs.get("alpha", 1)
    with module.graph.inserting_before(node):
        product = module.graph.call_function(aten.bmm.default, (a, b))
        scaled = module.graph.call_function(aten.mul.Tensor, (product, float(alpha)))
        added = module.graph.call_function(aten.mul.Tensor, (first, float(beta)))
    product.meta = scaled.meta = dict(node.meta)
    added.meta = {**node.meta, "val": first.meta["val"]}
    node.target, node.args, node.kwargs = aten.add.Tensor, (scaled, added), {}


def _added(module: GraphModule, mask: Node, known: dict[Node, Node]) -> Node:
    """What a mask of bool adds to the scores, on the CPU; once for all layers."""
    if mask not in known:
        with module.graph.inserting_after(mask):
            added = module.graph.call_function(aten.where.Scalar, (mask, 0.0, MASKED), {})
        added.meta = {**mask.meta, "val": torch.empty_like(mask.meta["val"], dtype=torch.float32)}
        known[mask] = added
    return known[mask]

"""Spellings that the importer has other words for, and what is no work, before anything else."""

import torch
from torch.fx import GraphModule, Node

from sw.compiler.frontend.nodes import arguments, aten, kind
from sw.compiler.frontend.quantization.calibrate import fixed_nodes
from sw.compiler.frontend.rewrites.bags import rewrite_bags
from sw.compiler.frontend.rewrites.late_permutes import move_permutes
from sw.compiler.frontend.rewrites.rewrite import rewrite

MASKED = -100.0
"""What −∞ and other huge negative numbers of a mask become: e^−100 is 0 in every format."""

_ATTENTION = aten.scaled_dot_product_attention.default


def normalize(module: GraphModule) -> None:
    """Rewrite a captured graph in place; it computes the same."""
    rewrite_bags(module)
    rewrite(module)
    fixed = fixed_nodes(module)
    masks: dict[Node, Node] = {}
    for node in list(module.graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
        elif node.target is aten.cat.default:
            _without_empty(node)
        elif node.target is _ATTENTION:
            mask = arguments(node)["attn_mask"]
            if mask not in fixed and kind(mask) == "bool":
                node.replace_input_with(mask, _added(module, mask, masks))
    move_permutes(module)
    module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()


def _is_empty(node: Node) -> bool:
    return any(isinstance(size, int) and not size for size in node.meta["val"].shape)


def _without_empty(node: Node) -> None:
    """A concatenation with nothing: a cache of keys before its first token."""
    full = [n for n in node.args[0] if not _is_empty(n)]
    if (
        full
        and len(full) < len(node.args[0])
        and full[0].meta["val"].dtype is node.meta["val"].dtype
    ):
        if len(full) == 1 and full[0].meta["val"].shape == node.meta["val"].shape:
            node.target, node.args = aten.clone.default, (full[0],)
            node.kwargs = {"memory_format": torch.contiguous_format}
        else:
            node.args = (full, *node.args[1:])


def _added(module: GraphModule, mask: Node, known: dict[Node, Node]) -> Node:
    """What a mask of bool adds to the scores, on the CPU; once for all layers."""
    if mask not in known:
        with module.graph.inserting_after(mask):
            added = module.graph.call_function(aten.where.Scalar, (mask, 0.0, MASKED), {})
        added.meta = {**mask.meta, "val": torch.empty_like(mask.meta["val"], dtype=torch.float32)}
        known[mask] = added
    return known[mask]

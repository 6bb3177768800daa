"""Spellings that the importer has other words for, and what is no work, before anything else."""

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from sw.compiler.frontend.nodes import arguments, aten, is_float, kind, shape
from sw.compiler.frontend.operator_sets import MOVES, SAME, VIEWS
from sw.compiler.frontend.operators import targets
from sw.compiler.frontend.quantization.calibrate import HUGE, fixed_nodes
from sw.compiler.frontend.rewrites.bags import rewrite_bags
from sw.compiler.frontend.rewrites.complex_numbers import compute_in_reals
from sw.compiler.frontend.rewrites.constant_matrices import make_linear
from sw.compiler.frontend.rewrites.dynamic_rows import unround_rows
from sw.compiler.frontend.rewrites.late_permutes import move_permutes
from sw.compiler.frontend.rewrites.rewrite import rewrite
from sw.compiler.frontend.rewrites.unpools import rewrite_unpools
from sw.compiler.frontend.rewrites.weights_first import put_weights_first
from sw.compiler.frontend.rewrites.writes import join_writes

MASKED = -100.0
"""What −∞ and other huge negative numbers of a mask become: e^−100 is 0 in every format."""

_HIDING = -1000.0
"""From here on a finite number of a mask is as low as −∞: −10000, −65504, −1e9."""

_LOWEST = -2 * HUGE
"""What such a number becomes; two of them have a finite sum, unlike two of the lowest floats."""

_FILLED = {aten.scalar_tensor.default: 0, aten.full.default: 1}
"""Operators that make a constant of one number, and which argument that is."""
_CHOICES = targets("where")
_PATHS = MOVES | SAME | _CHOICES | targets("add")
_SOFTMAX = targets("softmax")

_ATTENTION = aten.scaled_dot_product_attention.default


def normalize(module: GraphModule) -> None:
    """Rewrite a captured graph in place; it computes the same."""
    unround_rows(module, fixed_nodes(module))
    join_writes(module)
    compute_in_reals(module)
    rewrite_bags(module)
    rewrite_unpools(module)
    rewrite(module)
    fixed = fixed_nodes(module)
    masks: dict[Node, Node] = {}
    for node in list(module.graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
        elif node.target is aten.cat.default:
            _without_empty(node)
        elif node.target is aten.view.default:
            # Strides are those of the operators that stood there when the graph was captured.
            node.target = aten.reshape.default
        elif node.target in _CHOICES and is_float(node) and _only_scores(node):
            _hide(module, node)
        elif node.target is _ATTENTION:
            mask = arguments(node)["attn_mask"]
            if mask not in fixed and kind(mask) == "bool":
                node.replace_input_with(mask, _added(module, mask, masks))
    move_permutes(module)
    put_weights_first(module)
    make_linear(module)
    module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()


def _only_scores(node: Node) -> bool:
    """Whether every reader of a value adds it to scores, or is the softmax of them."""
    return bool(node.users) and all(
        user.target in _SOFTMAX
        or (user.target is _ATTENTION and node not in user.args[:3])
        or (user.target in _PATHS and _only_scores(user))
        for user in node.users
    )


def _hide(module: GraphModule, node: Node) -> None:
    """Numbers that mask scores become so low that they are known as masks."""
    for i, value in enumerate(node.args):
        number = _number(module, value)
        if not isinstance(number, int | float) or number > _HIDING:
            continue
        lowest: Any = _LOWEST
        if isinstance(value, Node):
            with module.graph.inserting_before(node):
                lowest = module.graph.call_function(aten.full.default, (list(shape(value)), lowest))
            lowest.meta = dict(value.meta)
        node.update_arg(i, lowest)


def _number(module: GraphModule, value: Any) -> Any:
    """A number, or the only one that a constant is made of, moved or not."""
    while isinstance(value, Node) and value.target in SAME | VIEWS:
        value = value.args[0]
    if not isinstance(value, Node):
        return value
    if value.target in _FILLED:
        return value.args[_FILLED[value.target]]
    if value.op == "get_attr":
        tensor = operator.attrgetter(str(value.target))(module)
        return tensor.item() if isinstance(tensor, torch.Tensor) and not tensor.dim() else None
    return None


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

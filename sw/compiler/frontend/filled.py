"""Constants that take only their shape from a value, as constants without operands.

`zeros_like(y)` of a value `y` that the NPU computes needs no `y`. Left as it is, the constant would
tie the part that computes `y` to whatever reads the constant.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from sw.compiler.frontend.operator_sets import aten

_VALUES = {
    aten.zeros_like.default: 0,
    aten.ones_like.default: 1,
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
    aten.empty_like.default: 0,
    aten.new_empty.default: 0,
}
"""What each operator fills with; tensors that are not filled get zeros."""

_GIVEN = {
    aten.full_like.default: 1,
    aten.new_full.default: 2,
    aten.fill.Scalar: 1,
}
"""Operators that are told what to fill with, and the position of that argument."""


def without_shape_operands(module: GraphModule) -> None:
    """Rewrite such constants in place as `full` of their shape, with the strides that they had."""
    for node in list(module.graph.nodes):
        value, like = _fill_value(node), node.meta.get("val")
        if value is None or not isinstance(like, torch.Tensor):
            continue
        if all(isinstance(s, int) for s in like.shape):
            _replace(module, node, value, like)


def _fill_value(node: Node) -> Any:
    """The number that `node` fills with; None where it is none, or is computed."""
    if node.target in _GIVEN:
        at = _GIVEN[node.target]
        value = node.args[at] if len(node.args) > at else node.kwargs.get("fill_value")
        return None if isinstance(value, Node) else value
    return _VALUES.get(node.target)


def _replace(module: GraphModule, node: Node, value: Any, like: torch.Tensor) -> None:
    """`full` in the order of memory, then a permutation to the order of the dimensions."""
    order = _outermost_first(like)
    shape = [like.shape[axis] for axis in order]
    with module.graph.inserting_before(node):
        filled = module.graph.call_function(
            aten.full.default, (shape, value), {"dtype": like.dtype, "device": like.device}
        )
        filled.meta = {**node.meta, "val": like.permute(order).contiguous()}
        made = filled
        if order != sorted(order):
            back = [order.index(axis) for axis in range(len(order))]
            made = module.graph.call_function(aten.permute.default, (filled, back))
            made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)


def _outermost_first(like: torch.Tensor) -> Sequence[int]:
    """The dimensions by falling strides; equal strides in their order."""
    return sorted(range(like.dim()), key=lambda axis: -like.stride(axis))

"""Inputs that are only added to scores: very negative values of theirs need no range."""

import torch
from torch.fx import Node

from sw.compiler.frontend.operator_sets import MOVES, SAME, aten

_SOFTMAX = (aten.softmax.int, aten._softmax.default)
_ATTENTION = aten.scaled_dot_product_attention.default


def only_masks(node: Node) -> bool:
    """Whether a value is only added to scores that a softmax reads."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return False
    return bool(node.users) and all(_masks(user, node) for user in node.users)


def _masks(user: Node, operand: Node) -> bool:
    if user.target is _ATTENTION:
        mask = user.args[3] if len(user.args) > 3 else user.kwargs.get("attn_mask")
        return mask is operand and operand not in user.args[:3]
    if user.target in MOVES or user.target in SAME:
        return bool(user.users) and all(_masks(u, user) for u in user.users)
    return user.target is aten.add.Tensor and _scores(user)


def _scores(node: Node) -> bool:
    """Whether only softmaxes read `node`."""
    return bool(node.users) and all(
        u.target in _SOFTMAX
        or ((u.target in MOVES or u.target in SAME) and _scores(u))
        or (u.target is aten.add.Tensor and _scores(u))
        for u in node.users
    )

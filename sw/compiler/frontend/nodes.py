"""Facts about one node of a captured graph: its arguments, shape and type."""

from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten


def arguments(node: Node) -> dict[str, Any]:
    """The arguments of a call by their names in PyTorch's schema, defaults included."""
    schema: Any = node.target
    names = schema._schema.arguments
    given = zip((a.name for a in names), node.args, strict=False)
    return {a.name: a.default_value for a in names} | dict(given) | node.kwargs


def node_argument(node: Node, index: int) -> Node:
    value = node.args[index]
    assert isinstance(value, Node)
    return value


def result(node: Any) -> torch.Tensor | None:
    """What stands for a node's (first) result; None for what is no tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    value = value[0] if isinstance(value, tuple | list) and value else value
    return value if isinstance(value, torch.Tensor) else None


def shape(node: Any) -> tuple[int, ...]:
    """The shape of a node's (first) result; () for a number."""
    value = result(node)
    return () if value is None else tuple(value.shape)


def kind(node: Any) -> str:
    """float, int or bool; '' for what is no tensor."""
    value = result(node)
    if value is None:
        return ""
    if value.dtype is torch.bool:
        return "bool"
    return "float" if value.is_floating_point() else "int"


def is_float(node: Any) -> bool:
    """Whether a node's (first) result is floating point."""
    return kind(node) == "float"


def name(node: Node) -> str:
    """An operator without its overload: `add` for `aten.add.Tensor`."""
    target: Any = node.target
    return str(target._opname)


def permutation(node: Node, rank: int) -> list[int]:
    """The dimensions of the operand in their new order: of permute, transpose and t."""
    axes = list(range(rank))
    given: Any = node.args[1:]
    if node.target is aten.permute.default:
        return [a % rank for a in given[0]]
    if rank > 1:
        a, b = given or (0, 1)
        axes[a], axes[b] = axes[b], axes[a]
    return axes


def swapped(rank: int) -> list[int]:
    """The permutation that swaps the last two of `rank` dimensions."""
    return [*range(rank - 2), rank - 1, rank - 2]

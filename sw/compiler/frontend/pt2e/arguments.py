"""Arguments of FX nodes, as the operator functions read them."""

from collections.abc import Callable
from typing import Any

from torch.fx import Node

from sw.compiler.frontend.pt2e.importer import Importer, Item, Value

Handler = Callable[[Importer, Node], Item]


NHWC = (0, 2, 3, 1)


def argument(node: Node, index: int, name: str, default: Any = None) -> Any:
    """Positional or keyword argument of an FX node."""
    return args(node)[index] if len(node.args) > index else node.kwargs.get(name, default)


def pair(value: Any) -> tuple[int, int]:
    """An int or a list of one or two as (y, x)."""
    items = [value] if isinstance(value, int) else list(value)
    return (items[0], items[0]) if len(items) == 1 else (items[0], items[1])


def out_shape(node: Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def one_scale(x: Value) -> float:
    assert isinstance(x.scale, float)
    return x.scale


def args(node: Node) -> Any:
    """The positional arguments, untyped: what they are depends on the operator."""
    return node.args

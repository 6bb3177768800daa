"""Linear layers with weights of integers, as torchao writes them, their rows rounded or not.

The NPU rounds the rows of a linear layer by their own largest element, too. So the operators that
choose a scale, round, multiply integers and scale back are the linear layer of the real numbers
again, with the weights that the integers stand for. They are known by their names, so that reading
a graph does not need torchao.
"""

from collections.abc import Collection
from operator import getitem
from typing import Any

import torch
from torch.fx import GraphModule, Node

from sw.compiler.frontend.nodes import aten, kind, shape

_NAMESPACE = "torchao."
_CHOOSE = f"{_NAMESPACE}choose_qparams_affine.default"
_QUANTIZE = f"{_NAMESPACE}quantize_affine.default"
_DEQUANTIZE = f"{_NAMESPACE}dequantize_affine.default"
_VIEWS = (aten.view.default, aten.reshape.default)
_MOVES = (aten._to_copy.default, *_VIEWS)
_UNSIGNED = 128
"""What some processors' products of integers want added to their first operand."""


def unround_rows(module: GraphModule, fixed: Collection[Node]) -> None:
    """Rewrite in place. `fixed`: the nodes that no input reaches; other quantize nodes stay."""
    for node in list(module.graph.nodes):
        if str(node.target) == _DEQUANTIZE and _rounded(node.args[0]) is not None:
            node.replace_all_uses_with(_rounded(node.args[0]))
        elif node.target in (aten._int_mm.default, aten.mm.default):
            _product(module, node, fixed)


def _rounded(node: Any) -> Node | None:
    """What `node` rounds with scales chosen for it; None for other nodes."""
    if not isinstance(node, Node) or str(node.target) != _QUANTIZE:
        return None
    source, _, scale = node.args[:3]
    if not isinstance(source, Node) or not isinstance(scale, Node) or scale.target is not getitem:
        return None
    chosen = scale.args[0]
    known = isinstance(chosen, Node) and str(chosen.target) == _CHOOSE
    return source if known and source in chosen.all_input_nodes else None


def _product(module: GraphModule, node: Node, fixed: Collection[Node]) -> None:
    """A product of rows and constant integers, up to where scales and bias are back."""
    weights: Any = node.args[1]
    if weights not in fixed or not _are_integers(weights):
        return
    origin, added = None, 0
    x = _rows(node.args[0])
    if node.target is aten._int_mm.default:
        origin, added = _origin(node.args[0])
        x = _rounded(origin)
    columns = shape(weights)[-1:]
    if x is None or shape(x)[-1:] != shape(weights)[:1] or added not in (0, _UNSIGNED):
        return
    scaling = _Scaling(None if origin is None else origin.args[2], fixed, offset=added != 0)
    at = scaling.last(node)
    if at is None or shape(scaling.scales) != columns:
        return
    end, bias = _end(at, (*shape(x)[:-1], *columns), fixed)
    if end is not None:
        end.replace_all_uses_with(_linear(module, end, x, (weights, scaling.scales, bias)))


class _Scaling:
    """What follows a product of integers, until the scales of rows and columns are back.

    row: what chose the scales of the rows, None where rows are as they were. offset: the rows were
    made unsigned, which is taken back.
    """

    def __init__(self, row: Any, fixed: Collection[Node], *, offset: bool) -> None:
        self.row, self.fixed, self.offset = row, fixed, offset
        self.scales: Any = None

    def last(self, node: Node) -> Node | None:
        """The node behind which the result is that of real numbers; None if there is none."""
        at: Node | None = node
        while at is not None and (self.row is not None or self.scales is None or self.offset):
            user = _only_user(at)
            at = user if user is not None and self._takes(user, at) else None
        return at

    def _takes(self, user: Node, at: Node) -> bool:
        """Whether `user` gives back a part."""
        other = _operand(user, at)
        constant = other in self.fixed
        if user.target is aten.sub.Tensor and self.offset and constant and user.args[0] is at:
            self.offset = False
        elif user.target is aten.mul.Tensor and constant and self.scales is None:
            self.scales = other
        elif user.target is aten.mul.Tensor and self.row and _origin(other)[0] is self.row:
            self.row = None
        else:
            return user.target is aten._to_copy.default
        return True


def _are_integers(node: Any) -> bool:
    while isinstance(node, Node) and node.target in (*_MOVES, aten.t.default):
        node = node.args[0]
    return kind(node) == "int"


def _rows(node: Any) -> Any:
    """What has the same rows before views."""
    while node.target in _VIEWS and shape(node.args[0])[-1:] == shape(node)[-1:]:
        node = node.args[0]
    return node


def _only_user(node: Node) -> Node | None:
    users = [u for u in node.users if u.target is not aten._assert_tensor_metadata.default]
    return users[0] if len(users) == 1 else None


def _operand(user: Node, node: Node | None) -> Any:
    """What else an operator reads."""
    return next((a for a in user.args if isinstance(a, Node) and a is not node), None)


def _end(
    at: Node, wanted: tuple[int, ...], fixed: Collection[Node]
) -> tuple[Node | None, Node | None]:
    """(the last node behind `at` that has the layer's shape, the bias that it has added)."""
    found: tuple[Node | None, Node | None] = (None, None)
    bias: Node | None = None
    node: Node | None = at
    while node is not None:
        if shape(node) == wanted:
            found = node, bias
        user = _only_user(node)
        other = None if user is None else _operand(user, node)
        if user is None or user.target in _MOVES:
            node = user
        elif bias is None and _adds(user) and other in fixed and shape(other) == wanted[-1:]:
            node, bias = user, other
        else:
            break
    return found


def _adds(node: Node) -> bool:
    return node.target is aten.add.Tensor and not node.kwargs


def _origin(node: Any) -> tuple[Any, int]:
    """(what stands before views, casts and sums with a number, the sum of those numbers)."""
    added = 0
    while isinstance(node, Node):
        number = node.args[1] if node.target is aten.add.Tensor else None
        if isinstance(number, int):
            added += number
        elif node.target not in _MOVES:
            break
        node = node.args[0]
    return node, added


def _linear(module: GraphModule, at: Node, x: Node, given: tuple[Node, Node, Node | None]) -> Node:
    """x · (weights · scales) + bias in the place of `at`."""
    weights, scales, bias = given
    size, columns = shape(weights)
    steps: tuple[tuple[Any, tuple[Any, ...], dict[str, Any], tuple[int, ...]], ...] = (
        (aten._to_copy.default, (weights,), {"dtype": torch.float32}, (size, columns)),
        (aten.mul.Tensor, (None, scales), {}, (size, columns)),
        (aten.permute.default, (None, [1, 0]), {}, (columns, size)),
    )
    before: Any = None
    with module.graph.inserting_before(at):
        for target, args, keywords, shaped in steps:
            before = module.graph.call_function(
                target, tuple(before if a is None else a for a in args), keywords
            )
            before.meta = {**at.meta, "val": at.meta["val"].new_empty(shaped)}
        linear = module.graph.call_function(aten.linear.default, (x, before, bias))
    linear.meta = dict(at.meta)
    return linear

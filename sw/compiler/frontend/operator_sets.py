"""Operators by what they do to values, from the table's rules, and the plan of a node."""

import operator
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

from sw.compiler.frontend.nodes import aten as aten
from sw.compiler.frontend.nodes import kind, node_argument
from sw.compiler.frontend.operators import ROWS, targets

REFUSED = "refused"
"""Key of a node's meta data: why it stays as it is (`rewrites/rewrite.py`)."""

PART_OF = "part of"
"""Key of a node's meta data: the operator that was rewritten as it and others."""

SAME = targets("same", "cast")
"""Operators that change no value."""

VIEWS = targets("view", "permute", "expand")

MOVES = VIEWS | targets(
    *("slice_", "select", "split", "getitem", "cat", "repeat", "flip"),
    *("index", "index_select", "gather", "max_pool", "nearest", "constant_pad"),
)
"""Operators whose results are some of the values that they read."""

LINEAR = targets("linear", "mm")
PRODUCTS = targets("matmul", "attention")
CONVOLUTIONS = targets("convolution")
BATCH_NORMS = targets("affine")

BOUNDS = targets("bounded")
"""Operators that only bound a value."""

UNIVARIATE = BOUNDS | targets("univariate", "add", "sub", "multiply", "divide")
"""Elementwise operators: with one operand that is not a number they are a function of one value."""

PERIODIC = frozenset({aten.sin.default, aten.cos.default})

FIRST = frozenset(
    row.target
    for row in ROWS
    if row.rule and row.rule != "getitem" and len(row.target._schema.returns) > 1
)
"""Operators with several results, of which the first is imported."""

SPATIAL = ("convolution", "max_pool", "avg_pool", "adaptive_avg_pool")
"""Rules that want their input in NHWC order."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """`rule` imports the node from the values of `reads`.

    call: the node whose operator and arguments the rule reads (default: the node itself).
    """

    rule: str
    reads: tuple[Node, ...]
    data: dict[str, Any] = field(default_factory=dict)
    call: Node | None = None

    @property
    def source(self) -> Node:
        """`call`, once the planner has set it."""
        assert self.call is not None
        return self.call


def same(node: Any) -> Any:
    """The value behind operators that change nothing."""
    while keeps(node):
        node = node.args[0]
    return node


def first_result(node: Node) -> Node:
    """The operator with several results whose first one `node` is, else `node`."""
    if node.target is operator.getitem and node.args[1] == 0:
        inner = node_argument(node, 0)
        if inner.target in FIRST:
            return inner
    return node


def keeps(node: Any) -> bool:
    """Whether `node` is an operator that changes no value, and not its kind either."""
    if not isinstance(node, Node) or node.target not in SAME:
        return False
    return kind(node) == kind(node.args[0])

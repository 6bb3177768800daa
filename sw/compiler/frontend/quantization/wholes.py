"""Float values that are whole numbers by what computes them, and the fractions beside them.

A step that is a power of two holds whole numbers exactly. In other steps 3 becomes 2.9999, which is
below 3 and becomes 2 where it is cast to an integer: an index of the element beside.

Rounding is a jump. Where calibration only saw x = 3, the NPU may see 2.9999: floor gives 2, and
x - floor(x) gives 0.9999 in place of 0. The range of such a fraction is 1 whatever was seen, and
that of what it weighs is that of the weighed.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from sw.compiler.frontend.nodes import aten, is_float, kind
from sw.compiler.frontend.operator_sets import BOUNDS, MOVES, SAME
from sw.compiler.frontend.operators import targets

Constants = Mapping[Node, torch.Tensor]
"""The nodes that no input reaches, with their values."""

_INT16 = 32767
_ENTRIES = 2.0**-7
"""A TABLE of int16 has an entry for each 128 steps."""
_ROUNDED, _SUB, _ADD = targets("rounded"), targets("sub"), targets("add")
_MULTIPLY, _WHERE = targets("multiply"), targets("where")
_MOVED = MOVES | SAME
_TURNED = frozenset({aten.rsub.Scalar, aten.neg.default, aten.abs.default})
_KEEPING = _TURNED | _MOVED | BOUNDS | _WHERE | _ADD | _SUB | _MULTIPLY | targets("extremum")
"""Operators that make whole numbers of whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wholes:
    """Of a graph, without its constants: the values that are whole numbers; those within −1…1
    because they are fractions; by product with a fraction the other factor.
    """

    whole: set[Node] = field(default_factory=set)
    fractions: set[Node] = field(default_factory=set)
    weighed: dict[Node, Node] = field(default_factory=dict)


def wholes_of(nodes: Iterable[Node], constants: Constants) -> Wholes:
    """The whole numbers and fractions of a graph."""
    found = Wholes()
    rounded: dict[Node, Node] = {}  # by whole number, the value that it is at most 1 away from
    for node in nodes:
        if node.op != "call_function" or node in constants or not is_float(node):
            continue
        if node.target in _ROUNDED:
            rounded[node] = node.args[0]
        elif node.target in _ADD | _SUB and node.args[0] in rounded and _is_one(node):
            rounded[node] = rounded[node.args[0]]
        if node in rounded or _all(constants, found.whole, node, math.inf):
            found.whole.add(node)
        _fraction(constants, found, rounded, node)
    return found


def _fraction(constants: Constants, found: Wholes, rounded: dict[Node, Node], node: Node) -> None:
    """Notes `node` if it is a fraction, or the product with one."""
    a, b = node.args[0], node.args[1] if len(node.args) > 1 else None
    if node.target in _SUB and (rounded.get(a) is b or rounded.get(b) is a):
        found.fractions.add(node)
    elif node.target in _MULTIPLY:
        if a in found.fractions and b in found.fractions:
            found.fractions.add(node)
        elif isinstance(a, Node) and b in found.fractions:
            found.weighed[node] = a
        elif isinstance(b, Node) and a in found.fractions:
            found.weighed[node] = b
    elif node.target in _MOVED | _WHERE and _all(constants, found.fractions, node, 1.0):
        found.fractions.add(node)


def _all(constants: Constants, known: set[Node], node: Node, limit: float) -> bool:
    """Whether a node keeps what all its float operands are: known, or whole within the limit."""

    chosen = node.target in _WHERE  # of integers too; other operators only read them as places

    def fits(value: Any) -> bool:
        if isinstance(value, list | tuple):
            return all(map(fits, value))
        if isinstance(value, Node):
            constant = constants.get(value)
            if value in known or kind(value) == "bool" or not (is_float(value) or chosen):
                return True
            if constant is None:
                return False
            return bool(((constant == constant.round()) & (constant.abs() <= limit)).all())
        return not isinstance(value, float) or (value.is_integer() and abs(value) <= limit)

    plain = node.kwargs.get("alpha", 1) == 1
    return node.target in _KEEPING and plain and all(map(fits, node.args))


def _is_one(node: Node) -> bool:
    """Whether a sum moves a whole number to a neighbour, so that a fraction stays one."""
    return node.args[1] in (-1, 0, 1) and node.kwargs.get("alpha", 1) == 1


def whole_step(step: float, magnitude: float) -> float:
    """A power of two at or above `step`, not above 1 as long as int16 holds `magnitude` so.

    Not below that of a table's entries, which are whole numbers then: int16 holds at least ±256,
    and a place beside a small image stays one that is known to be.
    """
    power = max(_ENTRIES, 2.0 ** math.ceil(math.log2(step)))
    return power if power <= 1 else 1.0 if magnitude <= _INT16 else step

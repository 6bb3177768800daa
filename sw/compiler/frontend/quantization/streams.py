"""Sums whose operands and results are int16 integers of one scale.

A residual stream is a chain of sums. The vector engine adds integers of one scale as they are; an
operand or a result of another scale takes it a cycle more. int16 has steps to spare: a value may
have coarser ones than its own range asks for.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import getitem

from torch.fx import Node

from sw.compiler.frontend.nodes import arguments, is_float
from sw.compiler.frontend.operator_sets import MOVES
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.quantization.calibrate import RangesNeededError

LIMIT = 4.0
"""How many times coarser the steps of a value may become that others read, too."""


@dataclass(slots=True, eq=False)
class _Stream:
    """Values of one step, that of the largest; `finest`: of those that may not be much coarser."""

    step: float
    finest: float
    nodes: set[Node] = field(default_factory=set)


def stream_steps(
    planner: Planner, step: Callable[[Node], float], kept: frozenset[Node]
) -> dict[Node, float]:
    """The step of each value that has one in common with others.

    step: what the value's own range asks for. kept: values that keep their own.
    """
    streams: dict[Node, _Stream] = {}
    for node in planner.plans:
        try:
            members = _members(planner, node)
            if members and not kept.intersection(members):
                _join(planner, streams, step, node, members)
        except RangesNeededError:
            continue  # a quantized graph says itself what its steps are
    return {node: stream.step for node, stream in streams.items()}


def _members(planner: Planner, node: Node) -> list[Node]:
    """Result and operands of a sum of two values of one shape, or of bounds, as they are made."""
    plan = planner.plans[node]
    if not is_float(node) or plan.rule not in ("add", "sub", "bounded"):
        return []
    operands = list(plan.reads)
    readers = [r for r in planner.readers.get(node, ()) if r in planner.plans]
    shapes = {tuple(n.meta["val"].shape) for n in (node, *operands)}
    alone = plan.rule != "bounded" and len(operands) < 2
    if alone or len(shapes) > 1 or any(planner.plans[r].rule == "softmax" for r in readers):
        return []
    # Bounds are part of the layer that makes the value: its format is theirs.
    bounded = len(readers) == 1 and planner.plans[readers[0]].rule == "bounded"
    made = [maker(planner, n) for n in (readers[0] if bounded else node, *operands)]
    return made if all(_has_steps(planner, n) for n in made) else []


def _has_steps(planner: Planner, node: Node) -> bool:
    """Whether its steps are for us to choose."""
    free = node in planner.plans and planner.plans[node].rule != "scale"
    return free and planner.grid_behind(node) is None


def maker(planner: Planner, node: Node) -> Node:
    """The node that makes a value, before all that moves it."""
    while _moves(planner, node):
        node = planner.plans[node].reads[0]
    return node


def _moves(planner: Planner, node: Node) -> bool:
    """Whether it gives elements of one value alone: a concatenation those of parts of it."""
    if node not in planner.plans:
        return False
    plan = planner.plans[node]
    if plan.rule == "cat":
        # A constant among the parts has a range of its own.
        varies = all(part in plan.reads for part in node.args[0])
        return varies and len({maker(planner, part) for part in plan.reads}) == 1
    # So has what an image is padded with.
    if plan.rule == "constant_pad" and arguments(node)["value"]:
        return False
    # The result of a call with several stands for the call itself, as for that of a norm.
    moved = node.target in MOVES and (node.target is not getitem or plan.rule == "getitem")
    return len(plan.reads) == 1 and (plan.rule == "same" or moved)


def _join(
    planner: Planner,
    streams: dict[Node, _Stream],
    step: Callable[[Node], float],
    node: Node,
    members: list[Node],
) -> None:
    """One stream of those of the members, where no value's steps become too coarse."""
    result = members[0]
    found = [
        streams.get(m)
        or _Stream(
            step(m), step(m) if m is result or _is_shared(planner, m, node) else math.inf, {m}
        )
        for m in members
    ]
    coarsest, finest = max(s.step for s in found), min(s.finest for s in found)
    if coarsest > LIMIT * finest:
        return
    joined = _Stream(coarsest, finest, set().union(*(s.nodes for s in found)))
    streams.update(dict.fromkeys(joined.nodes, joined))


def _is_shared(planner: Planner, value: Node, total: Node) -> bool:
    """Whether others than the sum read a value, moved about."""
    while value is not total:
        readers = planner.readers.get(value, [])
        if len(readers) != 1 or not (readers[0] is total or _moves(planner, readers[0])):
            return True
        (value,) = readers
    return False

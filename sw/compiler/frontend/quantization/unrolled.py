"""One range for the same value of every step of a recurrent network.

Calibration sees few values of a single step: the steps together say how large one gets. Quantized
alike, the steps also have one matrix of integers.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from torch.fx import Node

from sw.compiler.frontend.operator_sets import PART_OF
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.quantization.calibrate import ROWS, Ranges


def join_steps(planner: Planner, ranges: Ranges) -> Ranges:
    """`ranges` with those of corresponding nodes joined."""
    joined = replace(
        ranges,
        largest=copy(ranges.largest),
        least=copy(ranges.least),
        most=copy(ranges.most),
        ends=copy(ranges.ends),
        channels=copy(ranges.channels),
        rows=copy(ranges.rows),
    )
    for nodes in _connected(_twins(planner)):
        _join(joined, nodes)
    return joined


def _connected(groups: Iterable[list[Node]]) -> list[list[Node]]:
    """Groups that share a node as one group."""
    found: dict[Node, list[Node]] = {}
    for group in groups:
        parts = [found[n] for n in group if n in found]
        whole = list(dict.fromkeys(n for part in (*parts, group) for n in part))
        found.update(dict.fromkeys(whole, whole))
    return list({id(group): group for group in found.values()}.values())


def _twins(planner: Planner) -> Iterator[list[Node]]:
    """Nodes of different steps that compute the same: behind products with the same weights."""
    layers: dict[tuple[str, Node], list[Node]] = {}
    for node, plan in planner.plans.items():
        if plan.rule == "linear" and PART_OF in node.meta:
            layers.setdefault((node.meta[PART_OF], plan.data["weight"]), []).append(node)
    seen: set[Node] = set()
    waiting = [nodes for nodes in layers.values() if len(nodes) > 1]
    for nodes in list(waiting):
        yield [planner.plans[n].reads[0] for n in nodes]
    while waiting:
        nodes = waiting.pop()
        if not seen.isdisjoint(nodes):
            continue
        seen.update(nodes)
        yield nodes
        waiting += _users(nodes)


def _users(nodes: Sequence[Node]) -> list[list[Node]]:
    """Groups of the users of `nodes` that read them in the same way."""
    groups: dict[tuple[object, ...], list[Node]] = {}
    for node in nodes:
        for user in node.users:
            if user.meta.get(PART_OF) == node.meta.get(PART_OF):
                places = [i for i, a in enumerate(user.args) if a is node]
                numbers = [a for a in user.args if isinstance(a, int)]
                groups.setdefault((user.target, *places, None, *numbers), []).append(user)
    return [g for g in groups.values() if 1 < len(g) <= len(nodes)]


def _join(ranges: Ranges, nodes: Sequence[Node]) -> None:
    known = [n for n in dict.fromkeys(nodes) if n in ranges.channels]
    if len(known) < 2 or len({ranges.channels[n].shape for n in known}) > 1:
        return
    top = np.max([ranges.channels[n] for n in known], axis=0)
    ranges.channels.update(dict.fromkeys(known, top))
    for table, choose in ((ranges.largest, max), (ranges.least, min), (ranges.most, max)):
        table.update(dict.fromkeys(known, choose(table[n] for n in known)))
    ends = [pair for n in known for pair in ranges.ends[n]]
    ranges.ends.update((n, ends) for n in known)
    samples = [ranges.rows[n] for n in known if n in ranges.rows]
    if samples:
        rows = np.concatenate(samples)
        at = np.unique(np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).astype(int))
        ranges.rows.update(dict.fromkeys((n for n in known if n in ranges.rows), rows[at]))

"""Averages of a few pixels as convolutions of int8 with weights of 1.

The rounding of an operand to int8 counts less in a mean of several values than in a convolution
that reads it as well. So the average needs no operand of 16 bits of its own, and where there is a
depthwise engine it leaves the vector engine free.
"""

import math
from collections.abc import Iterator

from torch.fx import Node

from sw.compiler.frontend.limits import pair
from sw.compiler.frontend.nodes import arguments, is_float
from sw.compiler.frontend.plan import Planner

MOST_TAPS = 16
"""Of a window: as many pixels as a convolution reads at most for it to be worth its steps."""

_PRODUCTS = ("convolution", "matmul")


def is_summed(planner: Planner, node: Node) -> bool:
    """Whether `node` is an average of int8 computed as a convolution.

    That is so where a convolution reads the operand too, or products alone read the result; and
    where all windows have as many pixels.
    """
    plan = planner.plans.get(node)
    if plan is None or plan.rule != "avg_pool" or not is_float(node):
        return False
    given = arguments(plan.source)
    taps, whole = math.prod(pair(given["kernel_size"])), given["count_include_pad"]
    if taps > MOST_TAPS or not (whole or not any(pair(given["padding"]))):
        return False
    (source,) = plan.reads
    if planner.grid_behind(source) is not None or node in planner.grids:
        return False
    behind = list(_rules(planner, node))
    alone = bool(behind) and all(rule in _PRODUCTS for rule in behind)
    return alone or "convolution" in _rules(planner, source)


def _rules(planner: Planner, node: Node) -> Iterator[str]:
    """The rules by which the readers of a value are computed."""
    for reader in planner.readers.get(node, ()):
        plan = planner.plans.get(reader)
        if plan is not None and plan.rule == "same":
            yield from _rules(planner, reader)
        else:
            yield plan.rule if plan is not None else "output"

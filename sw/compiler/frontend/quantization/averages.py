"""Averages of a few pixels as convolutions of int8 with weights of 1.

The rounding of an operand to int8 counts less in a mean of several values than in a convolution
that reads it as well. So the average needs no operand of 16 bits of its own, and where there is a
depthwise engine it leaves the vector engine free.
"""

import math
from collections.abc import Callable, Iterable

from torch.fx import Node

from sw.compiler.frontend.limits import pair
from sw.compiler.frontend.nodes import arguments, is_float
from sw.compiler.frontend.plan import Planner

MOST_TAPS = 16
"""Pixels of the largest window that is computed so. Means of whole images stay pools."""

_PRODUCTS = {"convolution", "matmul"}

Readers = Callable[[Node], Iterable[tuple[Node, Node, bool]]]
"""(reader, the operand that it reads, whether moves or scalings lie between), of a value."""


def is_summed(planner: Planner, readers: Readers, node: Node) -> bool:
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

    def rules(value: Node) -> set[str]:
        """How the readers of a value are computed."""
        return {
            planner.plans[reader].rule if reader in planner.plans and not moved else "other"
            for reader, _, moved in readers(value)
        }

    behind = rules(node)
    return (bool(behind) and behind <= _PRODUCTS) or "convolution" in rules(source)

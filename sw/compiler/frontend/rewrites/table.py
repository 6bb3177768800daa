"""Which function stands for which operator.

Every public function of the files below stands for the operator of its name: for one overload
(`var_correction`) or for all of them (`lerp`). The underscore of PyTorch's inner names (`_softmax`)
is left out. Operators that have a rule too are rewritten only where they lie beyond its limits.
"""

from collections.abc import Mapping

from torch._ops import OpOverload

from sw.compiler.frontend.rewrites import (
    arithmetic,
    computed_parameters,
    images,
    orders,
    pools,
    products,
    recurrent,
    shapes,
)
from sw.compiler.frontend.rewrites.tracing import Function

_FILES = (arithmetic, computed_parameters, images, orders, pools, products, recurrent, shapes)

FUNCTIONS: Mapping[str, Function] = {
    name: function
    for file in _FILES
    for name, function in vars(file).items()
    if getattr(function, "__module__", "") == file.__name__ and not name.startswith("_")
}


def function_of(target: OpOverload) -> Function | None:
    """The function that stands for an operator, None where there is none."""
    packet = target._opname.lstrip("_")
    return FUNCTIONS.get(f"{packet}_{target._overloadname}") or FUNCTIONS.get(packet)

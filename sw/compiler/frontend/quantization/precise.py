"""The layers that read 16 bits: which can, and which of them a precision means."""

from collections.abc import Iterator

from torch.fx import Node

from spec.names import did_you_mean
from sw.compiler.errors import CompileError
from sw.compiler.frontend.nodes import arguments, name, shape
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.quantization.precision import Precision
from sw.compiler.frontend.sources import module_of

FINER = 12
"""Steps of the low half for one of the high half; see `rules/halves.py`."""


def layers(planner: Planner) -> Iterator[tuple[str, Node]]:
    """(name, planned node) of the layers with weights, in order."""
    for node, plan in planner.plans.items():
        if plan.rule in ("convolution", "linear"):
            yield plan.source.name, node


def can_be_wide(planner: Planner, node: Node) -> bool:
    """Whether a layer with weights can read 16 bits."""
    plan = planner.plans[node]
    if plan.rule == "linear":
        return True
    given = arguments(plan.source)
    if given.get("transposed") or "transpose" in name(plan.source):
        return bool(given["groups"] == 1)
    dilation = given["dilation"]
    rows = dilation[0] if isinstance(dilation, list | tuple) else dilation
    return given["groups"] == 1 or (len(shape(node)) == 4 and rows == 1)


def wide_layers(planner: Planner, wanted: Precision) -> frozenset[Node]:
    """The planned nodes that are to read 16 bits; `CompileError` for a name that no layer has."""
    known = dict(layers(planner))
    for pattern, width in wanted.rules:
        one = Precision(rules=((pattern, "int16"),))
        found = [n for k, n in known.items() if one.width(k, _path(planner, n)) == "int16"]
        if not found:
            raise CompileError(
                f"precision {pattern}={width}: no layer with weights has such a name"
                f"{did_you_mean(pattern, known)}",
                hint="`systola sensitivity` lists the layers",
            )
        if width == "int16" and not any(can_be_wide(planner, n) for n in found):
            raise CompileError(
                f"precision {pattern}=int16: {found[0].name} cannot read 16 bits",
                hint="grouped convolutions that are transposed or dilated are always int8",
            )
    return frozenset(
        node
        for key, node in known.items()
        if wanted.width(key, _path(planner, node)) == "int16" and can_be_wide(planner, node)
    )


def _path(planner: Planner, node: Node) -> str:
    return module_of(planner.plans[node].source)

"""The layers with more than 8 bits: which can, and which of them a precision means."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch.fx import Node

from spec.names import did_you_mean
from sw.compiler.errors import CompileError
from sw.compiler.frontend.nodes import arguments, name, shape
from sw.compiler.frontend.operator_sets import Plan
from sw.compiler.frontend.plan import Planner
from sw.compiler.frontend.quantization.precision import Precision, Width
from sw.compiler.frontend.sources import module_of

FINE = 128
"""Steps of int16 for one of int8: 255 of those still fit."""

FINER: Mapping[Width, int] = {"int16": 12, "int16x16": FINE}
"""Steps of the low half for one of the high half; see `rules/halves.py`."""


_PRODUCTS = ("matmul", "mm", "attention")
"""Rules of products of activations."""


def layers(planner: Planner) -> Iterator[tuple[str, Node]]:
    """(name, planned node) of the layers with weights and the products of activations, in order."""
    for node, plan in planner.plans.items():
        if plan.rule in ("convolution", "linear", *_PRODUCTS):
            yield plan.source.name, node


def factors_of(plan: Plan) -> Sequence[Any]:
    """The activations that a layer or a product multiplies."""
    if plan.rule in ("convolution", "linear"):
        return plan.reads
    if plan.rule == "attention":
        return plan.source.args[:3]
    return plan.source.args[-2:]


def can_be_wide(planner: Planner, node: Node, width: Width) -> bool:
    """Whether a layer can have a width of 16 bits."""
    plan = planner.plans[node]
    if plan.rule in _PRODUCTS:
        return width == "int16x16"
    if plan.rule == "linear":
        return True
    given = arguments(plan.source)
    if given.get("transposed") or "transpose" in name(plan.source):
        return bool(given["groups"] == 1)
    dilation = given["dilation"]
    rows = dilation[0] if isinstance(dilation, list | tuple) else dilation
    return given["groups"] == 1 or (len(shape(node)) == 4 and rows == 1)


def wide_layers(planner: Planner, wanted: Precision) -> dict[Node, Width]:
    """The planned nodes with more than 8 bits; `CompileError` for a name that no layer has."""
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
        if width != "int8" and not any(can_be_wide(planner, n, width) for n in found):
            raise CompileError(
                f"precision {pattern}={width}: {found[0].name} cannot read 16 bits",
                hint="grouped convolutions that are transposed or dilated are always int8; "
                "products of activations have int8 or int16x16",
            )
    widths = {node: wanted.width(key, _path(planner, node)) for key, node in known.items()}
    return {n: w for n, w in widths.items() if w != "int8" and can_be_wide(planner, n, w)}


def exact_values(planner: Planner, precise: Mapping[Node, Width]) -> frozenset[Node]:
    """The values that layers of `int16x16` read, or what is made of them, to the next layer.

    Where the graph has such layers, so are values that outputs follow from.
    """
    whole = {node for node, width in precise.items() if width == "int16x16"}
    known = {node for _, node in layers(planner)}
    found: set[Node] = set()
    for node in planner.plans if whole else ():  # readers of a value come before it
        for reader in planner.readers.get(node, ()):
            passes = reader not in planner.plans or (reader in found and reader not in known)
            if reader in whole or passes:
                found.add(node)
    return frozenset(found)


def _path(planner: Planner, node: Node) -> str:
    return module_of(planner.plans[node].source)

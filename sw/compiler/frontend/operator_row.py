"""A row of the table of operators, and how far from PyTorch its results are tested to be."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.fx import Node

from sw.compiler.frontend import limits as checks
from sw.compiler.frontend.nodes import aten


@dataclass(frozen=True, slots=True)
class Steps:
    """Tested: nowhere farther from PyTorch than `count` steps of the result's scale.

    Inputs are what the ports hold, so that this is the operator's own error.
    """

    count: float

    def __str__(self) -> str:
        if not self.count:
            return "exact"
        return f"error ≤ {self.count:g} step" + "s" * (self.count > 1)


@dataclass(frozen=True, slots=True)
class Table:
    """Tested: within the error of an interpolated table, (128·scale)²/8 · max|f″| + 1 step."""

    def __str__(self) -> str:
        return "error ≤ that of the interpolation + 1 step"


@dataclass(frozen=True, slots=True)
class Pcc:
    """Tested: correlation with PyTorch of at least `least`; that of two inputs is below 0.9."""

    least: float

    def __str__(self) -> str:
        return f"PCC ≥ {self.least:g}"


EXACT, ROUNDED = Steps(0), Steps(1)
EXACT_OR_ONE = Steps(2)

FLOAT, NUMBERS, ANY = "float", "float, int", "float, int, bool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A row: `rule` is the function in `rules/` that imports it; '' where `rewrites/` has it.

    types: of the tensors that it reads. limits: in words; `check`: the same as code, '' or the
    reason why a node lies outside. constants: arguments that must be constants.
    """

    name: str
    rule: str
    types: str
    tested: Steps | Table | Pcc
    limits: str = ""
    check: Callable[[Node], str] = checks.nothing
    constants: tuple[int, ...] = ()

    @property
    def target(self) -> Any:
        """The operator itself, as FX nodes have it."""
        if self.name == "getitem":
            return operator.getitem
        _, packet, overload = self.name.split(".")
        return getattr(getattr(aten, packet), overload)


def rows(
    rule: str, types: str, tested: Steps | Table | Pcc, *names: str, **more: Any
) -> tuple[Operator, ...]:
    """Rows that differ in nothing but the name; `.default` and `aten.` are left out of it."""
    return tuple(
        Operator(name=_full(name), rule=rule, types=types, tested=tested, **more) for name in names
    )


rewritten = partial(rows, "")
"""Rows without a rule."""


def _full(name: str) -> str:
    if name == "getitem":
        return name
    return f"aten.{name}" if "." in name else f"aten.{name}.default"

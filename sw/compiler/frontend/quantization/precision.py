"""Which layers have more than 8 bits: asked for by name, or by a budget."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, cast, get_args

from sw.compiler.errors import CompileError

Width = Literal["int8", "int16", "int16x16"]
"""Bits of what a layer multiplies: `int16` activations with int8 weights, or 16 bits of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """What is asked for; see `precision`.

    rules: (pattern of names, width); of those that match a layer the last one counts. least:
    layers become int16 until the PCC with float reaches it. share: of the predicted cycles, by
    which they may grow.
    """

    rules: tuple[tuple[str, Width], ...] = ()
    least: float | None = None
    share: float | None = None

    @property
    def is_default(self) -> bool:
        """Whether every layer is int8."""
        return not self.has_budget and all(width == "int8" for _, width in self.rules)

    @property
    def has_budget(self) -> bool:
        return self.least is not None or self.share is not None

    @property
    def text(self) -> str:
        """All of it, as a name of what it makes."""
        rules = " ".join(f"{pattern}={width}" for pattern, width in self.rules)
        return f"{rules} {self.least} {self.share}"

    def width(self, *names: str) -> Width:
        """The width of a layer with these names: its own, and its module's path."""
        found: Width = "int8"
        for pattern, width in self.rules:
            if any(fnmatchcase(name, pattern) for name in names):
                found = width
        return found


PLAIN = Precision()


def precision(rules: Iterable[str] | Mapping[str, str] = (), budget: str = "") -> Precision:
    """`Precision` from what a user wrote; `CompileError` says what is wrong.

    rules: `PATTERN=int8`, `=int16` or `=int16x16`, * and ? match as in names of files. budget: a
    PCC (`0.99`), cycles (`10%`), or both (`0.99,10%`).
    """
    given = rules.items() if isinstance(rules, Mapping) else (_split(rule) for rule in rules)
    known = tuple((pattern, _width(pattern, width)) for pattern, width in given)
    least = share = None
    for part in filter(None, budget.replace(" ", "").split(",")):
        value = _number(part)
        if part.endswith("%"):
            share = value / 100
        elif value > 1:
            raise CompileError(
                f"precision budget {budget!r}: a PCC is at most 1", hint="write cycles as 10%"
            )
        else:
            least = value
    return Precision(rules=known, least=least, share=share)


def _split(rule: str) -> tuple[str, str]:
    pattern, _, width = rule.rpartition("=")
    if not pattern:
        raise CompileError(
            f"precision {rule!r}: must be NAME=int8, NAME=int16 or NAME=int16x16",
            hint="`systola sensitivity` lists the names; * and ? match any letters",
        )
    return pattern, width


def _width(pattern: str, width: str) -> Width:
    if width not in get_args(Width):
        raise CompileError(f"precision {pattern}={width}: must be int8, int16 or int16x16")
    return cast(Width, width)


def _number(part: str) -> float:
    try:
        value = float(part.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise CompileError(
            f"precision budget {part!r}: must be a PCC, cycles in %, or both",
            hint="for example 0.99, 10% or 0.99,10%",
        )
    return value

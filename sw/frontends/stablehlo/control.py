"""Loops whose end is known become their turns, branches the chosen one, or all with a choice.

Regions become operations of the graph, again for each turn. Small integers of constants alone are
computed on the way: counters, and what is compared with them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, run
from sw.frontends.stablehlo.errors import StableHloError, refused
from sw.frontends.stablehlo.records import Body, Contents, Op, Type
from sw.frontends.stablehlo.table import ROWS

MOST_TURNS = 1 << 12
CONTROL = ("while", "if", "case")
_SMALL = 16
"""Elements of a constant that is computed for the sake of a loop's end."""

_INDEX, _TRUTH = Type(shape=(), element="i32"), Type(shape=(), element="i1")

Values = tuple[int, ...]
Inline = Callable[[Body, Values], Values]
"""The values that a region returns, of its arguments."""

Make = Callable[[str, Values, Type | None, Mapping[str, Any]], int]
"""The result of a new operation: kind, operands, type (None: of the last operand), attributes."""


def has_control(contents: Contents) -> bool:
    """Whether a module has loops or branches."""
    return any(_controls(body) for body in contents.functions.values())


def _controls(body: Body) -> bool:
    return any(op.kind in CONTROL or any(map(_controls, op.regions)) for op in body.ops)


class Known:
    """The small integers that are constants, by value."""

    def __init__(self, types: Mapping[int, Type]) -> None:
        self._types = types
        self._found: dict[int, T] = {}

    def see(self, op: Op) -> None:
        """Compute an operation of constants alone."""
        results = tuple(self._types[value] for value in op.results)
        if not all(_is_small(kind) for kind in results):
            return
        if all(value in self._found for value in op.operands):
            kinds = tuple(self._types[value] for value in op.operands)
            call = Call(op=op, operands=kinds, results=results, fixed=(True,) * len(kinds))
            made = run(call, ROWS[op.kind], [self._found[value] for value in op.operands])
            self._found.update(zip(op.results, made, strict=True))

    def number(self, value: int) -> int | None:
        """The value of a constant of one element; None for others."""
        found = self._found.get(value)
        return int(found.item()) if found is not None and found.numel() == 1 else None


def _is_small(kind: Type) -> bool:
    return kind.elements <= _SMALL and not kind.element.startswith(("f", "bf"))


def unrolled(op: Op, start: Values, known: Known, inline: Inline) -> Values:
    """The values of a loop after its last turn. inline: the values of a region.

    `StableHloError` for a loop whose end depends on inputs, or that has more than MOST_TURNS turns.
    """
    condition, body = _regions(op, 2)
    values = start
    for _ in range(MOST_TURNS + 1):
        (goes,) = inline(condition, values)
        number = known.number(goes)
        if number is None:
            raise refused(
                "a loop whose end depends on inputs",
                "give it a fixed number of turns: lax.scan, or lax.fori_loop with constant ends",
            )
        if not number:
            return values
        values = inline(body, values)
    raise refused(f"a loop of more than {MOST_TURNS:,} turns", "use arrays in place of the loop")


def branched(op: Op, known: Known, inline: Inline, make: Make) -> Values:
    """The results of `if` or `case`: of the branch that is known, else a choice of all branches."""
    (index,) = op.operands
    if op.kind == "if":
        yes, no = _regions(op, 2)
        chosen = known.number(index)
        if chosen is not None:
            return inline(yes if chosen else no, ())
        return _select(index, inline(yes, ()), inline(no, ()), make)
    *branches, last = op.regions
    chosen = known.number(index)
    if chosen is not None:
        return inline(branches[chosen] if 0 <= chosen < len(branches) else last, ())
    made = [inline(branch, ()) for branch in branches]
    results = inline(last, ())  # for every other number too
    for number, values in reversed(list(enumerate(made))):
        other = make("constant", (), _INDEX, {"value": np.array([number], np.int32)})
        here = make("compare", (index, other), _TRUTH, {"comparison_direction": "EQ"})
        results = _select(here, values, results, make)
    return results


def _select(condition: int, yes: Values, no: Values, make: Make) -> Values:
    pairs = zip(yes, no, strict=True)
    return tuple(make("select", (condition, a, b), None, {}) for a, b in pairs)


def _regions(op: Op, count: int) -> tuple[Body, ...]:
    if len(op.regions) != count:
        raise StableHloError(f"{len(op.regions)} regions, not {count}", hint="export it again")
    return op.regions

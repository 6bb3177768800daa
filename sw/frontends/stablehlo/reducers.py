"""What the region of a reduction computes: told by its results for some numbers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor as T

from sw.frontends.stablehlo.call import Call, dtype_of
from sw.frontends.stablehlo.errors import refused
from sw.frontends.stablehlo.records import Body, Type
from sw.frontends.stablehlo.table import ROWS

Outer = Mapping[int, T]
"""The numbers that a region reads from outside, by value."""

_NOTHING: Outer = MappingProxyType({})
_PAIRS: dict[str, Any] = {
    # First: of truth values, "or" is a sum and a maximum too.
    "and": torch.logical_and, "or": torch.logical_or,
    "add": torch.add, "multiply": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum,
}  # fmt: skip


def reducer(body: Body, types: Mapping[int, Type], outer: Outer = _NOTHING) -> str:
    """The name of the function; `StableHloError` for one that is none of them."""
    kinds = [types[value] for value in body.arguments]
    half = len(kinds) // 2
    samples = [_sample(kind, i) for i, kind in enumerate(kinds)]
    made = evaluated(body, types, samples, outer)
    if half == 1:
        for name, function in _PAIRS.items():
            if torch.equal(made[0], function(*samples).to(made[0].dtype)):
                return name
    elif half == 2:
        first, second = samples[:2], samples[2:]
        for name, wins in (("argmax", first[0] > second[0]), ("argmin", first[0] < second[0])):
            value = torch.where(wins, first[0], second[0])
            place = torch.where(wins, first[1], second[1])
            if torch.equal(made[0], value) and torch.equal(made[1], place):
                return name
    names = ", ".join(op.kind for op in body.ops)
    raise refused(f"a reduction by {names}", "reduce by sum, product, max, min, and, or, argmax")


def update(body: Body, types: Mapping[int, Type], outer: Outer = _NOTHING) -> str:
    """What a scatter does with an old and a new element: `set`, or a name as of `reducer`."""
    samples = [_sample(types[value], i) for i, value in enumerate(body.arguments)]
    if len(samples) == 2 and torch.equal(evaluated(body, types, samples, outer)[0], samples[1]):
        return "set"
    return reducer(body, types, outer)


def order(body: Body, types: Mapping[int, Type], outer: Outer = _NOTHING) -> str:
    """The order of a sort by its first operand: `ascending` or `descending`."""
    samples = [_sample(types[value], i) for i, value in enumerate(body.arguments)]
    (before,) = evaluated(body, types, samples, outer)
    (tie,) = evaluated(body, types, [samples[0], samples[0], *samples[2:]], outer)
    for name, wanted in (
        ("ascending", samples[0] < samples[1]),
        ("descending", samples[0] > samples[1]),
    ):
        if torch.equal(before, wanted) and not tie.any():
            return name
    raise refused("a sort by another order than of its first operand", "sort by one array")


REGIONS = {"scatter": update, "sort": order}
"""What tells the region of an operation; of all others it is `reducer`."""


def _sample(kind: Type, seed: int) -> T:
    """Numbers that differ from operand to operand, so that no comparison is a tie."""
    generator = torch.Generator().manual_seed(seed)
    dtype = dtype_of(kind)
    if dtype is torch.bool:
        return torch.randint(0, 2, (64,), generator=generator).bool()
    if dtype.is_floating_point:
        return torch.randn(64, generator=generator)
    order = torch.randperm(64, generator=generator)
    return (2 * order + seed % 2 - 40).to(dtype)


def evaluated(
    body: Body, types: Mapping[int, Type], arguments: list[T], outer: Outer = _NOTHING
) -> list[T]:
    """The results of a body of elementwise operations for vectors in place of its scalars.

    outer: the constants around it.
    """
    values: dict[int, Any] = {**outer, **dict(zip(body.arguments, arguments, strict=True))}
    for op in body.ops:
        row = ROWS.get(op.kind)
        if row is None or not (row.elementwise or op.kind == "constant"):
            raise refused(f"a region with {op.name}")
        kinds = tuple(types[v] for v in op.operands), tuple(types[v] for v in op.results)
        call = Call(op=op, operands=kinds[0], results=kinds[1])
        try:
            values[op.results[0]] = row.function(call, *[values[v] for v in op.operands])
        except Exception as error:
            raise refused(f"a region with {op.name}: {error}") from error
    return [values[value] for value in body.returned]

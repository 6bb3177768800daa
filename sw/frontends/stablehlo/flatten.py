"""Calls of functions inlined, loops unrolled: a module becomes one graph."""

import itertools
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor as T

from spec.names import did_you_mean
from sw.frontends.stablehlo.control import CONTROL, Known, Values, branched, has_control, unrolled
from sw.frontends.stablehlo.errors import StableHloError, refused
from sw.frontends.stablehlo.graph import Graph
from sw.frontends.stablehlo.records import Body, Contents, Op, Type
from sw.frontends.stablehlo.reducers import REGIONS, reducer
from sw.frontends.stablehlo.table import ROWS

MOST_OPS = 1 << 18
MOST_ELEMENTS = 1 << 28
_DEPTH = 64
_NOTHING: ChainMap[int, int] = ChainMap()


def flatten(contents: Contents) -> Graph:
    """The graph of `main`. `StableHloError` for functions that call themselves."""
    return _Flattening(contents).graph()


class _Flattening:
    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.types: dict[int, Type] = {}
        self.count = itertools.count()
        self.ops: list[Op] = []
        self.scalars: dict[int, T] = {}
        self.known = Known(self.types) if has_control(contents) else None

    def graph(self) -> Graph:
        main = self.contents.functions[self.contents.main]
        inputs = tuple(self._new(value) for value in main.arguments)
        outputs = self._inline(main, inputs, 0)
        return Graph(inputs=inputs, outputs=outputs, ops=self.ops, types=self.types, constants={})

    def _new(self, value: int) -> int:
        number = next(self.count)
        kind = self.types[number] = self.contents.types[value]
        if kind.elements > MOST_ELEMENTS:
            raise StableHloError(
                f"a value of type {kind}: more than {MOST_ELEMENTS:,} elements",
                hint="make the model smaller",
            )
        return number

    def _inline(
        self, body: Body, arguments: Values, depth: int, outer: ChainMap[int, int] = _NOTHING
    ) -> Values:
        """The values that a body returns. outer: those around a region, which it may read."""
        mine = dict(zip(body.arguments, arguments, strict=True))
        known = ChainMap(mine, outer)  # what is new goes into the first one
        for op in body.ops:
            operands = tuple(known[value] for value in op.operands)
            callee = op.attributes.get("decomposition" if op.kind == "composite" else "callee")
            if op.kind in ("func.call", "composite"):
                made = self._call(op, str(callee), operands, depth)
            elif op.kind in CONTROL:
                made = self._control(replace(op, operands=operands), known, depth)
            else:
                made = tuple(self._new(value) for value in op.results)
                if op.kind == "constant" and np.size(op.attributes["value"]) == 1:
                    number = np.asarray(op.attributes["value"]).reshape(())
                    self.scalars[op.results[0]] = torch.from_numpy(np.array(number))
                self._add(replace(self._told(op), operands=operands, results=made))
            known.update(zip(op.results, made, strict=True))
        return tuple(known[value] for value in body.returned)

    def _add(self, op: Op) -> None:
        self.ops.append(op)
        if self.known is not None:
            self.known.see(op)

    def _control(self, op: Op, outer: ChainMap[int, int], depth: int) -> Values:
        """A loop or a branch, without it."""

        def inline(body: Body, arguments: Values) -> Values:
            if depth == _DEPTH or len(self.ops) > MOST_OPS:
                raise _too_many()
            return self._inline(body, arguments, depth + 1, outer)

        def make(
            kind: str, operands: Values, type_: Type | None, attributes: Mapping[str, Any]
        ) -> int:
            number = next(self.count)
            self.types[number] = self.types[operands[-1]] if type_ is None else type_
            self._add(
                Op(
                    kind=kind, operands=operands, results=(number,), attributes=attributes,
                    place=op.place,
                )
            )  # fmt: skip
            return number

        assert self.known is not None
        try:
            if op.kind == "while":
                return unrolled(op, op.operands, self.known, inline)
            return branched(op, self.known, inline, make)
        except StableHloError as error:
            raise error.at(operation=op.name, place=op.place) from error.__cause__

    def _told(self, op: Op) -> Op:
        """An operation that can be taken; of a reduction, with what its region computes."""
        try:
            if op.kind not in ROWS:
                raise _untaken(op)
            if not op.regions:
                return op
            tell = REGIONS.get(op.kind, reducer)
            name = tell(op.regions[0], self.contents.types, self.scalars)
        except StableHloError as error:
            raise error.at(operation=op.name, place=op.place) from None
        return replace(op, attributes={**op.attributes, "reducer": name})

    def _call(self, op: Op, name: str, operands: tuple[int, ...], depth: int) -> tuple[int, ...]:
        body = self.contents.functions.get(name)
        if body is None or len(body.arguments) != len(operands):
            raise StableHloError(
                f"no function {name!r} of {len(operands)} arguments", hint="export it again",
                operation=op.name, place=op.place,
            )  # fmt: skip
        if depth == _DEPTH or len(self.ops) > MOST_OPS:
            raise _too_many().at(operation=op.name, place=op.place)
        return self._inline(body, operands, depth + 1)


def _too_many() -> StableHloError:
    return StableHloError(
        f"calls are {_DEPTH} deep, or make more than {MOST_OPS:,} operations",
        hint="a function must not call itself; a loop must be short",
    )


_UNTAKEN = {
    "rng": ("random numbers", "give them as an argument"),
    "rng_bit_generator": ("random numbers", "give them as an argument"),
}


def _untaken(op: Op) -> StableHloError:
    if op.kind in _UNTAKEN:
        return refused(*_UNTAKEN[op.kind])
    if op.kind == "custom_call":
        target = op.attributes.get("call_target_name")
        return refused(f"custom call {target!r}, whose meaning the file does not have")
    if op.kind.startswith("tosa."):
        return refused("an operation of TOSA", "make it a TOSA file by tosa-opt: docs/tosa.md")
    close = did_you_mean(op.kind, ROWS)
    return refused(f"this operation is not taken{close}", "the page on JAX lists those that are")

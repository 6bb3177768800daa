"""Calls of functions inlined: a module becomes one graph."""

import itertools
from dataclasses import replace

from spec.names import did_you_mean
from sw.frontends.stablehlo.errors import StableHloError, refused
from sw.frontends.stablehlo.graph import Graph
from sw.frontends.stablehlo.records import Body, Contents, Op, Type
from sw.frontends.stablehlo.reducers import reducer
from sw.frontends.stablehlo.table import ROWS

MOST_OPS = 1 << 18
MOST_ELEMENTS = 1 << 28
_DEPTH = 64


def flatten(contents: Contents) -> Graph:
    """The graph of `main`. `StableHloError` for functions that call themselves."""
    return _Flattening(contents).graph()


class _Flattening:
    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.types: dict[int, Type] = {}
        self.count = itertools.count()
        self.ops: list[Op] = []

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

    def _inline(self, body: Body, arguments: tuple[int, ...], depth: int) -> tuple[int, ...]:
        known = dict(zip(body.arguments, arguments, strict=True))
        for op in body.ops:
            operands = tuple(known[value] for value in op.operands)
            callee = op.attributes.get("decomposition" if op.kind == "composite" else "callee")
            if op.kind in ("func.call", "composite"):
                made = self._call(op, str(callee), operands, depth)
                known.update(zip(op.results, made, strict=True))
                continue
            known.update((value, self._new(value)) for value in op.results)
            results = tuple(known[value] for value in op.results)
            self.ops.append(replace(self._told(op), operands=operands, results=results))
        return tuple(known[value] for value in body.returned)

    def _told(self, op: Op) -> Op:
        """An operation that can be taken; of a reduction, with what its region computes."""
        try:
            if op.kind not in ROWS:
                raise _untaken(op)
            if not op.regions:
                return op
            name = reducer(op.regions[0], self.contents.types)
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
            raise StableHloError(
                f"calls are {_DEPTH} deep, or make more than {MOST_OPS:,} operations",
                hint="a function must not call itself", operation=op.name, place=op.place,
            )  # fmt: skip
        return self._inline(body, operands, depth + 1)


_UNTAKEN = {
    "while": ("a loop, which a program of fixed length does not have", "unroll it (unroll=True)"),
    "if": ("a branch, which a program of fixed length does not have", "use where"),
    "case": ("a branch, which a program of fixed length does not have", "use where"),
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

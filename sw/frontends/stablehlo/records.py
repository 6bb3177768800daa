"""A StableHLO module without MLIR: what the reader gives, and what another process can send."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """Of a value. element: MLIR's name (`f32`, `i1`, `ui8`)."""

    shape: tuple[int, ...]
    element: str

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), self.element])}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A block: the values that it is given, its operations, the values that it returns."""

    arguments: tuple[int, ...]
    ops: "tuple[Op, ...]"
    returned: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """An operation. kind: without `stablehlo.`; other dialects' keep their name (`chlo.erf`).

    operands, results: numbers of values. attributes: numbers, texts, tuples, arrays, and
    mappings for dimension numbers. place: the location, for people.
    """

    kind: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    regions: tuple[Body, ...] = ()
    place: str = ""

    @property
    def name(self) -> str:
        """As MLIR calls the kind."""
        return self.kind if "." in self.kind else f"stablehlo.{self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Functions by name, and the type of every value. inputs, outputs: names of `main`'s."""

    functions: Mapping[str, Body]
    types: Mapping[int, Type]
    main: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

"""What the parser finds in `graph.nnef`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A tensor of the graph, by its name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """kind: its name in the language. inputs: a `Ref`, a number, or a list of them, by name.

    outputs: a `Ref`, or a list of them. attributes: numbers, texts, lists and pairs, with the
    defaults of the language. dtype: of what declares tensors.
    """

    kind: str
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    dtype: str

    @property
    def makes(self) -> list[str]:
        return [ref.name for value in self.outputs.values() for ref in refs(value)]

    def __str__(self) -> str:
        return " ".join([self.kind, *self.makes[:1]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """quantized: the tensors that `graph.quant` gives a grid."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    quantized: tuple[str, ...]


def refs(value: Any) -> list[Ref]:
    """The tensors in a value."""
    if isinstance(value, list | tuple):
        return [ref for each in value for ref in refs(each)]
    return [value] if isinstance(value, Ref) else []

"""What the function of an operation is given: its operands, its attributes, what it writes."""

from collections.abc import Sequence
from typing import Any

import torch

from sw.frontends.nnef.records import Operation, Ref, refs
from sw.frontends.onnx.building import Building
from sw.frontends.onnx.errors import refused

HINT = "write the model without it"


class Call:
    """An operation that is written down as nodes of ONNX. names: of tensors among the nodes'."""

    def __init__(self, operation: Operation, graph: Building, names: dict[str, str]) -> None:
        self.operation, self.graph, self._names = operation, graph, names
        self.attributes = operation.attributes

    def x(self, name: str = "x") -> str:
        """An operand; a number is a constant."""
        value = self.operation.inputs.get(name, self.attributes.get(name))
        if isinstance(value, Ref):
            return self._names[value.name]
        if isinstance(value, bool):
            return self.graph.hold(torch.tensor(value))
        if isinstance(value, int | float):
            return self.graph.hold(torch.tensor(float(value)))
        raise refused(f"{name} is {value!r}, no tensor", HINT)

    def xs(self, name: str) -> list[str]:
        """The operand that is a list of tensors."""
        found = [self._names[ref.name] for ref in refs(self.operation.inputs.get(name, ()))]
        if not found:
            raise refused(f"{name} is empty", HINT)
        return found

    def count(self, name: str) -> int:
        """Of the tensors that an output is a list of."""
        return len(refs(self.operation.outputs[name]))

    def get(self, name: str) -> Any:
        """An attribute."""
        if name not in self.attributes:
            raise refused(f"attribute {name} is missing", HINT)
        return self.attributes[name]

    def ints(self, name: str) -> list[int]:
        value = self.get(name)
        if not isinstance(value, list) or not all(type(v) is int for v in value):
            raise refused(f"{name} is {value!r}, no list of integers", HINT)
        return list(value)

    def pairs(self, name: str = "padding") -> list[tuple[int, int]]:
        """(before, behind) of each dimension."""
        value = self.get(name)
        if not all(isinstance(v, tuple) and len(v) == 2 for v in value):
            raise refused(f"{name} is {value!r}, no list of pairs", HINT)
        return [(int(before), int(behind)) for before, behind in value]

    def axes(self, name: str = "axes") -> list[int]:
        return self.ints(name)

    def only(self, name: str, *supported: Any) -> Any:
        value = self.get(name)
        if value not in supported:
            raise refused(f"{name} is {value!r}, not {' or '.join(map(repr, supported))}", HINT)
        return value

    def shape(self, value: str) -> tuple[int, ...]:
        return self.graph.shape(value)

    def add(self, kind: str, *operands: Any, results: int = 1, **attributes: Any) -> Any:
        return self.graph.add(kind, *operands, results=results, **attributes)

    def shaped(self, value: str, shape: Sequence[int]) -> str:
        """The tensor in another shape."""
        same = self.shape(value) == tuple(shape)
        return value if same else str(self.add("Reshape", value, list(shape)))

    def aligned(self, *values: str) -> list[str]:
        """Tensors of one rank: NNEF broadcasts from the first dimension on, not from the last."""
        rank = max(len(self.shape(value)) for value in values)
        shapes = [self.shape(value) for value in values]
        return [
            self.shaped(value, [*shape, *[1] * (rank - len(shape))]) if shape else value
            for value, shape in zip(values, shapes, strict=True)
        ]

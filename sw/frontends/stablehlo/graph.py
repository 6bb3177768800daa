"""A function as one list of operations, which passes rewrite."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor as T

from sw.frontends.stablehlo.records import Op, Type


@dataclass(slots=True, kw_only=True)
class Graph:
    """Operations in order; values are numbers. constants: what is known of them."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ops: list[Op]
    types: dict[int, Type]
    constants: dict[int, T]

    def new(self, kind: Type) -> int:
        """A value that no operation makes yet."""
        number = len(self.types)
        self.types[number] = kind
        return number

    def hold(self, tensor: T, element: str = "f32") -> int:
        """A new constant."""
        number = self.new(Type(shape=tuple(tensor.shape), element=element))
        self.constants[number] = tensor
        return number

    def makers(self) -> dict[int, Op]:
        return {result: op for op in self.ops for result in op.results}

    def uses(self) -> Counter[int]:
        """How often each value is read, by operations and as an output."""
        found = Counter(value for op in self.ops for value in op.operands)
        found.update(self.outputs)
        return found

    def shape(self, value: int) -> tuple[int, ...]:
        return self.types[value].shape

    def rename(self, names: "dict[int, int]") -> None:
        """Read other values in place of some."""
        if names:
            self.ops = [replace(op, operands=renamed(op.operands, names)) for op in self.ops]
            self.outputs = renamed(self.outputs, names)

    def clean(self) -> None:
        """Leave out what nothing reads."""
        needed, kept = set(self.outputs), []
        for op in reversed(self.ops):
            if needed.intersection(op.results):
                needed.update(op.operands)
                kept.append(op)
        self.ops = kept[::-1]
        self.constants = {v: t for v, t in self.constants.items() if v in needed}

    def number(self, value: int) -> Any:
        """The one number that a constant is made of; None for others."""
        tensor = self.constants.get(value)
        if tensor is None or not tensor.numel():
            return None
        tensor = narrowed(tensor)
        return tensor.item() if tensor.numel() == 1 else None


def renamed(values: Iterable[int], names: "dict[int, int]") -> tuple[int, ...]:
    found = []
    for value in values:
        while value in names:
            value = names[value]
        found.append(value)
    return tuple(found)


def narrowed(tensor: T) -> T:
    """Without the repetitions of broadcasts: of size 1 where the stride is 0."""
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size > 1 and stride == 0:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def operation(
    like: Op, kind: str, operands: Sequence[int], results: Sequence[int], **attributes: Any
) -> Op:
    """An operation that stands at the place of another."""
    return Op(
        kind=kind, operands=tuple(operands), results=tuple(results), attributes=attributes,
        place=like.place,
    )  # fmt: skip

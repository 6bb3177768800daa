"""A Relax function as a list of calls, whose values have names; tuples are taken apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """Of a value. shape: None where a size is not known ahead, or it is no tensor."""

    shape: tuple[int, ...] | None
    dtype: str

    def __str__(self) -> str:
        shape = "[?]" if self.shape is None else str(list(self.shape))
        return f"{self.dtype}{shape}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """An operand that is a tuple of values."""

    names: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A binding of a call. op: "nn.conv2d", or what TVM calls it where it is no Relax operator.

    operands: the name of a value, `Values`, a tuple of integers (a shape), a number, or an
    expression of TVM. attributes: numbers, texts, and lists of them. result: the names that it
    makes, in tuples as TVM has them. expression: the call itself. why: why it stays on the CPU
    whatever its operator is.
    """

    name: str
    op: str
    operands: tuple[Any, ...]
    attributes: Mapping[str, Any]
    result: Any
    expression: Any
    why: str = ""

    @property
    def reads(self) -> list[str]:
        """The names of the values that it takes, in order."""
        return [name for each in self.operands for name in names_in(each)]

    @property
    def makes(self) -> list[str]:
        return leaves(self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """params: names of the parameters. results: names, in tuples as TVM has them.

    constants: tensors by name; expressions: those of parameters and constants by name. types: of
    all values. module: in which `name` is the function, for what it calls.
    """

    name: str
    params: tuple[str, ...]
    calls: tuple[Call, ...]
    results: Any
    constants: Mapping[str, Tensor]
    expressions: Mapping[str, Any]
    types: Mapping[str, Type]
    module: Any


def leaves(structure: Any) -> list[str]:
    """The names in a structure of tuples, in order."""
    if isinstance(structure, str):
        return [structure]
    return [name for each in structure for name in leaves(each)]


def names_in(operand: Any) -> list[str]:
    """The names of the values that an operand is made of."""
    if isinstance(operand, Values):
        return leaves(operand.names)
    return [operand] if isinstance(operand, str) else []

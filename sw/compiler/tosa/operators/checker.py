"""What rules are written with: the type of a row of the table, and one operator being checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sw.compiler.errors import GraphError
from sw.compiler.tosa.nodes import Op, Tensor
from sw.compiler.tosa.semantics.arrays import Evaluate

Shape = tuple[int, ...]
Infer = Callable[["Checker", str], tuple[Shape, str]]

INTS = ("int8", "int16", "int32")
ANY = ("bool", *INTS)
MAX_RANK = 6
"""Ranks that an implementation must support at TOSA's level 8K (section 1.6)."""
MAX_TENSORS = 64
"""Operands of a CONCAT at level 8K."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSpec:
    """Operand names, attribute defaults (`None`: must be given), rules and meaning.

    infer: checks the operator and gives shape and dtype of its output. evaluate: computes it.
    variadic: the last operand may be given any number of times, at least once.
    """

    operands: tuple[str, ...]
    infer: Infer
    evaluate: Evaluate
    attributes: Mapping[str, Any] = field(default_factory=dict)
    variadic: bool = False


class Checker:
    """One operator being checked: access to its operands and errors that name it."""

    def __init__(self, tensors: Mapping[str, Tensor], op: Op, spec: OperatorSpec) -> None:
        self.op = op
        names = spec.operands
        if spec.variadic and len(op.inputs) >= len(names):
            more = len(op.inputs) - len(names)
            names = (*names, *(f"{names[-1]}[{i + 1}]" for i in range(more)))
        if len(op.inputs) != len(names):
            least = "at least " if spec.variadic else ""
            raise self.error(
                f"{op.kind} has {len(op.inputs)} operands, needs {least}{len(names)}: "
                f"{', '.join(spec.operands)}"
            )
        self.operands: dict[str, Tensor] = {}
        for operand, name in zip(names, op.inputs, strict=True):
            if name not in tensors:
                raise self.error(f"operand {operand}: no tensor {name!r} in the graph")
            tensor = self.operands[operand] = tensors[name]
            shape = list(tensor.shape)
            too_many = f"{operand} {shape} has rank {len(shape)}, more than {MAX_RANK}"
            self.require(len(shape) <= MAX_RANK, too_many)

    def __getitem__(self, operand: str) -> Tensor:
        return self.operands[operand]

    def error(self, message: str, hint: str = "") -> GraphError:
        return GraphError(message, node=self.op.name, source=self.op.source, hint=hint)

    def require(self, condition: bool, message: str, hint: str = "") -> None:
        if not condition:
            raise self.error(message, hint)

    def rank(self, operand: str, *ranks: int) -> Shape:
        shape = self[operand].shape
        wanted = " or ".join(map(str, ranks))
        self.require(len(shape) in ranks, f"{operand} {list(shape)} must have rank {wanted}")
        return shape

    def ranked(self, operand: str) -> Shape:
        """The shape of an operand that must have at least one dimension."""
        shape = self[operand].shape
        self.require(bool(shape), f"{operand} [] must have rank 1 to {MAX_RANK}")
        return shape

    def dtype(self, operand: str, *dtypes: str) -> str:
        got = self[operand].dtype
        self.require(got in dtypes, f"{operand} is {got}, must be {' or '.join(dtypes)}")
        return got

    def constant(self, operand: str) -> Any:
        data = self[operand].data
        if data is None:
            raise self.error(f"{operand} must be a constant")
        return data

    def shape_values(self, operand: str, length: int | None = None) -> list[int]:
        """The values of a constant of dtype `shape`, `length` of them."""
        self.dtype(operand, "shape")
        values = [int(v) for v in self.constant(operand).reshape(-1)]
        self.require(
            length is None or len(values) == length,
            f"{operand} {values} must have {length} entries",
        )
        return values

    def axis(self, operand: str) -> int:
        """Attribute `axis`, a dimension of `operand`, which then has at least one."""
        shape, axis = self.ranked(operand), self.op.attributes["axis"]
        self.require(
            isinstance(axis, int) and 0 <= axis < len(shape),
            f"axis={axis!r}: must be 0…{len(shape) - 1} for {operand} {list(shape)}",
        )
        return int(axis)

    def zero_point(self, operand: str, of: str, *, unsigned: bool = False) -> None:
        """A one-element constant of dtype `of`; zero unless that is int8 (or 32768 of uint16)."""
        self.dtype(operand, of)
        shape = self[operand].shape
        self.require(shape == (1,), f"{operand} {list(shape)} must be [1]: one element")
        zp = int(self.constant(operand).reshape(-1)[0])
        if of == "int16" and unsigned:
            self.require(
                zp in (0, -32768), f"{operand}={zp % 65536}: must be 0 or 32768 for uint16"
            )
        elif of != "int8":
            self.require(zp == 0, f"{operand}={zp}: must be 0 for {of}")

    def ints(self, attribute: str, length: int, low: int | None) -> tuple[int, ...]:
        value = self.op.attributes[attribute]
        good = isinstance(value, tuple | list) and len(value) == length
        at_least = "" if low is None else f" of at least {low}"
        self.require(
            good and all(isinstance(v, int) and (low is None or v >= low) for v in value),
            f"{attribute}={value!r}: must be {length} integers{at_least}",
        )
        return tuple(value)


def broadcast(c: Checker, *operands: str) -> Shape:
    """The shape of an elementwise operator: equal ranks, dimensions equal or 1 (section 1.8.2)."""
    shapes = [c[name].shape for name in operands]
    equal_ranks = len({len(shape) for shape in shapes}) == 1
    good = equal_ranks and all(
        len({size for size in sizes if size != 1}) <= 1 for sizes in zip(*shapes, strict=True)
    )
    listed = [f"{name} {list(shape)}" for name, shape in zip(operands, shapes, strict=True)]
    c.require(good, f"{', '.join(listed[:-1])} and {listed[-1]} do not broadcast")
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


def same_type(c: Checker, *operands: str) -> str:
    """The one dtype of these operands."""
    first = c[operands[0]].dtype
    for name in operands[1:]:
        got = c[name].dtype
        c.require(got == first, f"{name} is {got}, must be {first} as {operands[0]}")
    return first

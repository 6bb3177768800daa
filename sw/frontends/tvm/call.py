"""What the function of a Relax operator is given: its operands, its attributes, what it writes."""

from collections.abc import Sequence
from typing import Any

from sw.frontends.onnx.building import Building
from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.types import NUMBERS
from sw.frontends.tvm.records import Call as Record
from sw.frontends.tvm.records import Values

HINT = "leave it to TVM"
_DTYPES = {
    "float32": "FLOAT", "int8": "INT8", "uint8": "UINT8", "int32": "INT32", "int64": "INT64",
    "int16": "INT16", "bool": "BOOL",
}  # fmt: skip


class Call:
    """A call that is written down as nodes of ONNX. names: of values in Relax, as `graph` has them.

    `x`, `names` and `ints` take operands apart; `add` writes a node.
    """

    def __init__(self, record: Record, graph: Building, names: dict[str, str]) -> None:
        self.record, self.graph, self._names = record, graph, names
        self.attributes = record.attributes

    def count(self) -> int:
        return len(self.record.operands)

    def x(self, index: int = 0) -> str:
        """The operand that is a value."""
        operand = self.record.operands[index] if index < self.count() else None
        if isinstance(operand, int | float):
            raise refused(f"operand {index} is the number {operand}, not a tensor", HINT)
        if not isinstance(operand, str):
            raise refused(f"operand {index} is no tensor", HINT)
        return self._names[operand]

    def all(self, index: int = 0) -> list[str]:
        """The values of the operand that is a tuple."""
        operand = self.record.operands[index]
        names = operand.names if isinstance(operand, Values) else ()
        if not names or not all(isinstance(name, str) for name in names):
            raise refused(f"operand {index} is no tuple of tensors", HINT)
        return [self._names[name] for name in names]

    def ints(self, index: int) -> list[int]:
        """The operand that is a shape, or a tuple of numbers."""
        operand = self.record.operands[index]
        if not isinstance(operand, tuple | list):
            raise refused(f"operand {index} is known at run time only", HINT)
        return [int(v) for v in operand]

    def number(self, index: int) -> Any:
        """The operand that is a number, or a constant of one."""
        operand = self.record.operands[index]
        if isinstance(operand, int | float):
            return operand
        constant = self.graph.constant(self.x(index))
        if constant is None or constant.numel() != 1:
            raise refused(f"operand {index} is not a constant number", HINT)
        return constant.item()

    def shape(self, index: int = 0) -> tuple[int, ...]:
        return self.graph.shape(self.x(index))

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute; the default where it is None."""
        value = self.attributes.get(name)
        return default if value is None else value

    def only(self, name: str, *supported: Any) -> Any:
        value = self.get(name, supported[0])
        if value not in supported:
            raise refused(f"{name} is {value!r}, not {' or '.join(map(repr, supported))}", HINT)
        return value

    def axes(self, name: str = "axis", rank: int | None = None) -> list[int] | None:
        """An attribute that is one dimension or several, from 0 on; None where it is not given."""
        value = self.get(name)
        if value is None:
            return None
        rank = len(self.shape()) if rank is None else rank
        given = value if isinstance(value, list) else [value]
        return [int(v) % max(rank, 1) for v in given]

    def add(self, kind: str, *operands: Any, results: int = 1, **attributes: Any) -> Any:
        return self.graph.add(kind, *operands, results=results, **attributes)

    def cast(self, x: str, dtype: str) -> str:
        """`x` as values of another type."""
        if dtype not in _DTYPES:
            raise refused(f"a cast to {dtype}", HINT)
        return str(self.add("Cast", x, to=NUMBERS[_DTYPES[dtype]]))

    def laid_out(self, x: str, layout: str, wanted: str) -> str:
        """`x` with its dimensions in another order: `NHWC` as `NCHW`."""
        if layout == wanted:
            return x
        if sorted(layout) != sorted(wanted):
            raise refused(f"layout {layout}, which is not {wanted} in another order", HINT)
        return str(self.add("Transpose", x, perm=[layout.index(d) for d in wanted]))


def pads(sides: Sequence[int], rank: int) -> list[int]:
    """Relax's padding as ONNX has it: before in each dimension, then behind."""
    if len(sides) == 1:
        return [int(sides[0])] * (2 * rank)
    return [int(s) for s in (sides if len(sides) == 2 * rank else [*sides, *sides])]

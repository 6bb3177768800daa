"""What the function of an operation is told, and what a row of the table says about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor as T

from sw.frontends.stablehlo.errors import StableHloError, refused
from sw.frontends.stablehlo.records import Op, Type

Function = Callable[..., Any]

_DTYPES = {
    "i1": torch.bool, "i4": torch.int8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "ui4": torch.uint8, "ui8": torch.uint8, "ui16": torch.int32,
    "ui32": torch.int64,
    "f16": torch.float32, "bf16": torch.float32, "f32": torch.float32, "f64": torch.float32,
}  # fmt: skip


def dtype_of(kind: Type) -> torch.dtype:
    """PyTorch's type: float32 for all floats."""
    if kind.element not in _DTYPES:
        raise refused(f"elements of type {kind.element}", f"use one of {', '.join(_DTYPES)}")
    return _DTYPES[kind.element]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operation with the types of its operands and results.

    fixed: for each operand, whether it is a constant.
    """

    op: Op
    operands: tuple[Type, ...]
    results: tuple[Type, ...]
    fixed: tuple[bool, ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.op.attributes.get(name, default)

    def ints(self, name: str, default: Any = ()) -> list[int]:
        """An attribute of integers, whatever MLIR stores it as."""
        found = self.get(name)
        return list(default) if found is None else [int(v) for v in found]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.results[0].shape

    def is_fixed(self, index: int) -> bool:
        return index < len(self.fixed) and self.fixed[index]

    def constant(self, index: int, tensor: Any) -> Any:
        """The values of a constant operand, as Python has them."""
        if isinstance(tensor, int | float):
            return tensor
        if not self.is_fixed(index):
            raise refused(f"operand {index} is computed from inputs", "make it a constant")
        return tensor.tolist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How an operation is taken: its function of tensors.

    elementwise: broadcasts are PyTorch's, and constants of one number are given as that. numbers:
    the position from which on constant operands are numbers (0: none are).
    """

    function: Function
    elementwise: bool = False
    numbers: int = 0

    def is_number(self, position: int) -> bool:
        """Whether a constant of one number is given as that."""
        return self.elementwise or 0 < self.numbers <= position


def run(call: Call, row: Row, operands: list[Any]) -> tuple[T, ...]:
    """The results. Whatever goes wrong in an operation is an error of the file."""
    place = {"operation": call.op.name, "place": call.op.place}
    try:
        with torch.no_grad():
            made = row.function(call, *operands)
    except StableHloError as error:
        raise error.at(**place) from error.__cause__
    except MemoryError:
        raise
    except Exception as error:
        given = ", ".join(map(str, call.operands))
        first = (str(error).strip().splitlines() or [repr(error)])[0]
        raise StableHloError(
            f"PyTorch cannot compute it of {given}: {first[:200]}",
            hint="write the function without it", **place,
        ) from error  # fmt: skip
    results = tuple(made) if isinstance(made, tuple | list) else (made,)
    if len(results) != len(call.results):
        raise StableHloError(f"{len(call.results)} results", hint="export it again", **place)
    return tuple(_typed(call, r, kind) for r, kind in zip(results, call.results, strict=True))


def _typed(call: Call, made: T, kind: Type) -> T:
    """A result in the file's type; its shape must be the file's."""
    if tuple(made.shape) != kind.shape:
        if not call.op.regions and made.dim() <= len(kind.shape):
            made = made.expand(kind.shape)
        if tuple(made.shape) != kind.shape:
            raise StableHloError(
                f"the file says {kind}, its operands give shape {list(made.shape)}",
                hint="export it again", operation=call.op.name, place=call.op.place,
            )  # fmt: skip
    dtype = dtype_of(kind)
    return made if made.dtype == dtype else made.to(dtype)

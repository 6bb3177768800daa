"""What a VECTOR does besides moving data: the epilogue of a product, operands, residual sums."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.isa import DType, Scale, Table
from spec.numerics import RANGES
from sw.compiler.kernels.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """What VECTOR does to int32 results: bias, RESCALE, zero point, clamp, TABLE, type.

    bias, multiplier, shift: int32/int32/int8 per channel (length 1: the same for all), or None.
    `low`/`high` bound the value after `zero_point` was added. `table`: 256 int8, or 513 int16 that
    are interpolated, or None; `short`: TABLE_SHIFT lower bits of that are left out. `input_zp`:
    taken from what comes in. `params`: tensor in memory with the parameter entries, where the bias
    is known at run time only. `first`: what an earlier VECTOR does in place in the accumulator.
    """

    dtype: DType
    low: int
    high: int
    zero_point: int = 0
    bias: NDArray[np.int32] | None = None
    multiplier: NDArray[Any] | None = None
    shift: NDArray[Any] | None = None
    table: NDArray[Any] | None = None
    short: bool = False
    input_zp: int = 0
    params: View | None = None
    first: "Epilogue | None" = None

    @property
    def passes(self) -> tuple["Epilogue", ...]:
        """One for each VECTOR, in order; this one is the last."""
        return (*(self.first.passes if self.first is not None else ()), self)

    @property
    def lookup(self) -> Table:
        """What the TABLE holds."""
        if self.table is None:
            return Table.OFF
        if self.table.dtype == np.int8:
            return Table.I8
        return Table.I16_I8 if self.short else Table.I16

    @property
    def has_bias(self) -> bool:
        return self.params is not None or (self.bias is not None and bool(self.bias.any()))

    @property
    def scale(self) -> Scale:
        if self.multiplier is None:
            return Scale.OFF
        return Scale.TENSOR if self.multiplier.size == 1 else Scale.CHANNEL

    @property
    def tensor_scale(self) -> tuple[int, int]:
        """Multiplier and shift where they are the same for all channels."""
        assert self.multiplier is not None and self.shift is not None
        return int(self.multiplier[0]), int(self.shift[0])

    @property
    def uses_params(self) -> bool:
        """Whether this pass reads parameters of the channels."""
        return self.scale is Scale.CHANNEL or self.has_bias

    @property
    def param_passes(self) -> tuple["Epilogue", ...]:
        """The passes that read parameters: a column block has an entry for each."""
        return tuple(p for p in self.passes if p.uses_params)

    def channels(self, part: slice) -> "Epilogue":
        """The epilogue of some of the channels."""

        def cut(values: NDArray[Any] | None) -> NDArray[Any] | None:
            return values if values is None or values.size == 1 else values[part]

        return replace(
            self,
            bias=cut(self.bias),
            multiplier=cut(self.multiplier),
            shift=cut(self.shift),
            first=None if self.first is None else self.first.channels(part),
        )

    def __str__(self) -> str:
        parts = [f"scale={self.scale.name}", f"zp={self.zero_point}", f"[{self.low},{self.high}]"]
        if self.bias is not None:
            parts.insert(0, "bias")
        if self.table is not None:
            parts.append("table")
        before = "" if self.first is None else f"{self.first}; "
        return f"{before}{' '.join(parts)} -> {self.dtype.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An elementwise operand: its view, element type, zero point and RESCALE (shift 0: none)."""

    view: View
    dtype: DType
    zero_point: int = 0
    multiplier: int = 0
    shift: int = 0

    def __str__(self) -> str:
        scale = f"*{self.multiplier}>>{self.shift}" if self.shift else ""
        return f"({self.view} - {self.zero_point}){scale}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """A sum behind a product: clamp(RESCALE(product), low, high) << shift_left, plus `operand`.

    RESCALE is the epilogue's; its zero point, range, type and TABLE are those of the sum's result,
    which `multiplier` and `shift` rescale (shift 0: not at all).
    """

    operand: Operand
    low: int
    high: int
    shift_left: int
    multiplier: int = 0
    shift: int = 0

    @property
    def clamps(self) -> bool:
        """Whether the bounds are narrower than int32's."""
        return (self.low, self.high) != RANGES[DType.I32]

    def samples(self, part: int, parts: int) -> "Residual":
        """The same for part `part` of `parts` of the batch."""
        view = self.operand.view.samples(part, parts)
        return replace(self, operand=replace(self.operand, view=view))

    def channels(self, part: slice) -> "Residual":
        """The same for some of the channels."""
        view = self.operand.view.channels(part)
        return replace(self, operand=replace(self.operand, view=view))

    def __str__(self) -> str:
        scale = f" *{self.multiplier}>>{self.shift}" if self.shift else ""
        return f"[{self.low},{self.high}]<<{self.shift_left} + {self.operand}{scale}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFactor:
    """A MUL behind a product, before all else: result · operand >> shift.

    The operand is int32, one element for all channels of a pixel (1 channel).
    """

    operand: Operand
    shift: int

    def samples(self, part: int, parts: int) -> "RowFactor":
        """The same for part `part` of `parts` of the batch."""
        view = self.operand.view.samples(part, parts)
        return replace(self, operand=replace(self.operand, view=view))

    def channels(self, part: slice) -> "RowFactor":
        """The same for some of the channels."""
        return self

    def __str__(self) -> str:
        return f"* {self.operand} >> {self.shift}"


def describe(epilogue: Epilogue, residual: Residual | RowFactor | None) -> str:
    """The text of an epilogue with what it adds or multiplies, for dumps."""
    return str(epilogue) if residual is None else f"{residual}; {epilogue}"


def epilogue_signature(epilogue: Epilogue) -> Hashable:
    """What a plan depends on: the kinds of an epilogue, not its values."""
    passes = len(epilogue.passes), len(epilogue.param_passes)
    return epilogue.dtype, epilogue.scale, passes

"""A VECTOR that is being put together: operations fill its stages in their order.

The vector engine computes, for every element: A minus its zero point, plus a bias, RESCALE, clamp,
shift left; a function of it and B; a reduction; RESCALE, plus a zero point, clamp; TABLE. An
operation that belongs to a stage behind those used so far is part of the same VECTOR. For any other
`then` returns None: the caller has the result written, and begins the next VECTOR with it.
"""

import enum
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.fields import field_of
from spec.isa import Alu, DType, Opcode, Reduce, Scale, Table
from spec.numerics import short_table
from sw.compiler.kernels.operands import Epilogue
from sw.compiler.program.records import ArithmeticFields
from sw.language.memory import Piece
from sw.language.source import NOWHERE, Line
from sw.language.types import limits


class Stage(enum.IntEnum):
    """Stages of the vector engine, in order."""

    START = 0
    A_ZERO_POINT = 1
    BIAS = 2
    A_SCALE = 3
    A_CLAMP = 4
    A_SHIFT = 5
    ALU = 6
    REDUCE = 7
    O_SCALE = 8
    O_ZERO_POINT = 9
    O_CLAMP = 10
    TABLE = 11


CONSTANT = field_of(Opcode.VECTOR, "b_zp")
"""The field that holds a constant operand, negated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A VECTOR of `a` and, if there is one, `b`; `stage`: the last one that is used.

    `dtype`: of the result. `low`, `high`: its bounds. `axis`: the one that `reduce` is over.
    `channels`: bias, multiplier and shift of each column. `table`: what results are looked up in.
    """

    a: Piece
    b: Piece | None = None
    stage: Stage = Stage.START
    values: ArithmeticFields = field(default_factory=ArithmeticFields)
    reduce: Reduce = Reduce.NONE
    axis: int = -1
    low: int = limits("int32")[0]
    high: int = limits("int32")[1]
    dtype: str = "int32"
    table: NDArray[Any] | None = None
    bias: NDArray[np.int32] | None = None
    multiplier: NDArray[np.int64] | None = None
    shift: NDArray[np.int64] | None = None
    line: Line = NOWHERE

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result."""
        return tuple(1 if self._reduces(d) else n for d, n in enumerate(self.extents))

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the elements that it goes through."""
        if self.b is None:
            return self.a.shape
        pairs = zip(self.a.shape, self.b.shape, strict=True)
        return tuple(max(n, m) for n, m in pairs)

    def _reduces(self, dimension: int) -> bool:
        return self.reduce is not Reduce.NONE and dimension == self.axis

    @property
    def channels(self) -> Epilogue | None:
        """The parameters of its columns, if it reads any."""
        if self.bias is None and (self.multiplier is None or self.multiplier.size == 1):
            return None
        return Epilogue(
            dtype=DType.I32,
            low=self.low,
            high=self.high,
            bias=self.bias,
            multiplier=self.multiplier,
            shift=self.shift,
        )

    @property
    def by_column(self) -> bool:
        """Whether columns have parameters of their own."""
        arrays = (self.bias, self.multiplier)
        return any(values is not None and values.size > 1 for values in arrays)

    def then(self, stage: Stage, values: ArithmeticFields, **more: Any) -> "Pending | None":
        """With `values` for a stage; None if the VECTOR is past it."""
        if self.stage >= stage:
            return None
        return replace(self, stage=stage, values=self.values | values, **more)

    # Operations -----------------------------------------------------------------------------------

    def plus(self, number: int) -> "Pending | None":
        """A constant added."""
        if self.stage is Stage.START:
            return self.then(Stage.A_ZERO_POINT, ArithmeticFields(a_zp=-number))
        if self.stage < Stage.ALU and self.b is None:
            return self.function(Alu.ADD, None, number)
        return self.then(Stage.O_ZERO_POINT, ArithmeticFields(o_zp=number))

    def function(
        self, alu: Alu, b: Piece | None, number: int = 0, values: ArithmeticFields | None = None
    ) -> "Pending | None":
        """A function of the ALU, of B or of a constant. `values`: what is done to B before."""
        if self.b is not None or "b_none" in self.values:
            return None
        more = values or ArithmeticFields()
        if alu.operands > 1 and b is None:
            more |= ArithmeticFields(b_none=1, b_zp=-number)
        return self.then(Stage.ALU, more | ArithmeticFields(alu=alu), b=b)

    def scaled(self, multiplier: NDArray[Any], shift: NDArray[Any]) -> "Pending | None":
        """RESCALE, by one scale or by one for each column."""
        one = multiplier.size == 1
        scale = Scale.TENSOR if one else Scale.CHANNEL
        pair = {"multiplier": multiplier, "shift": shift}
        values = ArithmeticFields(a_scale=scale)
        if one:
            values |= ArithmeticFields(a_mult=int(multiplier[0]), a_shift=int(shift[0]))
        made = self.then(Stage.A_SCALE, values, **pair)
        if made is not None or (not one and self.multiplier is not None):
            return made
        values = ArithmeticFields(o_scale=scale)
        if one:
            values |= ArithmeticFields(o_mult=int(multiplier[0]), o_shift=int(shift[0]))
            pair = {}
        return self.then(Stage.O_SCALE, values, **pair)

    def biased(self, bias: NDArray[np.int32]) -> "Pending | None":
        """A constant for each column added."""
        return self.then(Stage.BIAS, ArithmeticFields(bias=1), bias=bias)

    def multiplied(self, b: Piece, shift: int) -> "Pending | None":
        """The product with B, shifted right with rounding."""
        if self.b is not None:
            return None
        return self.then(Stage.A_SCALE, ArithmeticFields(a_scale=Scale.OPERAND, a_shift=shift), b=b)

    def reduced(self, how: Reduce, axis: int) -> "Pending | None":
        """The elements along an axis as one."""
        return self.then(Stage.REDUCE, ArithmeticFields(), reduce=how, axis=axis)

    def clamped(self, low: int, high: int) -> "Pending | None":
        """Between two bounds, where they are needed: behind everything, or before the ALU."""
        field_range = field_of(Opcode.VECTOR, "a_min"), field_of(Opcode.VECTOR, "a_max")
        fits = field_range[0].minimum <= low and high <= field_range[1].maximum
        if fits and self.stage < Stage.A_CLAMP:
            return self.then(Stage.A_CLAMP, ArithmeticFields(a_clamp=1, a_min=low, a_max=high))
        return self.bounded(low, high)

    def bounded(self, low: int, high: int, dtype: str = "") -> "Pending | None":
        """The result between two bounds, as another type."""
        if self.stage > Stage.O_CLAMP:
            return None
        low, high = max(low, self.low), min(high, self.high)
        if low > high:
            return None
        return replace(self, stage=Stage.O_CLAMP, low=low, high=high, dtype=dtype or self.dtype)

    def shortened(
        self, multiplier: NDArray[Any], shift: NDArray[Any], zero_point: int
    ) -> "Pending | None":
        """RESCALE to int8 of what was looked up, as a part of the TABLE."""
        if self.values.get("table") is not Table.I16 or multiplier.size > 1 or self.table is None:
            return None
        table = short_table(self.table, int(multiplier[0]), int(shift[0]), zero_point)
        if table is None:
            return None
        values = self.values | ArithmeticFields(table=Table.I16_I8)
        return replace(self, values=values, table=table, dtype="int8")

    def looked_up(self, table: NDArray[Any]) -> "Pending | None":
        """TABLE: 256 int8 of int8, or 513 int16 of int16."""
        short = table.dtype == np.int8
        bounds = self.bounded(*limits("int8" if short else "int16"))
        if bounds is None:
            return None
        kind = Table.I8 if short else Table.I16
        return bounds.then(
            Stage.TABLE,
            ArithmeticFields(table=kind),
            table=table,
            dtype="int8" if short else "int32",
        )

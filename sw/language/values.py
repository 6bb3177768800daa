"""What a kernel computes with: tiles on chip, and expressions of the vector engine over them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spec.isa import Alu, Reduce
from spec.numerics import scale_to_multiplier
from sw.compiler.program.records import ArithmeticFields
from sw.language.layout import Index
from sw.language.memory import Piece
from sw.language.source import Line, caller
from sw.language.steps import Semaphore, Sync, VectorStep
from sw.language.types import check_dtype, item_bytes, limits
from sw.language.vector import CONSTANT, Pending, Stage

if TYPE_CHECKING:
    from sw.language.trace import Trace

Operand = "Values | int"
_SWAP = {Alu.ADD, Alu.MIN, Alu.MAX, Alu.AND, Alu.OR, Alu.XOR}
"""Functions whose operands may change places."""


class Values:
    """Arithmetic of the vector engine, element by element: int32 with wrap.

    Operands broadcast along dimensions of size 1. Nothing is computed until a result is needed: by
    `store`, `keep`, a product, or an operation for which the vector engine has to begin anew.
    """

    trace: "Trace"

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def dtype(self) -> str:
        raise NotImplementedError

    @property
    def _pending(self) -> Pending:
        raise NotImplementedError

    # Arithmetic -----------------------------------------------------------------------------------

    def __add__(self, other: "Values | int") -> "Expression":
        if isinstance(other, Values):
            return self._binary(Alu.ADD, other)
        number = self._constant(other)
        return self._then(lambda p: p.plus(number))

    __radd__ = __add__

    def __sub__(self, other: "Values | int") -> "Expression":
        if isinstance(other, Values):
            return self._binary(Alu.SUB, other)
        return self + -self._constant(other)

    def __mul__(self, other: "Values | int") -> "Expression":
        return self.times(other)

    def __lshift__(self, other: "Values | int") -> "Expression":
        if isinstance(other, int) and 0 <= other < 32:
            shifted = self._pending.then(Stage.A_SHIFT, ArithmeticFields(a_shl=other))
            if shifted is not None and self._pending.b is None:
                return Expression(self.trace, shifted)
        return self._binary(Alu.LSL, other)

    def __rshift__(self, other: "Values | int") -> "Expression":
        return self._binary(Alu.ASR, other)

    def times(self, other: "Values | int", shift: int = 0) -> "Expression":
        """(self · other + 2^(shift−1)) >> shift, computed in 64 bits; its low 32 bits."""
        if not 0 <= shift <= 63:
            self._refuse(f"times(shift={shift}): must lie in 0…63")
        if not isinstance(other, Values):
            return self.rescale(float(self._constant(other)) / 2.0**shift)
        self._check_shapes(other, caller())
        # The product takes B as it lies there.
        b = other if isinstance(other, Tile) and not other.piece.in_acc else None
        piece = (b or write(other, "scratchpad")).piece
        return self._then(lambda p: p.multiplied(piece, shift))

    def maximum(self, other: "Values | int") -> "Expression":
        """The larger of both."""
        return self._binary(Alu.MAX, other)

    def minimum(self, other: "Values | int") -> "Expression":
        """The smaller of both."""
        return self._binary(Alu.MIN, other)

    def leading_zeros(self) -> "Expression":
        """Zeros above the highest 1 of the 32 bits."""
        return self._then(lambda p: p.function(Alu.CLZ, None))

    def absolute(self) -> "Expression":
        """The magnitude."""
        return self._then(lambda p: p.function(Alu.ABS, None))

    def apply(self, alu: Alu, other: "Values | int") -> "Expression":
        """Any function of the ALU with two operands."""
        return self._binary(alu, other)

    # Reductions -----------------------------------------------------------------------------------

    def sum(self, axis: int = -1) -> "Expression":
        """The sum along an axis, which keeps size 1."""
        return self._reduce(Reduce.SUM, axis)

    def max(self, axis: int = -1) -> "Expression":
        """The largest along an axis, which keeps size 1."""
        return self._reduce(Reduce.MAX, axis)

    def min(self, axis: int = -1) -> "Expression":
        """The smallest along an axis, which keeps size 1."""
        return self._reduce(Reduce.MIN, axis)

    # Scales and types -----------------------------------------------------------------------------

    def rescale(self, scale: ArrayLike) -> "Expression":
        """Multiplied by a scale, or by one for each column, and rounded: TOSA's RESCALE.

        A scale becomes a multiplier of 31 bits and a shift of 2…62.
        """
        multiplier, shift = self._scale(scale)
        return self._then(lambda p: p.scaled(multiplier, shift))

    def clamp(self, low: int, high: int) -> "Expression":
        """Between two bounds."""
        if low > high:
            self._refuse(f"clamp({low}, {high}): the bounds must be in order")
        return self._then(lambda p: p.clamped(low, high))

    def to(self, dtype: str) -> "Expression":
        """As another type; values beyond it saturate."""
        check_dtype(dtype, "to", str(caller()))
        return self._then(lambda p: p.bounded(*limits(dtype), dtype=dtype))

    def requantize(
        self,
        scale: ArrayLike,
        zero_point: int = 0,
        dtype: str = "int8",
        *,
        bias: ArrayLike | None = None,
        low: int | None = None,
        high: int | None = None,
    ) -> "Expression":
        """(self + bias) · scale + zero_point, rounded, between `low` and `high`, saturated.

        `scale`, `bias`: a number, or one for each column. `low`, `high`: of the result, after the
        zero point was added (a ReLU has `low=zero_point`).
        """
        least, most = limits(check_dtype(dtype, "requantize", str(caller())))
        least = least if low is None else max(least, low)
        most = most if high is None else min(most, high)
        value: Values = self if bias is None else self._biased(bias)
        moved = ArithmeticFields(o_zp=self._constant(zero_point))
        if (least, most) == limits("int8"):
            short = value._pending.shortened(*value._scale(scale), zero_point)
            if short is not None:
                return Expression(self.trace, short)
        scaled = value.rescale(scale)
        if zero_point:
            scaled = scaled._then(lambda p: p.then(Stage.O_ZERO_POINT, moved))
        return scaled._then(lambda p: p.bounded(least, most, dtype=dtype))

    def lookup(self, table: NDArray[Any]) -> "Expression":
        """The entry of a table: 256 of int8 for int8 values, or 513 of int16, interpolated.

        Values saturate to int8, or int16. Results are int8, or 128 times the entries in int32.
        """
        good = {np.dtype(np.int8): 256, np.dtype(np.int16): 513}
        if not isinstance(table, np.ndarray) or good.get(table.dtype) != table.size:
            self._refuse(
                f"lookup: {getattr(table, 'dtype', type(table).__name__)} of "
                f"{getattr(table, 'size', 'no')} entries: a table has 256 int8 or 513 int16"
            )
        return self._then(lambda p: p.looked_up(table))

    # Putting expressions together -----------------------------------------------------------------

    def _then(self, operation: Callable[[Pending], Pending | None]) -> "Expression":
        """With an operation more: in the same VECTOR, or in one that reads its result."""
        made = operation(self._pending)
        if made is None:
            made = operation(self._written()._pending)
        if made is None:
            self._refuse("this operation does not fit a VECTOR of its own")
        return Expression(self.trace, made)

    def _written(self) -> "Tile":
        """The values as a tile that a VECTOR can take as A."""
        wide = self.dtype == "int32" and self.shape[-1] > 1
        return write(self, "accumulator" if wide else "scratchpad")

    def _binary(self, alu: Alu, other: "Values | int") -> "Expression":
        if not isinstance(other, Values):
            number = self._constant(other)
            return self._then(lambda p: p.function(alu, None, number))
        self._check_shapes(other, caller())
        if alu in _SWAP and other._pending.a.in_acc and not self._pending.a.in_acc:
            return other._binary(alu, self)
        b, before = self._operand(other), ArithmeticFields()
        pending = other._pending
        if isinstance(other, Expression) and b is pending.a:
            values = pending.values
            before = ArithmeticFields(b_zp=values.get("a_zp", 0))
            if "a_scale" in values:
                before |= ArithmeticFields(
                    b_scale=values["a_scale"], b_mult=values["a_mult"], b_shift=values["a_shift"]
                )
        return self._then(lambda p: p.function(alu, b, values=before))

    def _operand(self, other: "Values") -> Piece:
        """`other` in the scratchpad, where operand B lies; RESCALE of B is part of the VECTOR."""
        pending = other._pending
        plain = set(pending.values) <= {"a_zp", "a_scale", "a_mult", "a_shift"}
        whole = pending.stage <= Stage.A_SCALE and pending.b is None and pending.channels is None
        if plain and whole and not pending.a.in_acc:
            return pending.a
        return write(other, "scratchpad")._pending.a

    def _reduce(self, how: Reduce, axis: int) -> "Expression":
        rank = len(self.shape)
        if not -rank <= axis < rank:
            self._refuse(f"axis {axis}: a tile of {list(self.shape)} has axes 0…{rank - 1}")
        return self._then(lambda p: p.reduced(how, axis % rank))

    def _biased(self, bias: ArrayLike) -> "Expression":
        values = np.atleast_1d(np.asarray(bias, np.int64))
        self._check_columns("bias", values)
        return self._then(lambda p: p.biased(values.astype(np.int32)))

    def _scale(self, scale: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ratios = np.atleast_1d(np.asarray(scale, np.float64))
        self._check_columns("scale", ratios)
        try:
            pairs = np.array([scale_to_multiplier(float(r)) for r in ratios], np.int64)
        except ValueError as error:
            self._refuse(str(error))
        return pairs[:, 0], pairs[:, 1]

    def _check_columns(self, what: str, values: NDArray[Any]) -> None:
        if values.ndim != 1 or values.size not in (1, self.shape[-1]):
            self._refuse(
                f"{what} of shape {list(values.shape)} for {self.shape[-1]} columns: give one "
                "number, or one for each column"
            )

    def _constant(self, number: object) -> int:
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            self._refuse(f"{number!r}: a constant is a whole number; scale values with rescale()")
        low, high = CONSTANT.minimum + 1, CONSTANT.maximum
        if not low <= number <= high:
            self._refuse(f"{number}: a constant lies in {low}…{high}")
        return int(number)

    def _check_shapes(self, other: "Values", line: Line) -> None:
        pairs = list(zip(self.shape, other.shape, strict=False))
        if len(self.shape) != len(other.shape) or any(n != m and 1 not in (n, m) for n, m in pairs):
            raise self.trace.error(
                f"shapes {list(self.shape)} and {list(other.shape)} do not match",
                line,
                hint="dimensions must be equal, or 1",
            )

    def _refuse(self, message: str) -> NoReturn:
        raise self.trace.error(message, caller())


class Expression(Values):
    """A VECTOR that is not written yet."""

    def __init__(self, trace: "Trace", pending: Pending) -> None:
        self.trace, self._made = trace, pending

    @property
    def shape(self) -> tuple[int, ...]:
        return self._made.shape

    @property
    def dtype(self) -> str:
        return self._made.dtype

    @property
    def _pending(self) -> Pending:
        return self._made


class Tile(Values):
    """Elements on chip: `shape`, `dtype`. Slices, `reshape` and `T` are the same elements."""

    def __init__(self, trace: "Trace", piece: Piece) -> None:
        self.trace, self.piece = trace, piece

    @property
    def shape(self) -> tuple[int, ...]:
        return self.piece.shape

    @property
    def dtype(self) -> str:
        return self.piece.dtype

    @property
    def _pending(self) -> Pending:
        return Pending(a=self.piece)

    @property
    def T(self) -> "Tile":  # as NumPy and PyTorch call it
        """With the last two dimensions exchanged."""
        rank = len(self.shape)
        if rank < 2 or self.piece.in_acc:
            self._refuse(f"T of {list(self.shape)}: needs two dimensions, in the scratchpad")
        order = [*range(rank - 2), rank - 1, rank - 2]
        return Tile(self.trace, self.piece.under(self.piece.layout.permuted(order)))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> "Tile":
        layout = self.piece.layout.at(index, self.piece.memory.label)
        return Tile(self.trace, self.piece.under(layout))

    def reshape(self, *shape: int) -> "Tile":
        """The same elements in the same order in another shape."""
        layout = self.piece.layout
        item = item_bytes(self.dtype)
        made = layout.reshaped(shape, item, self.piece.memory.label)
        return Tile(self.trace, self.piece.under(made))


def write(
    values: Values,
    space: str,
    *,
    into: Tile | None = None,
    buffers: int | None = None,
    at: int | None = None,
    sync: Sync | None = None,
) -> Tile:
    """The values as a tile in the scratchpad or the accumulator, by a VECTOR."""
    trace, pending, line = values.trace, values._pending, caller()
    label = f"{pending.dtype} values"
    if into is not None:
        piece = into.piece
    elif space == "scratchpad":
        piece = trace.scratchpad(pending.dtype, pending.shape, label, line, buffers, at)
    elif pending.dtype != "int32":
        raise trace.error(
            f"{pending.dtype} in the accumulator: it holds int32", line, hint="use the scratchpad"
        )
    else:
        piece = trace.accumulator(pending.shape, label, line, buffers, at)
    trace.add(
        VectorStep(
            line=line,
            label=f"vector {list(pending.extents)}",
            sync=sync or Sync(),
            pending=pending,
            out=piece,
        )
    )
    return Tile(trace, piece)


def keep(
    values: Values,
    space: str = "scratchpad",
    *,
    into: Tile | None = None,
    buffers: int | None = None,
    at: int | None = None,
    wait: Sequence[Semaphore] = (),
    post: Sequence[Semaphore] = (),
    read: Sequence[Semaphore] = (),
) -> Tile:
    """Compute an expression now, into the `scratchpad` or the `accumulator`, and return its tile.

    `into`: a tile, or a slice of one, that it is written to. `buffers`, `at`, `wait`, `post`: see
    `load`. `read`: semaphores that it adds to when the operands have been read.
    """
    trace, line = values.trace, caller()
    if space not in ("scratchpad", "accumulator"):
        raise trace.error(f"keep: space {space!r}: must be scratchpad or accumulator", line)
    if into is not None and (into.shape, into.dtype) != (values.shape, values.dtype):
        raise trace.error(
            f"keep: into is {into.dtype}{list(into.shape)}, the values are "
            f"{values.dtype}{list(values.shape)}",
            line,
        )
    sync = Sync(wait=tuple(wait), post=tuple(post), read=tuple(read))
    return write(values, space, into=into, buffers=buffers, at=at, sync=sync)

"""Builds the steps of a FusedLayer over TOSA shapes, and merges dimensions that go on regularly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from numpy.typing import NDArray

from spec.isa import Alu, DType, Reduce, Table
from spec.numerics import RANGES
from sw.compiler.kernels.fused.layer import (
    Factor,
    FusedLayer,
    FusedStep,
    Product,
    Register,
    Result,
    Source,
)
from sw.compiler.kernels.operands import Epilogue
from sw.compiler.kernels.views import DTYPE, Placed, View
from sw.compiler.program.records import ArithmeticFields

Shape = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Value:
    """What a register will hold: elements of type `kind`.

    `placed`: where a source lies; `data`: its elements, if they are known.
    """

    kind: DType
    shape: Shape
    dtype: str = ""
    placed: Placed | None = None
    data: NDArray[Any] | None = None


@dataclass(slots=True, eq=False)
class PendingStep:
    """A step whose registers have no numbers yet; `values` may still change.

    `params`: bias, multipliers and shifts along the last dimension.
    """

    a: Value
    b: Value | None
    out: Value
    values: ArithmeticFields = field(default_factory=ArithmeticFields)
    reduce: Reduce = Reduce.NONE
    axis: int = -1
    lookup: int = -1
    params: Epilogue | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where a result goes: the view of its whole tensor, byte offset and strides by dimension."""

    view: View
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Factors:
    """Operands of a product of the builder's rank, the depth of its sums, zero points.

    `left` is […, row, k], `right` […, k, col] of int8.
    """

    left: Placed
    right: Placed
    zero_points: tuple[int, int]

    @property
    def transposed(self) -> bool:
        """Whether elements of `right` along the sum are neighbours, and those of columns not."""
        return self.right.strides[-1] != 1


class FusedBuilder:
    """Collects sources and steps; all shapes have the same rank.

    `made`: values by the names of the tensors that they are.
    """

    def __init__(self) -> None:
        self.made: dict[str, Value] = {}
        self.sources: list[Value] = []
        self.steps: list[PendingStep] = []
        self.tables: dict[bytes, NDArray[Any]] = {}
        self.product: tuple[Value, Factors] | None = None

    def source(self, placed: Placed, dtype: str, data: NDArray[Any] | None = None) -> Value:
        """An operand in memory; the same place twice is one operand."""
        for known in self.sources:
            if known.placed == placed and known.dtype == dtype:
                return known
        value = Value(DTYPE[dtype], placed.shape, dtype, placed, data)
        self.sources.append(value)
        return value

    def step(
        self,
        a: Value,
        b: Value | None = None,
        kind: DType = DType.I32,
        *,
        reduce: Reduce = Reduce.NONE,
        axis: int = -1,
        values: ArithmeticFields | None = None,
        **more: Unpack[ArithmeticFields],
    ) -> Value:
        """Append a VECTOR and return its result, of the operands' broadcast shape.

        `values` and `more`: fields of the instruction.
        """
        shape = a.shape if b is None else _broadcast(a.shape, b.shape)
        if axis >= 0:
            shape = (*shape[:axis], 1, *shape[axis + 1 :])
        out = Value(kind, shape)
        self.steps.append(
            PendingStep(a, b, out, (values or ArithmeticFields()) | more, reduce, axis)
        )
        return out

    def look_up(self, step: PendingStep, table: NDArray[Any], kind: Table) -> None:
        """Let a step look its results up in `table`."""
        key = table.tobytes()
        self.tables.setdefault(key, table)
        step.values["table"] = kind
        step.lookup = list(self.tables).index(key)

    def look_up_instead(self, step: PendingStep, table: NDArray[Any], kind: Table) -> None:
        """The same in place of the table that the step has, which goes unless others look it up."""
        others = [s for s in self.steps if s.lookup >= 0 and s is not step]
        if all(s.lookup != step.lookup for s in others):
            del self.tables[list(self.tables)[step.lookup]]
            for other in others:
                other.lookup -= other.lookup > step.lookup
        self.look_up(step, table, kind)

    def immediate(
        self, a: Value, b: int, kind: DType = DType.I32, **values: Unpack[ArithmeticFields]
    ) -> Value:
        """A step whose operand B is an 18-bit constant."""
        return self.step(a, None, kind, values=ArithmeticFields(b_none=1, b_zp=-b) | values)

    def layer(self, *targets: Target, results: Sequence[Value] = (), **shared: Any) -> FusedLayer:
        """The layer; `results` (if none are given, what the last step makes) go to `targets`."""
        results = list(results) or [self.steps[-1].out]
        rank = len(targets[0].strides)
        values = self._values()
        shape = tuple(max((v.shape[d] for v in values), default=1) for d in range(rank))
        apart = {s.axis for s in self.steps if s.axis >= 0}
        params = [s.params for s in self.steps if s.params is not None]
        if params:
            apart.add(rank - 1)
        whole = set(apart)
        if self.product is not None:
            whole.add(rank - 1)
            apart |= {rank - 2, rank - 1}
        pairs = list(zip(results, targets, strict=True))
        kept = self._merged(shape, apart, pairs)
        number, registers = self._registers(results, kept)
        return FusedLayer(
            output=targets[0].view,
            shape=tuple(size for size, _, _ in kept) or (1,),
            sources=tuple(self._source(v, kept) for v in self.sources),
            registers=tuple(registers),
            steps=tuple(_number(s, number, params, kept) for s in self.steps),
            results=tuple(
                Result(
                    register=number[id(value)],
                    view=target.view,
                    offset=target.offset,
                    strides=tuple(target.strides[last] for _, _, last in kept) or (0,),
                )
                for value, target in pairs
            ),
            whole=frozenset(i for i, (_, _, last) in enumerate(kept) if last in whole),
            tables=tuple(self.tables.values()),
            params=tuple(_distinct(params)),
            product=self._product(number, kept),
            **shared,
        )

    def _values(self) -> list[Value]:
        made = [] if self.product is None else [self.product[0]]
        return [*self.sources, *made, *(s.out for s in self.steps)]

    def _product(
        self, number: Mapping[int, int], kept: list[tuple[int, int, int]]
    ) -> Product | None:
        if self.product is None:
            return None
        value, factors = self.product
        left, right = factors.left, factors.right
        rank = len(value.shape)
        dims = [last for _, _, last in kept]
        assert dims[-2:] == [rank - 2, rank - 1]
        sides = []
        for placed, other, along, zero_point in (
            (left, rank - 1, left.strides[-1], factors.zero_points[0]),
            (right, rank - 2, right.strides[-2], factors.zero_points[1]),
        ):
            strides = tuple(0 if d == other else placed.strides[d] for d in dims)
            sides.append(
                Factor(
                    tensor=placed.root,
                    offset=placed.offset,
                    strides=strides,
                    along=along,
                    zero_point=zero_point,
                )
            )
        return Product(
            register=number[id(value)],
            left=sides[0],
            right=sides[1],
            depth=left.shape[-1],
            transposed=factors.transposed,
        )

    def _registers(
        self, results: Sequence[Value], kept: list[tuple[int, int, int]]
    ) -> tuple[dict[int, int], list[Register]]:
        """(register of each value, by id; the registers): sources, then results and
        temporaries, whose registers are used again when nobody needs them.
        """
        registers = [_register(v, kept) for v in self.sources]
        number = {id(v): i for i, v in enumerate(self.sources)}
        if self.product is not None:
            number[id(self.product[0])] = len(registers)
            registers.append(_register(self.product[0], kept, acc=True))
        kept_values = {id(v) for v in results}
        uses = {id(v): i for i, s in enumerate(self.steps) for v in (s.a, s.b) if v is not None}
        eligible = self._for_accumulator(kept_values, kept)
        free: list[int] = []

        def release(step: PendingStep, i: int, *, acc: bool) -> None:
            for value in {id(v): v for v in (step.a, step.b) if v is not None}.values():
                register = number[id(value)]
                temporary = register >= len(self.sources) and id(value) not in kept_values
                if temporary and uses[id(value)] == i and registers[register].acc == acc:
                    free.append(register)

        for i, step in enumerate(self.steps):
            if id(step.out) in kept_values:
                number[id(step.out)] = len(registers)
                registers.append(_register(step.out, kept))
                release(step, i, acc=True)
                release(step, i, acc=False)
                continue
            # A vector of the accumulator is read before its step writes it.
            release(step, i, acc=True)
            like = _register(step.out, kept, acc=id(step.out) in eligible)
            register = next((r for r in free if registers[r] == like), None)
            if register is None:
                register = len(registers)
                registers.append(like)
            else:
                free.remove(register)
            number[id(step.out)] = register
            release(step, i, acc=False)
        return number, registers

    def keeps_product(self) -> bool:
        """Whether the product may stay in the accumulator: steps read it as A, in its own type, and
        none reduces along a dimension before the last two: there is one matrix at a time.
        """
        if self.product is None:
            return False
        value = self.product[0]
        leading = len(value.shape) - 2
        for step in self.steps:
            if 0 <= step.axis < leading and value.shape[step.axis] > 1:
                return False
        reads = [s for s in self.steps if s.a is value]
        return bool(reads) and all(
            s.b is not value and ("a_type" not in s.values or s.a is not value) for s in self.steps
        )

    def _for_accumulator(self, results: set[int], kept: list[tuple[int, int, int]]) -> set[int]:
        """Temporaries that lie in whole vectors, and that steps read as A, in their own type."""
        last = kept[-1][2] if kept else -1
        out = {
            id(s.out)
            for s in self.steps
            if last >= 0 and s.out.shape[last] > 1 and id(s.out) not in results and _fits(s)
        }
        for step in self.steps:
            if step.b is not None:
                out.discard(id(step.b))
            if "a_type" in step.values:
                out.discard(id(step.a))
        return out

    def _merged(
        self, shape: Shape, apart: set[int], results: Sequence[tuple[Value, Target]]
    ) -> list[tuple[int, int, int]]:
        """(size, first, last dimension) of each run of dimensions that is one."""
        kept: list[tuple[int, int, int]] = []
        for d, size in enumerate(shape):
            if size == 1:
                continue
            if kept and self._joins(kept[-1][2], d, size, apart, results):
                n, first, _ = kept[-1]
                kept[-1] = (n * size, first, d)
            else:
                kept.append((size, d, d))
        return kept

    def _joins(
        self,
        outer: int,
        inner: int,
        size: int,
        apart: set[int],
        results: Sequence[tuple[Value, Target]],
    ) -> bool:
        if {outer, inner} & apart:
            return False
        values = self._values()
        if any((v.shape[outer] > 1) != (v.shape[inner] > 1) for v in values):
            return False
        strides = [v.placed.strides for v in self.sources if v.placed and v.shape[inner] > 1]
        if self.product is not None:
            factors = self.product[1]
            strides += [factors.left.strides, factors.right.strides]
        strides += [target.strides for value, target in results if value.shape[inner] > 1]
        return all(s[outer] == size * s[inner] for s in strides)

    def _source(self, value: Value, kept: list[tuple[int, int, int]]) -> Source:
        placed = value.placed
        assert placed is not None
        return Source(
            tensor=placed.root,
            dtype=value.dtype,
            offset=placed.offset,
            strides=tuple(
                placed.strides[last] if value.shape[last] > 1 else 0 for _, _, last in kept
            )
            or (0,),
        )


def _fits(step: PendingStep) -> bool:
    """Whether the 32 bits of a result are its value: it does not wrap to a narrower type."""
    kind, alu = step.out.kind, step.values.get("alu")
    if kind is DType.I32 or "table" in step.values or alu in (Alu.EQ, Alu.GT, Alu.GE):
        return True
    low, high = RANGES[kind]
    return step.values.get("o_min", low - 1) >= low and step.values.get("o_max", high + 1) <= high


def _register(value: Value, kept: list[tuple[int, int, int]], acc: bool = False) -> Register:
    spans = tuple(value.shape[last] > 1 for _, _, last in kept) or (False,)
    return Register(kind=DType.I32 if acc else value.kind, spans=spans, acc=acc)


def _distinct(params: Sequence[Epilogue]) -> list[Epilogue]:
    return list({id(p): p for p in params}.values())


def _number(
    step: PendingStep,
    number: Mapping[int, int],
    params: Sequence[Epilogue],
    kept: list[tuple[int, int, int]],
) -> FusedStep:
    axis = next((i for i, (_, _, last) in enumerate(kept) if last == step.axis), -1)
    return FusedStep(
        a=number[id(step.a)],
        b=None if step.b is None else number[id(step.b)],
        out=number[id(step.out)],
        values=step.values,
        reduce=step.reduce if axis >= 0 else Reduce.NONE,
        axis=axis,
        lookup=step.lookup,
        params=next((i for i, p in enumerate(_distinct(params)) if p is step.params), -1),
    )


def _broadcast(a: Shape, b: Shape) -> Shape:
    return tuple(max(x, y) for x, y in zip(a, b, strict=True))

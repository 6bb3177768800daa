"""Builds the steps of a MapLayer over TOSA shapes, and merges dimensions that go on regularly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from spec.isa import DType, Reduce, Table
from sw.compiler.layers import DTYPE, View
from sw.compiler.map_layer import MapLayer, Register, Source, Step
from sw.compiler.storage import Placed

Shape = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Value:
    """What a register will hold: elements of type `kind`; `placed`: where a source lies."""

    kind: DType
    shape: Shape
    dtype: str = ""
    placed: Placed | None = None


@dataclass(slots=True, eq=False)
class Draft:
    """A step whose registers have no numbers yet; `values` may still change."""

    a: Value
    b: Value | None
    out: Value
    values: dict[str, int] = field(default_factory=dict)
    reduce: Reduce = Reduce.NONE
    axis: int = -1
    part: tuple[int, int] = (0, 0)
    lookup: int = -1


@dataclass(frozen=True, slots=True)
class Target:
    """Where a result goes: the view of its whole tensor, byte offset and strides by dimension."""

    view: View
    offset: int
    strides: tuple[int, ...]


class MapBuilder:
    """Collects sources and steps; all shapes have the same rank.

    `made`: values by the names of the tensors that they are.
    """

    def __init__(self) -> None:
        self.made: dict[str, Value] = {}
        self.sources: list[Value] = []
        self.steps: list[Draft] = []
        self.tables: dict[bytes, NDArray[Any]] = {}

    def source(self, placed: Placed, dtype: str) -> Value:
        """An operand in memory; the same place twice is one operand."""
        for known in self.sources:
            if known.placed == placed and known.dtype == dtype:
                return known
        value = Value(DTYPE[dtype], placed.shape, dtype, placed)
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
        part: tuple[int, int] = (0, 0),
        values: Mapping[str, int] | None = None,
        **more: int,
    ) -> Value:
        """Append a VECTOR and return its result, of the operands' broadcast shape.

        `values` and `more`: fields of the instruction.
        """
        shape = a.shape if b is None else _broadcast(a.shape, b.shape)
        if axis >= 0:
            shape = (*shape[:axis], 1, *shape[axis + 1 :])
        out = Value(kind, shape)
        self.steps.append(Draft(a, b, out, {**(values or {}), **more}, reduce, axis, part))
        return out

    def look_up(self, step: Draft, table: NDArray[Any], kind: Table) -> None:
        """Let a step look its results up in `table`."""
        key = table.tobytes()
        self.tables.setdefault(key, table)
        step.values["table"] = kind
        step.lookup = list(self.tables).index(key)

    def immediate(self, a: Value, b: int, kind: DType = DType.I32, **values: int) -> Value:
        """A step whose operand B is an 18-bit constant."""
        return self.step(a, None, kind, values={"b_none": 1, "b_zp": -b, **values})

    def layer(self, target: Target, **shared: Any) -> MapLayer:
        """The layer; the last step writes the result to `target`."""
        rank = len(target.strides)
        values = [*self.sources, *(s.out for s in self.steps)]
        shape = tuple(max((v.shape[d] for v in values), default=1) for d in range(rank))
        axes = {s.axis for s in self.steps if s.axis >= 0}
        kept = self._merged(shape, axes, target)
        number, held = self._registers()
        return MapLayer(
            output=target.view,
            shape=tuple(size for size, _, _ in kept) or (1,),
            sources=tuple(self._source(v, kept) for v in self.sources),
            registers=tuple(_register(v, kept) for v in held),
            steps=tuple(_number(s, number, kept) for s in self.steps),
            target_offset=target.offset,
            target_strides=tuple(target.strides[last] for _, _, last in kept) or (0,),
            whole=frozenset(i for i, (_, _, last) in enumerate(kept) if last in axes),
            tables=tuple(self.tables.values()),
            **shared,
        )

    def _registers(self) -> tuple[dict[int, int], list[Value]]:
        """(register of each value, by id; what each register is like): sources, temporaries whose
        registers are used again when nobody needs them, and the result last.
        """
        held = list(self.sources)
        number = {id(v): i for i, v in enumerate(held)}
        uses = {id(v): i for i, s in enumerate(self.steps) for v in (s.a, s.b) if v is not None}
        free: list[int] = []
        for i, step in enumerate(self.steps[:-1]):
            like = (step.out.kind, [n > 1 for n in step.out.shape])
            again = (r for r in free if (held[r].kind, [n > 1 for n in held[r].shape]) == like)
            register = next(again, None)
            if register is None:
                register = len(held)
                held.append(step.out)
            else:
                free.remove(register)
            number[id(step.out)] = register
            for value in {id(v): v for v in (step.a, step.b) if v is not None}.values():
                if uses[id(value)] == i and number[id(value)] >= len(self.sources):
                    free.append(number[id(value)])
        number[id(self.steps[-1].out)] = len(held)
        return number, [*held, self.steps[-1].out]

    def _merged(self, shape: Shape, axes: set[int], target: Target) -> list[tuple[int, int, int]]:
        """(size, first, last dimension) of each run of dimensions that is one."""
        kept: list[tuple[int, int, int]] = []
        for d, size in enumerate(shape):
            if size == 1:
                continue
            if kept and self._joins(kept[-1][2], d, size, axes, target):
                n, first, _ = kept[-1]
                kept[-1] = (n * size, first, d)
            else:
                kept.append((size, d, d))
        return kept

    def _joins(self, outer: int, inner: int, size: int, axes: set[int], target: Target) -> bool:
        if {outer, inner} & axes:
            return False
        values = [*self.sources, *(s.out for s in self.steps)]
        if any((v.shape[outer] > 1) != (v.shape[inner] > 1) for v in values):
            return False
        strides = [v.placed.strides for v in self.sources if v.placed and v.shape[inner] > 1]
        if self.steps[-1].out.shape[inner] > 1:
            strides.append(target.strides)
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


def _register(value: Value, kept: list[tuple[int, int, int]]) -> Register:
    spans = tuple(value.shape[last] > 1 for _, _, last in kept) or (False,)
    return Register(kind=value.kind, spans=spans)


def _number(step: Draft, number: Mapping[int, int], kept: list[tuple[int, int, int]]) -> Step:
    axis = next((i for i, (_, _, last) in enumerate(kept) if last == step.axis), -1)
    return Step(
        a=number[id(step.a)],
        b=None if step.b is None else number[id(step.b)],
        out=number[id(step.out)],
        values=step.values,
        reduce=step.reduce if axis >= 0 else Reduce.NONE,
        axis=axis,
        part=step.part,
        lookup=step.lookup,
    )


def _broadcast(a: Shape, b: Shape) -> Shape:
    return tuple(max(x, y) for x, y in zip(a, b, strict=True))

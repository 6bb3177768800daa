"""Rows of a product in blocks of columns, where they are longer than the accumulator.

A row passes once for each phase, block by block. In a phase the product of a block is computed, and
then the steps that the phase can do: those whose values of a row are known. A reduction leaves a
partial result for each block, and the partial results are reduced at the end of the phase. Softmax
has two phases: the maximum, then exponentials and their sum.

MAX, MIN and SUM of int32 have the same bits in any order, so a row has the bits that it would have
in one piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spec.isa import DType, Reduce
from sw.compiler.kernels.fused.layer import FusedLayer, FusedStep, Register, Result
from sw.compiler.program.records import ArithmeticFields

RESULT_FIELDS = ("o_scale", "o_mult", "o_shift", "o_zp", "o_min", "o_max", "table")
"""What a step does to its result, after a reduction."""

_BEFORE = -1
"""The phase of what is known of a row before its first phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """`columns`: steps of a block. `joins`: reductions of partial results; `rows`: further steps on
    one value a row, once the row has passed. `results`: what the blocks of this phase store.
    """

    columns: tuple[FusedStep, ...]
    joins: tuple[FusedStep, ...]
    rows: tuple[FusedStep, ...]
    results: tuple[Result, ...]

    def reads(self, register: int) -> bool:
        """Whether a step of its blocks reads a register."""
        return any(register in (step.a, step.b) for step in self.columns)

    def writes(self, register: int) -> bool:
        """Whether a step of its blocks writes a register."""
        return any(step.out == register for step in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlocks:
    """`layer`: the same one with registers of their own for what is known of a row.

    `partial`: registers of partial results: of each block what the register spans, one block
    behind the other. `first`: steps on one value a row before the first phase.
    """

    layer: FusedLayer
    partial: frozenset[int]
    first: tuple[FusedStep, ...]
    phases: tuple[Phase, ...]

    def order(self, count: int) -> list[tuple[int, int]]:
        """(phase, block) in the order in which `count` blocks pass: there and back, so that a phase
        begins with the blocks that still lie on chip.
        """
        there = list(range(count))
        return [
            (p, block) for p in range(len(self.phases)) for block in (there, there[::-1])[p % 2]
        ]


def row_blocks(layer: FusedLayer) -> RowBlocks | None:
    """How rows pass in blocks; None if a tile needs more than rows whole, or parameters."""
    last = len(layer.shape) - 1
    if layer.product is None or layer.params or layer.whole != {last}:
        return None
    return _Splitter(layer).run()


class _Splitter:
    """Walks the steps once, and says of each in which phase its result is known."""

    def __init__(self, layer: FusedLayer) -> None:
        self.layer = layer
        self.registers = list(layer.registers)
        self.results = {result.register for result in layer.results}
        # By register: the phase of its value, the step of `columns` that makes it (none: −1), and
        # the register that has its value now.
        self.phase = dict.fromkeys(range(len(self.registers)), _BEFORE)
        self.maker = dict.fromkeys(range(len(self.registers)), -1)
        self.now = {i: i for i in range(len(self.registers))}
        self.columns: list[FusedStep] = []
        self.reads: list[list[int]] = []
        self.phases: list[int] = []
        self.joins: list[tuple[int, FusedStep]] = []
        self.rows: list[tuple[int, FusedStep]] = []
        self.partial: set[int] = set()

    def run(self) -> RowBlocks:
        for step in self.layer.steps:
            self._place(step)
        count = max(self.phases, default=0) + 1
        return RowBlocks(
            layer=replace(self.layer, registers=tuple(self.registers)),
            partial=frozenset(self.partial),
            first=tuple(step for p, step in self.rows if p == _BEFORE),
            phases=tuple(self._phase(p) for p in range(count)),
        )

    def _wide(self, register: int) -> bool:
        return self.registers[register].spans[-1]

    def _place(self, step: FusedStep) -> None:
        read = [i for i in (step.a, step.b) if i is not None]
        new = replace(
            step,
            a=self.now[step.a],
            b=None if step.b is None else self.now[step.b],
        )
        if not any(self._wide(i) for i in read):
            at = max(self.phase[i] for i in read)
            self.rows.append((at, replace(new, out=self._own(step.out))))
            self.phase[step.out] = at
            return
        # A value of the row is known when its phase is over.
        phase = max(self.phase[i] + (not self._wide(i)) for i in read)
        phase = max(phase, 0)
        if step.reduce is not Reduce.NONE:
            new = self._reduction(new, step.out, phase)
        self.columns.append(new)
        self.reads.append([self.maker[i] for i in read if self._wide(i) and self.maker[i] >= 0])
        self.phases.append(phase)
        self.phase[step.out] = phase
        self.maker[step.out] = len(self.columns) - 1

    def _own(self, register: int) -> int:
        """A register of its own for what a step now writes to `register`."""
        if register in self.results:
            return register
        self.registers.append(self.registers[register])
        self.now[register] = len(self.registers) - 1
        return self.now[register]

    def _reduction(self, step: FusedStep, out: int, phase: int) -> FusedStep:
        """The step of a block; what brings the results of blocks together joins the phase."""
        spans = self.registers[out].spans
        self.registers.append(Register(kind=DType.I32, spans=spans))
        partial = len(self.registers) - 1
        self.partial.add(partial)
        join = FusedStep(
            a=partial,
            out=self._own(out),
            values=_fields(step.values, result=True),
            reduce=step.reduce,
            axis=step.axis,
            lookup=step.lookup,
        )
        self.joins.append((phase, join))
        return replace(step, out=partial, values=_fields(step.values, result=False), lookup=-1)

    def _phase(self, phase: int) -> Phase:
        wide = {r for r in self.results if self._wide(r)}
        goals = [
            i
            for i, step in enumerate(self.columns)
            if self.phases[i] == phase and (step.reduce is not Reduce.NONE or step.out in wide)
        ]
        written = {self.columns[i].out for i in goals}
        return Phase(
            columns=tuple(self.columns[i] for i in self._with_makers(goals)),
            joins=tuple(step for p, step in self.joins if p == phase),
            rows=tuple(step for p, step in self.rows if p == phase),
            results=tuple(r for r in self.layer.results if r.register in written),
        )

    def _with_makers(self, goals: Sequence[int]) -> list[int]:
        """The steps and all that make what they read, in order."""
        needed, pending = set(goals), list(goals)
        while pending:
            fresh = [i for i in self.reads[pending.pop()] if i not in needed]
            needed.update(fresh)
            pending += fresh
        return sorted(needed)


def _fields(values: ArithmeticFields, *, result: bool) -> ArithmeticFields:
    """The fields that change a step's result, or the others."""
    chosen = {k: v for k, v in values.items() if (k in RESULT_FIELDS) == result}
    return ArithmeticFields(**chosen)  # type: ignore[typeddict-item]  # a part of its own fields

"""What a kernel did when it was traced: tensors, statements, memories."""

import math
from dataclasses import dataclass, field

from spec.config import NpuConfig
from sw.compiler.program.virtual import Place
from sw.language.errors import AccumulatorFullError, KernelError
from sw.language.layout import Layout
from sw.language.memory import Memory, Piece
from sw.language.source import Line
from sw.language.steps import Step
from sw.language.types import Spec, item_bytes


@dataclass(slots=True, kw_only=True, eq=False)
class Trace:
    """A kernel being traced for `config`. `tensors`: those in memory, by the parameter's name.

    `spread`: blocks of columns in the accumulator lie in banks of their own, where they are few.
    """

    name: str
    config: NpuConfig
    manual: bool
    spread: bool
    line: Line
    tensors: dict[str, Spec] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    loaded: set[str] = field(default_factory=set)
    stored: dict[str, list[Layout]] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the tensors that are not stored to."""
        return tuple(name for name in self.tensors if name not in self.stored)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the tensors that are stored to."""
        return tuple(name for name in self.tensors if name in self.stored)

    def add(self, step: Step) -> None:
        """Append a statement."""
        for piece in step.reads:
            filled = piece.memory.filled
            if filled is not None and not piece.elements(filled).all():
                raise self.error(
                    f"{step.label}: reads {piece}, of which nothing has written "
                    f"{int((~piece.elements(filled)).sum())} elements",
                    step.line,
                    hint="keep(…, into=tile[…]) writes a piece",
                )
        for piece in step.writes:
            if piece.memory.filled is not None:
                piece.elements(piece.memory.filled)[...] = True
        for memory in step.memories:
            memory.touch(len(self.steps))
        self.steps.append(step)

    def scratchpad(
        self,
        dtype: str,
        shape: tuple[int, ...],
        label: str,
        line: Line,
        buffers: int | None = None,
        at: int | None = None,
    ) -> Piece:
        """A new tile in the scratchpad, row after row."""
        layout = Layout.dense(shape, item_bytes(dtype))
        size = layout.shape[0] * layout.whole_strides[0]
        return self._new(Place.SPAD, size, dtype, layout, label, line, buffers, at)

    def accumulator(
        self,
        shape: tuple[int, ...],
        label: str,
        line: Line,
        buffers: int | None = None,
        at: int | None = None,
    ) -> Piece:
        """A new tile of int32 in the accumulator."""
        *outer, last = shape
        cols, bank = self.config.cols, self.config.acc_bank
        rows, blocks = math.prod(outer), -(-last // self.config.cols)
        # Blocks of columns in banks of their own: VECTOR empties one while the array fills another.
        few = 1 < blocks <= self.config.acc_vectors // bank and rows <= bank
        spread = self.spread and at is None and few
        layout = Layout.vectors(shape, cols, bank if spread else rows)
        size, banks = (rows, blocks) if spread else (rows * blocks, 1)
        return self._new(Place.ACC, size, "int32", layout, label, line, buffers, at, banks)

    def _new(
        self,
        place: Place,
        size: int,
        dtype: str,
        layout: Layout,
        label: str,
        line: Line,
        buffers: int | None,
        at: int | None,
        banks: int = 1,
    ) -> Piece:
        whole, unit = self._capacity(place)
        if size > whole:
            kind = AccumulatorFullError if place is Place.ACC else KernelError
            raise kind(
                f"{label} {dtype}{list(layout.shape)} takes {size:,} {unit}, configuration "
                f"{self.config.name} has {whole:,}",
                node=self.name,
                source=str(line),
                hint="cut it into smaller tiles",
            )
        if buffers is not None and buffers < 1:
            raise self.error(f"buffers={buffers}: must be 1 or more", line)
        if at is not None and not 0 <= at <= whole - size:
            raise self.error(
                f"at={at}: {label} takes {size:,} {unit} of {whole:,}: must lie in "
                f"0…{whole - size}",
                line,
            )
        memory = Memory(
            place=place,
            size=size,
            line=line,
            label=label,
            buffers=buffers,
            at=at,
            banks=banks,
        )
        return Piece(memory, dtype, layout)

    def _capacity(self, place: Place) -> tuple[int, str]:
        if place is Place.ACC:
            return self.config.acc_vectors, "vectors of the accumulator"
        return self.config.spad_bytes, "bytes of the scratchpad"

    def error(self, message: str, line: Line, hint: str = "") -> KernelError:
        """An error at a line of this kernel."""
        return KernelError(message, node=self.name, source=str(line), hint=hint)

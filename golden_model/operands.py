"""Where a VECTOR's steps read and write: addresses, lanes in use, inside or not."""

from copy import copy
from dataclasses import dataclass, field

import numpy as np

from golden_model.access import Context
from golden_model.clocks import Timeline
from golden_model.hazards import Span
from golden_model.lanes import Lanes
from golden_model.loops import Bools, Ints, Steps, wrapped_position
from golden_model.program import Plan
from golden_model.state import gather, scatter
from golden_model.widths import CHIP_MASK
from spec.config import PARAM_PARTS
from spec.isa import LOOPS, DType, Space
from spec.numerics import NUMPY

Select = Ints | slice
"""Some of a chunk's steps, ascending; a slice for all of them."""

ALL = slice(None)


class Shape:
    """The steps of a chunk and their lanes.

    lanes: [steps] in use; counts: their distinct values; width: the most lanes of any step of
    the instruction.
    """

    def __init__(self, plan: Plan, steps: Steps, outer_last: bool) -> None:
        v = plan.v
        self.steps = steps
        self.size = steps.size
        self.lanes = np.full(steps.size, v["lanes"])
        self.width: int = v["lanes"]
        loop = v["lane_loop"]
        if loop < LOOPS:
            self.width = max(self.width, v["lanes_last"])
            final = outer_last if loop < plan.level else steps.last[loop - plan.level]
            self.lanes[final] = v["lanes_last"]
        self.counts: list[int] = np.unique(self.lanes).tolist()

    def single(self) -> "Shape":
        """The same steps with one lane each."""
        out = copy(self)
        out.lanes, out.counts, out.width = np.ones_like(self.lanes), [1], 1
        return out

    def classes(self, select: Select) -> list[tuple[int, Select]]:
        """The selected steps by their number of lanes."""
        if len(self.counts) == 1:
            return [(self.counts[0], select)]
        chosen = np.arange(self.size)[select]
        parts = [(n, chosen[self.lanes[chosen] == n]) for n in self.counts]
        return [(n, part) for n, part in parts if part.size]

    def used(self, select: Select) -> Bools | None:
        """[selected steps, width]: lanes in use; None: all of them."""
        if self.counts == [self.width]:
            return None
        return np.arange(self.width) < self.lanes[select, None]


def shape_of(plan: Plan, chunk: int) -> Shape:
    """The steps of chunk `chunk`; chunks of the same shape share it."""
    loop, chunks = plan.v["lane_loop"], plan.chunks
    last = bool(chunks.steps.last[loop, chunk]) if loop < plan.level else False
    key = f"shape {chunks.outer_last[chunk]} {last}"
    found = plan.cache.get(key)
    if not isinstance(found, Shape):
        steps = plan.nest.steps(chunks.outer_last[chunk])
        found = plan.cache[key] = Shape(plan, steps, last)
    return found


@dataclass(slots=True)
class Work:
    """One chunk of a VECTOR in execution.

    shape: the lanes of its operands. results: the lanes of its results. reads: its reads so far,
    with checks on.
    """

    context: Context
    plan: Plan
    chunk: int
    shape: Shape
    results: Shape
    inside: Select
    reads: list[Span] = field(default_factory=list)

    @classmethod
    def begin(cls, context: Context, plan: Plan, chunk: int) -> "Work":
        v, shape = plan.v, shape_of(plan, chunk)
        work = cls(context, plan, chunk, shape, shape.single() if v["reduce_lanes"] else shape, ALL)
        y = wrapped_position(work.offset("dy") + v["y0"])
        x = wrapped_position(work.offset("dx") + v["x0"])
        inside = (y >= 0) & (y < v["height"]) & (x >= 0) & (x < v["width"])
        if not inside.all():
            work.inside = np.flatnonzero(inside)
        return work

    def offset(self, stride: str) -> Ints:
        return self.shape.steps.offset(stride) + self.plan.chunks.offset(stride, self.chunk)

    def addresses(self, operand: str) -> Ints:
        """[steps]: bytes, or accumulator vectors."""
        return (self.offset(operand) + self.plan.v[f"{operand}_base"]) & CHIP_MASK

    def entries(self) -> Ints:
        """[steps]: parameter entries."""
        return (self.offset("param") + self.plan.v["param_base"]) & 0xFFFF

    def zeros(self) -> Lanes:
        return np.zeros((self.shape.size, self.shape.width), np.int32)

    # Reading ------------------------------------------------------------------------------------

    def read_spad(self, operand: str) -> Lanes:
        """A or B from the scratchpad; 0 where not inside."""
        context = self.context
        dtype = DType(self.plan.v[f"{operand}_type"])
        size = dtype.bytes
        address = self.addresses(operand)
        out = self.zeros()
        one = self.plan.v[f"{operand}_one"]
        for n, chosen in [(1, self.inside)] if one else self.shape.classes(self.inside):
            at = address[chosen]
            context.read("spad", at, n * size, Timeline.VECTOR_ISSUE, self.plan.index)
            self._note("spad", chosen, at, n * size)
            values = gather(context.state.spad, at, n * size).view(NUMPY[dtype])
            out[chosen, : self.shape.width if one else n] = values
        return out

    def read_b(self) -> Lanes:
        """B; 0 where not inside, or if there is none."""
        return self.zeros() if self.plan.v["b_none"] else self.read_spad("b")

    def read_acc(self) -> Lanes:
        """A from the accumulator; 0 where not inside."""
        vectors = self.addresses("a")[self.inside]
        self.context.read("acc", vectors, 1, Timeline.VECTOR_ISSUE, self.plan.index)
        self._note("acc", self.inside, vectors, 1)
        out = self.zeros()
        width = 1 if self.plan.v["a_one"] else self.shape.width
        out[self.inside] = self.context.state.acc[vectors, :width]
        return out

    def read_param(self, part: str, select: Select, shape: Shape) -> Ints:
        """[selected steps or 1, width of `shape`]: a part of the parameter entries, as int64."""
        context = self.context
        table, size = context.state.param_parts[part], PARAM_PARTS[part]
        at = context.config.param_offset(part)
        entries = self.entries()
        for n, chosen in shape.classes(select):
            address = entries[chosen] * context.config.param_entry_bytes + at
            context.read_late("param", address, n * size, self.plan.index)
        entries = entries[select]
        low, high = int(entries.min()), int(entries.max())
        rows = table[low : high + 1, : shape.width].astype(np.int64)
        return rows if low == high else rows[entries - low]

    def _note(self, space: str, select: Select, address: Ints, run: int) -> None:
        if self.context.hazards is not None and address.size:
            self.reads.append(Span(space, np.arange(self.shape.size)[select], address, run))

    # Writing ------------------------------------------------------------------------------------

    def write(self, value: Lanes, select: Select) -> None:
        """Write [selected steps, width], each step its lanes."""
        v, state = self.plan.v, self.context.state
        address = self.addresses("o")
        used = self.results.used(select)
        if v["o_space"] == Space.ACC:
            self._check_writes("acc", address, [(1, select)])
            vectors = np.zeros((value.shape[0], self.context.config.cols), np.int32)
            vectors[:, : value.shape[1]] = value if used is None else np.where(used, value, 0)
            state.acc[address[select]] = vectors
            return
        state.lhs_cache.clear()
        dtype = DType(v["o_type"])
        data = value.astype(NUMPY[dtype]).view(np.uint8)
        classes = [(n * dtype.bytes, part) for n, part in self.results.classes(select)]
        self._check_writes("spad", address, classes)
        address = address[select]
        if used is None or len(classes) == 1:
            scatter(state.spad, address, data[:, : classes[0][0]])
        else:
            # Byte by byte in program order: runs of different lengths may overlap.
            keep = np.repeat(used, dtype.bytes, axis=1)
            state.spad[(address[:, None] + np.arange(data.shape[1]))[keep]] = data[keep]

    def _check_writes(self, space: str, address: Ints, runs: list[tuple[int, Select]]) -> None:
        context, index = self.context, self.plan.index
        for run, chosen in runs:
            context.write(space, address[chosen], run, Timeline.VECTOR_DONE, index)
        if context.hazards is not None:
            steps = np.arange(self.shape.size)
            spans = [Span(space, steps[part], address[part], run) for run, part in runs]
            context.in_place(self.reads, spans, Timeline.VECTOR_DONE, index)

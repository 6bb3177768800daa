"""VECTOR: operands, bias, RESCALE, ALU, reduction, clamp, table, result."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from golden_model.access import Context
from golden_model.clocks import Timeline
from golden_model.errors import UndefinedError
from golden_model.hazards import Span
from golden_model.loops import Bools, Ints, signed16
from golden_model.program import Plan
from golden_model.state import windows
from spec.isa import LOOPS, Alu, DType, Reduce, Scale, Space
from spec.numerics import NUMPY, SHIFT_MAX, SHIFT_MIN, apply_scale

Lanes = NDArray[np.int32]
"""[steps, lanes]: everything a VECTOR computes with."""

_MASK = (1 << 24) - 1
_IDENTITY = {Reduce.SUM: 0, Reduce.MAX: -(1 << 31), Reduce.MIN: (1 << 31) - 1}
_COMBINE: dict[Reduce, np.ufunc] = {
    Reduce.SUM: np.add,
    Reduce.MAX: np.maximum,
    Reduce.MIN: np.minimum,
}


@dataclass(slots=True)
class _Work:
    """One chunk: its steps, and for each the lanes in use and whether it lies inside."""

    context: Context
    plan: Plan
    chunk: int
    steps: int
    width: int
    lanes: Ints
    inside: Bools
    reads: list[Span] = field(default_factory=list)

    def offset(self, stride: str) -> Ints:
        chunks = self.plan.chunks
        inner = self.plan.nest.steps(chunks.outer_last[self.chunk]).offset(stride)
        return inner + chunks.offset(stride, self.chunk)

    def addresses(self, operand: str) -> Ints:
        return (self.offset(operand) + self.plan.v[f"{operand}_base"]) & _MASK

    def entries(self, steps: Ints | None = None) -> Ints:
        """Parameter entry of each step (of those named)."""
        entries = (self.offset("param") + self.plan.v["param_base"]) & 0xFFFF
        return entries if steps is None else entries[steps]


class VectorEngine:
    """Executes chunks; between chunks of one reduction it keeps the partial result."""

    def __init__(self) -> None:
        self._partial: Lanes | None = None

    def execute(self, context: Context, plan: Plan, chunk: int) -> None:
        """Execute one chunk of a VECTOR."""
        work = _begin(context, plan, chunk)
        v = plan.v
        value = _operand_a(work)
        if v["alu"] != Alu.PASS:
            value = _alu(Alu(v["alu"]), value, _operand_b(work))
        steps = np.arange(work.steps)
        if v["reduce"] != Reduce.NONE:
            value, steps = self._reduce(work, value)
        if steps.size:
            if v["o_scale"]:
                value = _scale(work, value, "o", steps)
            value = _finish(work, value)
        context.reads_done(Timeline.VECTOR_ISSUE, Timeline.VECTOR_DONE)
        if steps.size:
            _write(work, value, steps)

    def _reduce(self, work: _Work, value: Lanes) -> tuple[Lanes, Ints]:
        """Combine the steps of each group; the step that writes is the last of each."""
        plan = work.plan
        kind = Reduce(plan.v["reduce"])
        combine, identity = _COMBINE[kind], np.int32(_IDENTITY[kind])
        void = ~work.inside[:, None] | (np.arange(value.shape[1]) >= work.lanes[:, None])
        value = np.where(void, identity, value)
        first, last = _group_ends(work)
        begins = np.flatnonzero(first)
        if not begins.size or begins[0] != 0:
            begins = np.concatenate([[0], begins])
        groups = combine.reduceat(value, begins, axis=0, dtype=np.int32)
        if not first[0] and self._partial is not None:
            groups[0] = combine(groups[0], self._partial)
        writes = np.flatnonzero(last)
        self._partial = None if last[-1] else groups[-1].copy()
        return groups[: writes.size], writes


def _begin(context: Context, plan: Plan, chunk: int) -> _Work:
    v, chunks = plan.v, plan.chunks
    steps = plan.nest.steps(chunks.outer_last[chunk])
    lanes = np.full(steps.size, v["lanes"])
    width = v["lanes"]
    if v["lane_loop"] < LOOPS:
        lanes[_in_last(plan, chunk, v["lane_loop"])] = v["lanes_last"]
        width = max(width, v["lanes_last"])
    work = _Work(context, plan, chunk, steps.size, width, lanes, np.ones(0, np.bool_))
    y = signed16(work.offset("dy") + v["y0"])
    x = signed16(work.offset("dx") + v["x0"])
    work.inside = (y >= 0) & (y < v["height"]) & (x >= 0) & (x < v["width"])
    return work


def _in_last(plan: Plan, chunk: int, loop: int) -> Bools:
    """[steps]: is `loop` in its last iteration (7: never)."""
    steps = plan.nest.steps(plan.chunks.outer_last[chunk])
    if loop >= LOOPS:
        return np.zeros(steps.size, np.bool_)
    if loop < plan.level:
        return np.full(steps.size, plan.chunks.steps.last[loop, chunk])
    return steps.last[loop - plan.level]


def _group_ends(work: _Work) -> tuple[Bools, Bools]:
    """[steps]: first and last step of a reduction."""
    plan, chunk = work.plan, work.chunk
    inner = plan.nest.steps(plan.chunks.outer_last[chunk])
    first = np.ones(work.steps, np.bool_)
    last = np.ones(work.steps, np.bool_)
    for loop in range(LOOPS):
        if plan.v["reduce_loops"] >> loop & 1:
            outer = loop < plan.level
            part, at = (plan.chunks.steps, chunk) if outer else (inner, slice(None))
            row = loop if outer else loop - plan.level
            first &= part.index[row, at] == 0
            last &= part.last[row, at]
    return first, last


def _lane_classes(work: _Work, select: Bools | Ints) -> list[tuple[int, Ints]]:
    """Steps (of those selected) by their number of lanes."""
    chosen = np.flatnonzero(select) if select.dtype == np.bool_ else select
    lanes = work.lanes[chosen]
    return [(int(n), chosen[lanes == n]) for n in np.unique(lanes)]


def _fetch(work: _Work, operand: str, dtype: DType) -> Lanes:
    """[steps, lanes] from the scratchpad; 0 where not inside."""
    context, plan = work.context, work.plan
    out = np.zeros((work.steps, work.width), np.int32)
    address = work.addresses(operand)
    for n, chosen in _lane_classes(work, work.inside):
        run = n * dtype.bytes
        context.read("spad", address[chosen], run, Timeline.VECTOR_ISSUE, plan.index)
        work.reads.append(Span("spad", chosen, address[chosen], run))
        raw = windows(context.state.spad, run)[address[chosen]]
        out[chosen, :n] = raw.view(NUMPY[dtype])
    return out


def _operand_a(work: _Work) -> Lanes:
    context, v = work.context, work.plan.v
    if v["a_space"] == Space.ACC:
        value = np.zeros((work.steps, work.width), np.int32)
        inside = np.flatnonzero(work.inside)
        vectors = work.addresses("a")[inside]
        context.read("acc", vectors, 1, Timeline.VECTOR_ISSUE, work.plan.index)
        work.reads.append(Span("acc", inside, vectors, 1))
        value[inside] = context.state.acc[vectors, : value.shape[1]]
    else:
        value = _fetch(work, "a", DType(v["a_type"]))
    value[work.inside] -= np.int32(v["a_zp"])
    if v["bias"]:
        entries = work.entries()
        _read_param(work, entries, 0, 4, np.arange(work.steps))
        value += context.state.bias[entries, : value.shape[1]]
    if v["a_scale"]:
        value = _scale(work, value, "a", np.arange(work.steps))
    return value


def _operand_b(work: _Work) -> Lanes:
    v = work.plan.v
    value = _fetch(work, "b", DType(v["b_type"]))
    value[work.inside] -= np.int32(v["b_zp"])
    if v["b_scale"]:
        value = _scale(work, value, "b", np.arange(work.steps))
    return value


def _alu(kind: Alu, a: Lanes, b: Lanes) -> Lanes:
    if kind is Alu.ADD:
        return a + b
    if kind is Alu.SUB:
        return a - b
    return np.minimum(a, b) if kind is Alu.MIN else np.maximum(a, b)


def _scale(work: _Work, value: Lanes, operand: str, steps: Ints) -> Lanes:
    """RESCALE of [len(steps), lanes] by the tensor's or the channels' multiplier and shift."""
    v, state = work.plan.v, work.context.state
    if v[f"{operand}_scale"] == Scale.TENSOR:
        scaled = apply_scale(value.astype(np.int64), v[f"{operand}_mult"], v[f"{operand}_shift"])
        return scaled.astype(np.int32)
    cols, lanes = work.context.config.cols, value.shape[1]
    entries = work.entries(steps)
    _read_param(work, entries, 4 * cols, 4, steps)
    _read_param(work, entries, 8 * cols, 1, steps)
    shift = state.shift[entries, :lanes].astype(np.int64)
    bad = (shift < SHIFT_MIN) | (shift > SHIFT_MAX)
    unused = np.arange(lanes) >= work.lanes[steps][:, None]
    if (bad & ~unused).any():
        step, lane = map(int, np.argwhere(bad & ~unused)[0])
        raise UndefinedError(
            f"vector at instruction {work.plan.index}: parameter entry {entries[step]} lane {lane} "
            f"has shift {shift[step, lane]}, legal is {SHIFT_MIN}…{SHIFT_MAX}"
        )
    shift[bad] = SHIFT_MIN
    multiplier = state.multiplier[entries, :lanes].astype(np.int64)
    return apply_scale(value.astype(np.int64), multiplier, shift).astype(np.int32)


def _read_param(work: _Work, entries: Ints, at: int, size: int, steps: Ints) -> None:
    address = entries * work.context.config.param_entry_bytes + at
    for n in np.unique(work.lanes[steps]):
        chosen = address[work.lanes[steps] == n]
        run = int(n) * size
        work.context.read("param", chosen, run, Timeline.VECTOR_ISSUE, work.plan.index)


def _finish(work: _Work, value: Lanes) -> Lanes:
    """Zero point, clamp, table."""
    v = work.plan.v
    value = np.minimum(np.maximum(value + np.int32(v["o_zp"]), v["o_min"]), v["o_max"])
    if v["table"]:
        table = work.context.state.table
        whole = np.zeros(1, np.int64)
        work.context.read("table", whole, table.size, Timeline.VECTOR_ISSUE, work.plan.index)
        value = table.view(np.int8)[(value + 128) & 0xFF].astype(np.int32)
    return value


def _write(work: _Work, value: Lanes, steps: Ints) -> None:
    """Write [len(steps), width], the results of the steps named."""
    context, v, state = work.context, work.plan.v, work.context.state
    address, lanes = work.addresses("o")[steps], work.lanes[steps]
    used = np.arange(value.shape[1]) < lanes[:, None]
    if v["o_space"] == Space.ACC:
        _check_writes(work, [Span("acc", steps, address, 1)])
        vectors = np.zeros((steps.size, context.config.cols), np.int32)
        vectors[:, : value.shape[1]] = np.where(used, value, 0)
        state.acc[address] = vectors
        return
    size = DType(v["o_type"]).bytes
    data = value.astype(NUMPY[DType(v["o_type"])]).view(np.uint8)
    counts = np.unique(lanes).tolist()
    classes = [(lanes == n, n * size) for n in counts]
    _check_writes(work, [Span("spad", steps[c], address[c], run) for c, run in classes])
    if len(counts) == 1:
        run = counts[0] * size
        windows(state.spad, run)[address] = data[:, :run]
    else:
        # Byte by byte in program order: runs of different lengths may overlap.
        keep = np.repeat(used, size, axis=1)
        state.spad[(address[:, None] + np.arange(data.shape[1]))[keep]] = data[keep]


def _check_writes(work: _Work, spans: list[Span]) -> None:
    context, index = work.context, work.plan.index
    for span in spans:
        context.write(span.space, span.address, span.run, Timeline.VECTOR_DONE, index)
    context.in_place(work.reads, spans, Timeline.VECTOR_DONE, index)

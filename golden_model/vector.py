"""VECTOR: what happens to the lanes of a chunk's steps, from bias to clamp and table."""

import numpy as np

from golden_model import vector_boxes
from golden_model.access import Context
from golden_model.clocks import Timeline
from golden_model.errors import UndefinedError
from golden_model.lanes import ALU, COMBINE, IDENTITY, Lanes, clamp_and_shift, finish, rescale
from golden_model.loops import Bools
from golden_model.operands import ALL, Select, Work
from golden_model.program import Plan
from spec.isa import LOOPS, Alu, Reduce, Scale, Space
from spec.numerics import SHIFT_MAX, SHIFT_MIN


class VectorEngine:
    """Executes chunks; between chunks of one reduction it keeps the partial result."""

    def __init__(self) -> None:
        self._partial: Lanes | None = None

    def execute(self, context: Context, plan: Plan, chunk: int) -> None:
        """Execute one chunk of a VECTOR."""
        if vector_boxes.execute(context, plan, chunk):
            return
        v = plan.v
        work = Work.begin(context, plan, chunk)
        value = _operand_a(work)
        if v["alu"] != Alu.PASS:
            value = ALU[Alu(v["alu"])](value, _operand_b(work))
        select: Select = ALL
        if v["reduce"] != Reduce.NONE:
            value, select = self._reduce(work, value)
        if value.shape[0]:
            value = _scale(work, value, "o", select)
            if v["table"]:
                whole = np.zeros(1, np.int64)
                context.read_late("table", whole, context.state.table.size, plan.index)
            value = finish(v, value, context.state.table)
        context.reads_done(Timeline.VECTOR_ISSUE, Timeline.VECTOR_DONE)
        if value.shape[0]:
            work.write(value, select)

    def _reduce(self, work: Work, value: Lanes) -> tuple[Lanes, Select]:
        """Combine the steps of each group; the step that writes is the last of each."""
        kind = Reduce(work.plan.v["reduce"])
        combine, identity = COMBINE[kind], np.int32(IDENTITY[kind])
        if not isinstance(work.inside, slice):
            inside = np.zeros(work.shape.size, np.bool_)
            inside[work.inside] = True
            value = np.where(inside[:, None], value, identity)
        first, last = _group_ends(work)
        begins = np.flatnonzero(first)
        if not first[0]:
            begins = np.concatenate([[0], begins])
        groups = combine.reduceat(value, begins, axis=0, dtype=np.int32)
        if not first[0] and self._partial is not None:
            groups[0] = combine(groups[0], self._partial)
        writes = np.flatnonzero(last)
        self._partial = None if last[-1] else groups[-1].copy()
        return groups[: writes.size], writes


def _group_ends(work: Work) -> tuple[Bools, Bools]:
    """[steps]: first and last step of a reduction."""
    plan, steps = work.plan, work.shape.steps
    first = np.ones(steps.size, np.bool_)
    last = np.ones(steps.size, np.bool_)
    for loop in range(LOOPS):
        if plan.v["reduce_loops"] >> loop & 1:
            if loop < plan.level:
                first &= plan.chunks.steps.index[loop, work.chunk] == 0
                last &= plan.chunks.steps.last[loop, work.chunk]
            else:
                first &= steps.index[loop - plan.level] == 0
                last &= steps.last[loop - plan.level]
    return first, last


def _operand_a(work: Work) -> Lanes:
    v = work.plan.v
    value = work.read_acc() if v["a_space"] == Space.ACC else work.read_spad("a")
    _subtract(work, value, v["a_zp"])
    if v["bias"]:
        value += work.read_param(work.context.state.bias, 0, ALL).astype(np.int32)
    value = _scale(work, value, "a", ALL)
    return clamp_and_shift(v, value)


def _operand_b(work: Work) -> Lanes:
    value = work.read_spad("b")
    _subtract(work, value, work.plan.v["b_zp"])
    return _scale(work, value, "b", ALL)


def _subtract(work: Work, value: Lanes, zero_point: int) -> None:
    """Steps that are not inside stay 0."""
    if zero_point:
        value[work.inside] -= np.int32(zero_point)


def _scale(work: Work, value: Lanes, operand: str, select: Select) -> Lanes:
    """RESCALE of the selected steps by the tensor's or the channels' multiplier and shift."""
    v, state = work.plan.v, work.context.state
    kind = v[f"{operand}_scale"]
    if kind == Scale.OFF:
        return value
    if kind == Scale.TENSOR:
        return rescale(value, v[f"{operand}_mult"], v[f"{operand}_shift"])
    cols = work.context.config.cols
    multiplier = work.read_param(state.multiplier, 4 * cols, select)
    shift = work.read_param(state.shift, 8 * cols, select)
    illegal = (shift < SHIFT_MIN) | (shift > SHIFT_MAX)
    if illegal.any():
        used = work.shape.used(select)
        bad = np.argwhere(illegal if used is None else illegal & used)
        if bad.size:
            step, lane = bad[0].tolist()
            shown = np.broadcast_to(shift, value.shape)[step, lane]
            raise UndefinedError(
                f"vector at instruction {work.plan.index}: parameter entry "
                f"{work.entries()[select][step]} lane {lane} has shift {shown}, "
                f"legal is {SHIFT_MIN}…{SHIFT_MAX}"
            )
        shift = np.where(illegal, SHIFT_MIN, shift)
    return rescale(value, multiplier, shift)

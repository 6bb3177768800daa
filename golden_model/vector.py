"""VECTOR: what happens to the lanes of a chunk's steps, from bias to clamp and table."""

import numpy as np

from golden_model.access import Context
from golden_model.clocks import Timeline
from golden_model.errors import UndefinedError
from golden_model.loops import Bools
from golden_model.operands import ALL, Lanes, Select, Work
from golden_model.program import Plan
from spec.isa import LOOPS, Alu, Reduce, Scale, Space
from spec.numerics import SHIFT_MAX, SHIFT_MIN, apply_scale

_IDENTITY = {Reduce.SUM: 0, Reduce.MAX: -(1 << 31), Reduce.MIN: (1 << 31) - 1}
_COMBINE: dict[Reduce, np.ufunc] = {
    Reduce.SUM: np.add,
    Reduce.MAX: np.maximum,
    Reduce.MIN: np.minimum,
}
_ALU: dict[Alu, np.ufunc] = {
    Alu.ADD: np.add,
    Alu.SUB: np.subtract,
    Alu.MIN: np.minimum,
    Alu.MAX: np.maximum,
}


class VectorEngine:
    """Executes chunks; between chunks of one reduction it keeps the partial result."""

    def __init__(self) -> None:
        self._partial: Lanes | None = None

    def execute(self, context: Context, plan: Plan, chunk: int) -> None:
        """Execute one chunk of a VECTOR."""
        v = plan.v
        work = Work.begin(context, plan, chunk)
        value = _operand_a(work)
        if v["alu"] != Alu.PASS:
            value = _ALU[Alu(v["alu"])](value, _operand_b(work))
        select: Select = ALL
        if v["reduce"] != Reduce.NONE:
            value, select = self._reduce(work, value)
        if value.shape[0]:
            value = _finish(work, _scale(work, value, "o", select))
        context.reads_done(Timeline.VECTOR_ISSUE, Timeline.VECTOR_DONE)
        if value.shape[0]:
            work.write(value, select)

    def _reduce(self, work: Work, value: Lanes) -> tuple[Lanes, Select]:
        """Combine the steps of each group; the step that writes is the last of each."""
        kind = Reduce(work.plan.v["reduce"])
        combine, identity = _COMBINE[kind], np.int32(_IDENTITY[kind])
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
    if v["a_clamp"]:
        value = np.minimum(np.maximum(value, np.int32(v["a_min"])), np.int32(v["a_max"]))
    return value << np.int32(v["a_shl"]) if v["a_shl"] else value


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
        return apply_scale(
            value.astype(np.int64), v[f"{operand}_mult"], v[f"{operand}_shift"]
        ).astype(np.int32)
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
    return apply_scale(value.astype(np.int64), multiplier, shift).astype(np.int32)


def _finish(work: Work, value: Lanes) -> Lanes:
    """Zero point, clamp, table."""
    v = work.plan.v
    value = np.minimum(np.maximum(value + np.int32(v["o_zp"]), v["o_min"]), v["o_max"])
    if v["table"]:
        table = work.context.state.table
        whole = np.zeros(1, np.int64)
        work.context.read_late("table", whole, table.size, work.plan.index)
        value = table.view(np.int8)[(value + 128) & 0xFF].astype(np.int32)
    return value

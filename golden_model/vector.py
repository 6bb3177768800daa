"""VECTOR: what happens to the lanes of a chunk's steps, from bias to clamp and table."""

import numpy as np

from golden_model import vector_boxes
from golden_model.access import Context
from golden_model.clocks import Timeline
from golden_model.errors import UndefinedError
from golden_model.lanes import (
    COMBINE,
    IDENTITY,
    Lanes,
    alu,
    clamp_and_shift,
    finish,
    rescale,
    table_bytes,
    times,
)
from golden_model.loops import Bools
from golden_model.operands import ALL, Select, Work
from golden_model.program import Plan
from spec.exhaustive import handles
from spec.isa import LOOPS, Alu, Reduce, Scale, Space, uses_b
from spec.numerics import SHIFT_MAX, SHIFT_MIN

handles("golden_model.vector", Scale, Scale.OFF, Scale.TENSOR, Scale.CHANNEL, Scale.OPERAND)
handles("golden_model.vector", Space, Space.SPAD, Space.ACC, Space.PARAM, Space.TABLE)


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
        a = work.read_acc() if v["a_space"] == Space.ACC else work.read_spad("a")
        b = work.read_b() if uses_b(v) else None
        value = _combine(work, a, b)
        select: Select = ALL
        if v["reduce"] != Reduce.NONE:
            value, select = self._reduce(work, value)
        if value.shape[0]:
            value = _scale(work, value, "o", select)
            if v["table"]:
                whole = np.zeros(1, np.int64)
                context.read_late(
                    "table", whole, table_bytes(v, context.config.table_bytes), plan.index
                )
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
        across = work.plan.v["reduce_lanes"]
        if across and (used := work.shape.used(ALL)) is not None:
            value = np.where(used, value, identity)
        first, last = _group_ends(work)
        begins = np.flatnonzero(first)
        if not first[0]:
            begins = np.concatenate([[0], begins])
        groups = combine.reduceat(value, begins, axis=0, dtype=np.int32)
        if not first[0] and self._partial is not None:
            groups[0] = combine(groups[0], self._partial)
        writes = np.flatnonzero(last)
        self._partial = None if last[-1] else groups[-1].copy()
        results = groups[: writes.size]
        if across:
            results = combine.reduce(results, axis=1, dtype=np.int32, keepdims=True)
        return results, writes


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


def _combine(work: Work, a: Lanes, b: Lanes | None) -> Lanes:
    """v of the operands as they were read."""
    v = work.plan.v
    _subtract(work, a, v["a_zp"])
    if v["bias"]:
        a += work.read_param("bias", ALL, work.shape).astype(np.int32)
    if b is not None:
        _subtract(work, b, v["b_zp"])
    if v["a_scale"] == Scale.OPERAND and b is not None:
        a = times(a, b, v["a_shift"])
    else:
        a = _scale(work, a, "a", ALL)
    if b is not None and not Alu(v["alu"]).unary:
        b = _scale(work, b, "b", ALL)
    return alu(Alu(v["alu"]), clamp_and_shift(v, a), b)


def _subtract(work: Work, value: Lanes, zero_point: int) -> None:
    """Steps that are not inside stay 0."""
    if zero_point:
        value[work.inside] -= np.int32(zero_point)


def _scale(work: Work, value: Lanes, operand: str, select: Select) -> Lanes:
    """RESCALE of the selected steps by the tensor's or the channels' multiplier and shift."""
    v = work.plan.v
    kind = v[f"{operand}_scale"]
    if kind == Scale.OFF:
        return value
    if kind == Scale.TENSOR:
        return rescale(value, v[f"{operand}_mult"], v[f"{operand}_shift"])
    assert kind == Scale.CHANNEL
    shape = work.results if operand == "o" else work.shape
    multiplier = work.read_param("multiplier", select, shape)
    shift = work.read_param("shift", select, shape)
    illegal = (shift < SHIFT_MIN) | (shift > SHIFT_MAX)
    if illegal.any():
        used = shape.used(select)
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

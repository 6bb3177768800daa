"""LOAD and STORE: runs of bytes between memory and chip."""

from dataclasses import dataclass

import numpy as np

from golden_model.access import Context
from golden_model.boxes import Walk, boxes, disjoint, view
from golden_model.clocks import Timeline
from golden_model.lefts import Lefts
from golden_model.loops import Ints
from golden_model.program import Plan
from golden_model.state import Bytes, gather, mark, scatter
from spec.isa import Space

_CHIP_MASK = (1 << 24) - 1
_MEMORY_MASK = (1 << 40) - 1


def load(context: Context, plan: Plan, chunk: int) -> None:
    """Execute one chunk of a LOAD."""
    v, state = plan.v, context.state
    if v["space"] == Space.PARAM:
        state.parameters.clear()
    space = Space(v["space"]).name.lower()
    target: Bytes = getattr(state, space)
    if context.hazards is None:
        lefts = state.lefts if v["space"] == Space.SPAD else None
        if _strided(plan, chunk, state.memory[v["region"]], target, True, lefts):
            return
    run = v["run"]
    chip = _addresses(plan, chunk, "chip_base", "chip", _CHIP_MASK)
    state.lefts.clear()
    if not v["fill"]:
        region = v["region"]
        source = _addresses(plan, chunk, "mem_base", "mem", _MEMORY_MASK)
        context.memory_read(region, source, run, plan.index)
    context.reads_done(Timeline.LOAD_ISSUE, Timeline.LOAD_DONE)
    context.write(space, chip, run, Timeline.LOAD_DONE, plan.index)
    if v["fill"]:
        mark(target, chip, run, v["fill_value"])
    else:
        _copy(state.memory[region], source, target, chip, run)


def store(context: Context, plan: Plan, chunk: int) -> None:
    """Execute one chunk of a STORE."""
    v, state = plan.v, context.state
    target = state.memory[v["region"]]
    if context.hazards is None and _strided(plan, chunk, target, state.spad, False, None):
        return
    run = v["run"]
    chip = _addresses(plan, chunk, "chip_base", "chip", _CHIP_MASK)
    context.read("spad", chip, run, Timeline.STORE_ISSUE, plan.index)
    to = _addresses(plan, chunk, "mem_base", "mem", _MEMORY_MASK)
    context.reads_done(Timeline.STORE_ISSUE, Timeline.STORE_DONE)
    context.memory_write(v["region"], to, run, plan.index)
    _copy(state.spad, chip, target, to, run)


# Any addresses ------------------------------------------------------------------------------------


def _addresses(plan: Plan, chunk: int, base: str, stride: str, mask: int) -> Ints:
    chunks = plan.chunks
    inner = plan.nest.steps(chunks.outer_last[chunk]).offset(stride)
    return (inner + (plan.v[base] + chunks.offset(stride, chunk))) & mask


def _copy(source: Bytes, at: Ints, target: Bytes, to: Ints, run: int) -> None:
    if at.size == 1:
        a, b = int(at[0]), int(to[0])
        target[b : b + run] = source[a : a + run]
    else:
        scatter(target, to, gather(source, at, run))


# Strided ones -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Move:
    """A box of runs: `shape` and both sides' strides have the bytes of a run last."""

    shape: tuple[int, ...]
    mem: Walk
    chip: Walk


def _moves(plan: Plan, outer_last: bool) -> list[_Move]:
    """The boxes of a chunk; none if the order matters in which its runs are written."""
    key = ("moves", outer_last)
    if key not in plan.cache:
        run, loops = plan.v["run"], plan.loops[plan.level :]
        target = "mem" if "space" not in plan.v else "chip"
        most = [max(loop["count"], loop["last"]) for loop in loops]
        strides = [loop[target] if n > 1 else 0 for loop, n in zip(loops, most, strict=True)]
        moving = [(n, s) for n, s in zip(most, strides, strict=True) if n > 1]
        plan.cache[key] = []
        if disjoint([n for n, _ in moving], [s for _, s in moving], run):
            plan.cache[key] = [
                _Move((*box.shape, run), box.walk("mem"), box.walk("chip"))
                for box in boxes(loops, outer_last)
            ]
    return plan.cache[key]


def _strided(
    plan: Plan, chunk: int, memory: Bytes, chip: Bytes, load: bool, lefts: Lefts | None
) -> bool:
    """Move a chunk's runs by strided views; False, and nothing done, where that cannot be."""
    v, chunks = plan.v, plan.chunks
    moves, run, fill = _moves(plan, chunks.outer_last[chunk]), v["run"], load and v["fill"]
    mem_base = v["mem_base"] + chunks.offset("mem", chunk)
    chip_base = v["chip_base"] + chunks.offset("chip", chunk)
    for move in moves:
        low, high = chip_base + move.chip.low, chip_base + move.chip.high
        if low < 0 or high + run > chip.size:
            return False
        low, high = mem_base + move.mem.low, mem_base + move.mem.high
        if not fill and (low < 0 or high + run > memory.size):
            return False
    for move in moves:
        strides = (*move.chip.strides, 1)
        inside = view(chip, chip_base + move.chip.offset, move.shape, strides, np.uint8)
        if lefts is not None:
            lefts.written(chip_base + move.chip.low, chip_base + move.chip.high + run)
        if fill:
            inside[...] = v["fill_value"]
            continue
        strides = (*move.mem.strides, 1)
        outside = view(memory, mem_base + move.mem.offset, move.shape, strides, np.uint8)
        if load:
            inside[...] = outside
        else:
            outside[...] = inside
    return bool(moves)

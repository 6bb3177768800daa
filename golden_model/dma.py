"""LOAD and STORE: runs of bytes between memory and chip."""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from golden_model.access import Context
from golden_model.boxes import Walk, boxes, disjoint, view
from golden_model.clocks import Timeline
from golden_model.hazards import Span
from golden_model.loops import Bools, Ints
from golden_model.program import Plan
from golden_model.regions import Region, region
from golden_model.state import Bytes, gather, mark, scatter
from golden_model.widths import CHIP_MASK, MEMORY_MASK
from spec.isa import INDEX_BYTES, Space
from spec.program import REGION_OUTPUT


def load(context: Context, plan: Plan, chunk: int) -> None:
    """Execute one chunk of a LOAD."""
    v, state = plan.v, context.state
    if v["space"] == Space.PARAM:
        state.parameters.clear()
    if _strided(context, plan, chunk, load=True):
        return
    state.lhs_cache.clear()
    run, space = v["run"], Space(v["space"])
    chip = _addresses(plan, chunk, "chip_base", "chip", CHIP_MASK)
    indices: list[Span] = []
    if not v["fill"]:
        number = v["region"]
        source = _addresses(plan, chunk, "mem_base", "mem", MEMORY_MASK)
        at: Ints | None = None
        if v["indexed"]:
            source, indices, at = _indexed(context, plan, chunk, source, Timeline.LOAD_ISSUE)
        _check_runs(context, plan, space, chip, source, at, Timeline.LOAD_ISSUE)
        context.memory_read(number, source, run, plan.index)
    context.reads_done(Timeline.LOAD_ISSUE, Timeline.LOAD_DONE)
    context.write(space.name.lower(), chip, run, Timeline.LOAD_DONE, plan.index)
    if indices:
        written = [Span("spad", np.arange(chip.size), chip, run)]
        context.in_place(indices, written, Timeline.LOAD_DONE, plan.index)
    target = state.bytes_of(space)
    if v["fill"]:
        mark(target, chip, run, v["fill_value"])
    else:
        _copy(state.memory[number], source, target, chip, run)


def store(context: Context, plan: Plan, chunk: int) -> None:
    """Execute one chunk of a STORE."""
    if _strided(context, plan, chunk, load=False):
        return
    v, state = plan.v, context.state
    run = v["run"]
    chip = _addresses(plan, chunk, "chip_base", "chip", CHIP_MASK)
    target = _addresses(plan, chunk, "mem_base", "mem", MEMORY_MASK)
    at: Ints | None = None
    if v["indexed"]:
        target, _, at = _indexed(context, plan, chunk, target, Timeline.STORE_ISSUE)
    _check_runs(context, plan, Space.SPAD, chip, target, at, Timeline.STORE_ISSUE)
    context.read("spad", chip, run, Timeline.STORE_ISSUE, plan.index)
    context.reads_done(Timeline.STORE_ISSUE, Timeline.STORE_DONE)
    context.memory_write(v["region"], target, run, plan.index)
    _copy(state.spad, chip, state.memory[v["region"]], target, run)
    if v["region"] == REGION_OUTPUT and state.written is not None:
        mark(state.written, target, run, 1)


# Any addresses ------------------------------------------------------------------------------------


def _addresses(plan: Plan, chunk: int, base: str, stride: str, mask: int) -> Ints:
    chunks = plan.chunks
    inner = plan.nest.steps(chunks.outer_last[chunk]).offset(stride)
    return (inner + (plan.v[base] + chunks.offset(stride, chunk))) & mask


def _check_runs(
    context: Context,
    plan: Plan,
    space: Space,
    chip: Ints,
    memory: Ints,
    at: Ints | None,
    timeline: Timeline,
) -> None:
    """Fault for the first run that leaves the chip's memory or else its region.

    at: where the runs' indices are, if they have any.
    """
    run, index, number = plan.v["run"], plan.index, plan.v["region"]
    off_chip = chip + run > context.state.bytes_of(space).size
    astray = at is not None and _astray(context, at)
    bad = off_chip | astray | (memory + run > context.state.memory[number].size)
    if not bad.any():
        return
    first = slice(int(np.argmax(bad)), int(np.argmax(bad)) + 1)
    context.bounds(space.name.lower(), chip[first], run, timeline, index)
    if at is not None:
        context.bounds("spad", at[first], INDEX_BYTES, timeline, index)
    context.memory_bounds(number, memory[first], run, timeline, index)


def _astray(context: Context, at: Ints) -> Bools:
    """Which indices do not lie in the scratchpad."""
    return at + INDEX_BYTES > context.state.spad.size


def _indexed(
    context: Context, plan: Plan, chunk: int, address: Ints, timeline: Timeline
) -> tuple[Ints, list[Span], Ints | None]:
    """Memory addresses with their indices added; the reads of indices that took; where they are.

    The address of a run whose index is not in the scratchpad means nothing: it is a fault.
    """
    if plan.level and plan.chunks.starts[chunk] > 1:
        # Amidst an iteration of loop 0: its index has been read, and may have changed since.
        return (address + context.indices[timeline]) & MEMORY_MASK, [], None
    inner = plan.nest.steps(plan.chunks.outer_last[chunk])
    number = np.zeros(inner.size, np.int64)
    number += plan.chunks.steps.index[0, chunk] if plan.level else inner.index[0]
    at = (plan.v["index_base"] + INDEX_BYTES * number) & CHIP_MASK
    first = np.flatnonzero(np.diff(at, prepend=-1))
    if _astray(context, at).any():
        legal = np.minimum(at, context.state.spad.size - INDEX_BYTES)
    else:
        legal = at
        context.read("spad", at[first], INDEX_BYTES, timeline, plan.index)
    words = gather(context.state.spad, legal, INDEX_BYTES)
    offset = words.view(f"<i{INDEX_BYTES}")[:, 0].astype(np.int64)
    context.indices[timeline] = int(offset[-1])
    spans = [Span("spad", first, at[first], INDEX_BYTES)]
    return (address + offset) & MEMORY_MASK, spans, at


def _copy(source: Bytes, at: Ints, target: Bytes, to: Ints, run: int) -> None:
    if at.size == 1:
        a, b = int(at[0]), int(to[0])
        target[b : b + run] = source[a : a + run]
    else:
        scatter(target, to, gather(source, at, run))


# Strided ones -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Moves:
    """The boxes of a chunk: `shapes` and both sides' walks; the bytes of a run come last.

    The walks are empty if the order matters in which the runs are written.
    """

    shapes: list[tuple[int, ...]]
    mem: list[Walk]
    chip: list[Walk]
    mem_region: Region
    chip_region: Region


def _moves(plan: Plan, outer_last: bool) -> _Moves:
    key = ("moves", outer_last)
    if key not in plan.cache:
        run, loops = plan.v["run"], plan.loops[plan.level :]
        target = "mem" if "space" not in plan.v else "chip"
        most = [(max(loop["count"], loop["last"]), loop[target]) for loop in loops]
        moving = [(n, stride) for n, stride in most if n > 1]
        found = []
        if disjoint([n for n, _ in moving], [stride for _, stride in moving], run):
            found = boxes(loops, outer_last)
        mem, chip = ([box.walk(side) for box in found] for side in ("mem", "chip"))
        plan.cache[key] = _Moves(
            [(*box.shape, run) for box in found],
            mem,
            chip,
            reduce(Region.__or__, (region(walk, run) for walk in mem), Region()),
            reduce(Region.__or__, (region(walk, run) for walk in chip), Region()),
        )
    found_moves: _Moves = plan.cache[key]
    return found_moves


def _strided(context: Context, plan: Plan, chunk: int, load: bool) -> bool:
    """Move a chunk's runs by strided views; False, and nothing done, where that cannot be."""
    v, chunks, state = plan.v, plan.chunks, context.state
    if v["indexed"]:
        return False
    moves, run = _moves(plan, chunks.outer_last[chunk]), v["run"]
    space, fill = (Space(v["space"]), v["fill"]) if load else (Space.SPAD, 0)
    memory, chip = state.memory[v["region"]], state.bytes_of(space)
    at = v["mem_base"] + chunks.offset("mem", chunk)
    to = v["chip_base"] + chunks.offset("chip", chunk)
    if not all(to + w.low >= 0 and to + w.high + run <= chip.size for w in moves.chip):
        return False
    if not fill and not all(
        at + w.low >= 0 and at + w.high + run <= memory.size for w in moves.mem
    ):
        return False
    if context.hazards is not None and moves.shapes:
        _check(context, plan, moves, at, to, space if load else None)
    for shape, outer, inner in zip(moves.shapes, moves.mem, moves.chip, strict=True):
        inside = view(chip, to + inner.offset, shape, (*inner.strides, 1), np.uint8)
        if load and space is Space.SPAD:
            state.lhs_cache.written(to + inner.low, to + inner.high + run)
        if fill:
            inside[...] = v["fill_value"]
            continue
        outside = view(memory, at + outer.offset, shape, (*outer.strides, 1), np.uint8)
        if load:
            inside[...] = outside
        else:
            outside[...] = inside
            if v["region"] == REGION_OUTPUT and state.written is not None:
                view(state.written, at + outer.offset, shape, outside.strides, np.uint8)[...] = 1
    return bool(moves.shapes)


def _check(
    context: Context, plan: Plan, moves: _Moves, at: int, to: int, space: Space | None
) -> None:
    """space: where a LOAD writes; None for a STORE."""
    v, index = plan.v, plan.index
    if space is None:
        context.reads("spad", moves.chip_region, to, Timeline.STORE_ISSUE, index)
        context.reads_done(Timeline.STORE_ISSUE, Timeline.STORE_DONE)
        context.memory_writes(v["region"], moves.mem_region, at, index)
        return
    if not v["fill"]:
        context.memory_reads(v["region"], moves.mem_region, at, index)
    context.reads_done(Timeline.LOAD_ISSUE, Timeline.LOAD_DONE)
    name = space.name.lower()
    context.writes(name, moves.chip_region, to, Timeline.LOAD_DONE, index)

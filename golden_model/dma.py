"""LOAD and STORE: runs of bytes between memory and chip."""

from golden_model.access import Context
from golden_model.clocks import Timeline
from golden_model.loops import Ints
from golden_model.program import Plan
from golden_model.state import Bytes, gather, mark, scatter
from spec.isa import Space

_CHIP_MASK = (1 << 24) - 1
_MEMORY_MASK = (1 << 40) - 1


def _addresses(plan: Plan, chunk: int, base: str, stride: str, mask: int) -> Ints:
    chunks = plan.chunks
    inner = plan.nest.steps(chunks.outer_last[chunk]).offset(stride)
    return (inner + (plan.v[base] + chunks.offset(stride, chunk))) & mask


def load(context: Context, plan: Plan, chunk: int) -> None:
    """Execute one chunk of a LOAD."""
    v, state = plan.v, context.state
    run = v["run"]
    chip = _addresses(plan, chunk, "chip_base", "chip", _CHIP_MASK)
    space = Space(v["space"]).name.lower()
    if not v["fill"]:
        region = v["region"]
        source = _addresses(plan, chunk, "mem_base", "mem", _MEMORY_MASK)
        context.memory_read(region, source, run, plan.index)
    context.reads_done(Timeline.LOAD_ISSUE, Timeline.LOAD_DONE)
    context.write(space, chip, run, Timeline.LOAD_DONE, plan.index)
    target: Bytes = getattr(state, space)
    if v["fill"]:
        mark(target, chip, run, v["fill_value"])
    else:
        _copy(state.memory[region], source, target, chip, run)


def store(context: Context, plan: Plan, chunk: int) -> None:
    """Execute one chunk of a STORE."""
    v, state = plan.v, context.state
    run = v["run"]
    chip = _addresses(plan, chunk, "chip_base", "chip", _CHIP_MASK)
    context.read("spad", chip, run, Timeline.STORE_ISSUE, plan.index)
    target = _addresses(plan, chunk, "mem_base", "mem", _MEMORY_MASK)
    context.reads_done(Timeline.STORE_ISSUE, Timeline.STORE_DONE)
    context.memory_write(v["region"], target, run, plan.index)
    _copy(state.spad, chip, state.memory[v["region"]], target, run)


def _copy(source: Bytes, at: Ints, target: Bytes, to: Ints, run: int) -> None:
    if at.size == 1:
        a, b = int(at[0]), int(to[0])
        target[b : b + run] = source[a : a + run]
    else:
        scatter(target, to, gather(source, at, run))

"""Tile search for RESIZE: whole rows where they fit, of all channels or some."""

from collections.abc import Iterator
from dataclasses import replace

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.kernels.boxes import halvings
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.resize.cost import resize_cost
from sw.compiler.kernels.resize.layer import ResizeLayer
from sw.compiler.kernels.resize.tiles import MOST_WEIGHT, ResizePlan

MAX_TILES = 400
"""Plans of more tiles are not looked at unless nothing else has been found."""

EDGES = (1, 2, 4)
"""Rows of each phase in the first and in the last tile that are tried."""


def plan_resize(layer: ResizeLayer, config: NpuConfig, budget: MemoryBudget) -> ResizePlan:
    """The fastest plan that fits in `budget`; `CompileError` if not even the smallest does."""
    # With one buffer nothing overlaps: it is for layers that would not fit otherwise.
    plans = list(_plans(layer, config, budget, 2)) or list(_plans(layer, config, budget, 1))
    costs = [resize_cost(layer, config, plan) for plan in plans]
    found = [
        replace(plan, cycles=cycles, traffic=traffic)
        for plan, (cycles, traffic) in zip(plans, costs, strict=True)
    ]
    if not found:
        raise CompileError(
            f"no tile of this layer fits in {budget.buffer_bytes} bytes of scratchpad",
            node=layer.name,
            source=layer.source,
            hint="use a configuration with a larger scratchpad",
        )
    return min(found, key=lambda plan: (plan.cycles, plan.traffic))


def _plans(
    layer: ResizeLayer, config: NpuConfig, budget: MemoryBudget, slots: int
) -> Iterator[ResizePlan]:
    """Candidates with so many buffers in rotation."""
    _, oh, ow, c = layer.output.shape
    down, right = layer.rows.phases, layer.cols.phases
    weights, found = _weight_bytes(layer, config), False
    for tw in halvings(-(-ow // right) * right, right):
        # A row of a phase accumulates in one bank.
        if -(-tw // right) > config.acc_bank:
            continue
        for tc in halvings(c, config.cols):
            for th in halvings(-(-oh // down) * down, down):
                tiles = -(-oh // th) * -(-ow // tw) * -(-c // tc) * layer.output.shape[0]
                if found and tiles > MAX_TILES:
                    continue
                plan = replace(
                    _sized(layer, config, budget, (th, tw, tc)), slots=slots, weight_bytes=weights
                )
                if plan.spad_bytes <= budget.buffer_bytes:
                    found = True
                    yield plan
                    edges = (k * down for k in EDGES if k * down < th)
                    yield from (replace(plan, edge_rows=rows) for rows in edges)
        if found:
            # Narrower tiles read their borders more often.
            return


def _sized(
    layer: ResizeLayer, config: NpuConfig, budget: MemoryBudget, tile: tuple[int, int, int]
) -> ResizePlan:
    """The plan of this tile (rows, columns, channels) with one buffer of each kind."""
    th, tw, tc = tile
    word = config.word_bytes
    high, wide = (
        (size - 1) * axis.step // axis.scale + 3
        for size, axis in ((th, layer.rows), (tw, layer.cols))
    )
    return ResizePlan(
        th=th,
        tw=tw,
        tc=tc,
        edge_rows=0,
        slots=1,
        act_bytes=-(-high * wide * tc // word) * word,
        out_bytes=-(-th * tw * tc * layer.output.item // word) * word,
        weight_bytes=0,
        shared=budget.shares_acc,
    )


def _weight_bytes(layer: ResizeLayer, config: NpuConfig) -> int:
    """Bytes of the kernels of all phases: a word a weight."""
    rows, cols = (
        [axis.weights(at) for at in range(min(axis.phases, axis.out))]
        for axis in (layer.rows, layer.cols)
    )
    return config.cols * sum(
        len(y) * len(x) * -(-max(y) * max(x) // MOST_WEIGHT) for y in rows for x in cols
    )

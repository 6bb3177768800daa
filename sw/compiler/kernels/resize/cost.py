"""Cost model of RESIZE: its tiles go one after another through load, the engines and store."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from spec.config import NpuConfig
from spec.isa import Opcode
from sw.compiler.kernels.boxes import Range
from sw.compiler.kernels.depthwise.geometry import kernel_passes
from sw.compiler.kernels.epilogue import epilogue_cycles
from sw.compiler.kernels.resize.axis import ResizeAxis
from sw.compiler.kernels.resize.layer import ResizeLayer
from sw.compiler.kernels.resize.tiles import MOST_WEIGHT, ResizePlan, tile_rows
from sw.compiler.machine.costs import (
    DEPTHWISE_TILE_BYTES,
    DEPTHWISE_UNIT_BYTES,
    HANDOVER,
    INSTRUCTION_CYCLES,
    MEMORY_LATENCY,
    columns_read,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TileCost:
    """Of one tile: bytes moved, cycles of its loads (the program's too), of its engines, of its
    store.
    """

    traffic: int
    load: float
    cycles: int
    store: float


def resize_cost(layer: ResizeLayer, config: NpuConfig, plan: ResizePlan) -> tuple[int, int]:
    """(cycles, bytes moved)."""
    n, _, ow, c = layer.output.shape
    rows = list(tile_rows(layer, plan.th, plan.edge_rows))
    cols = [(x, min(x + plan.tw, ow)) for x in range(0, ow, plan.tw)]
    groups = -(-c // plan.tc)
    # Tiles of the same rows and columns cost the same.
    known = {
        (high, wide): _tile_cost(layer, config, plan, y, x)
        for y, high in ((y, _key(layer.rows, y)) for y in rows)
        for x, wide in ((x, _key(layer.cols, x)) for x in cols)
    }
    tiles = [
        known[_key(layer.rows, y), _key(layer.cols, x)]
        for y, x in itertools.product(rows, cols)
        for _ in range(groups)
    ] * n
    return _pipelined(tiles, plan.slots), sum(t.traffic for t in tiles)


def _key(axis: ResizeAxis, outputs: Range) -> tuple[int, int]:
    start, stop = outputs
    return stop - start, start % axis.phases


def _pipelined(tiles: list[_TileCost], slots: int) -> int:
    """Cycles from the first load to the last store, with `slots` buffers of each kind."""
    loaded = computed = stored = 0.0
    done, gone = [0.0] * slots, [0.0] * slots
    for i, tile in enumerate(tiles):
        # A buffer is free when the tile before in it has been computed, or stored.
        loaded = max(loaded, done[i % slots]) + tile.load
        computed = max(computed, loaded + MEMORY_LATENCY, gone[i % slots]) + tile.cycles
        stored = max(stored, computed + HANDOVER) + tile.store
        done[i % slots], gone[i % slots] = computed, stored
    return math.ceil(stored + 2 * MEMORY_LATENCY)


def _tile_cost(
    layer: ResizeLayer, config: NpuConfig, plan: ResizePlan, y: Range, x: Range
) -> _TileCost:
    """The cost of outputs y, x (from, to) of as many channels as a tile has."""
    blocks = -(-plan.tc // config.cols)
    kernels = -(-layer.rows.most * layer.cols.most // MOST_WEIGHT)
    pixels = (y[1] - y[0]) * (x[1] - x[0])
    units = sum(
        -(-high * wide * blocks // config.acc_bank)
        for _, high in layer.rows.outputs(*y)
        for _, wide in layer.cols.outputs(*x)
    )
    reads = sum(len(layer.rows.weights(at)) for at in range(*y))
    reads *= sum(_row_reads(layer.cols, *x, config))
    engine = kernels * (blocks * reads + INSTRUCTION_CYCLES[Opcode.DEPTHWISE] * units)
    finish = epilogue_cycles(layer.epilogue, None, config, min(plan.tc, config.cols))
    vector = finish * pixels * blocks + INSTRUCTION_CYCLES[Opcode.VECTOR] * units
    high, wide = (axis.reach(*span) for axis, span in ((layer.rows, y), (layer.cols, x)))
    program = units * DEPTHWISE_UNIT_BYTES + DEPTHWISE_TILE_BYTES
    read = (high[1] - high[0]) * (wide[1] - wide[0])
    # Slices of channels: a run a pixel, each with partial words unless all is aligned.
    whole = plan.tc == layer.output.shape[3]
    split = not whole and bool(
        plan.tc % config.bus_bytes or layer.output.shape[3] % config.bus_bytes
    )
    out = pixels * plan.tc * layer.output.item
    return _TileCost(
        traffic=read * plan.tc + program + out,
        load=(read * plan.tc + program) / config.bus_bytes + split * read,
        cycles=max(engine, vector),
        store=out / config.bus_bytes + split * pixels,
    )


def _row_reads(axis: ResizeAxis, start: int, stop: int, config: NpuConfig) -> Iterator[int]:
    """Cycles of the engine for a row of outputs start…stop and a kernel row, phase by phase."""
    for first, count in axis.outputs(start, stop):
        for over in kernel_passes((1, len(axis.weights(first))), axis.stride, 1, config.taps):
            yield len(columns_read(count, over.stride, over.cols, config))

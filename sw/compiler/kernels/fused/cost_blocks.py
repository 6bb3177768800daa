"""Cost model of fused layers whose rows pass in blocks of columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from spec.config import NpuConfig
from sw.compiler.kernels.fused.blocks import Phase, RowBlocks
from sw.compiler.kernels.fused.cost import fused_step_cycles, product_cycles
from sw.compiler.kernels.fused.layer import FusedStep
from sw.compiler.kernels.fused.tiles import FusedPlan
from sw.compiler.machine.costs import (
    DEPENDENT_STEP_CYCLES,
    HANDOVER,
    MEMORY_LATENCY,
    TABLE_CYCLES,
)

_TILES = 3
"""Tiles of rows that are looked at to see how many cycles one takes behind another."""


def blocks_cost(rows: RowBlocks, config: NpuConfig, plan: FusedPlan) -> tuple[int, int]:
    """(cycles, bytes moved)."""
    layer = rows.layer
    tiles = math.prod(-(-n // t) for n, t in zip(layer.shape[:-1], plan.tile[:-1], strict=True))
    whole = [r.nbytes(layer.shape) for r in layer.registers]
    load = _loaded(rows, plan, tiles, whole)
    store = sum(whole[r.register] for r in layer.results if r.register not in plan.held)
    bus = config.bus_bytes
    cycles = max(tiles * _tile_cycles(rows, config, plan), load / bus, store / bus)
    # Nothing hides the first block's loads and the last one's stores.
    cycles += (load + store) / (tiles * plan.blocks) / bus + HANDOVER
    cycles += MEMORY_LATENCY * ((1 if load else 0) + (2 if store else 0))
    return math.ceil(cycles), load + store


def _loaded(rows: RowBlocks, plan: FusedPlan, tiles: int, whole: Sequence[int]) -> int:
    """Bytes that all tiles load; `whole`: bytes of each register's tensor."""
    layer, product = rows.layer, rows.layer.product
    assert product is not None
    images = math.prod(layer.shape[:-2])
    left, right = product.nbytes(layer.shape)
    passes = sum(phase.reads(product.register) for phase in rows.phases)
    load = images * left
    load += right * (images if plan.rights >= plan.blocks else passes * tiles)
    for i in set(range(len(layer.sources))) - plan.held:
        *_, by_row, by_column = layer.registers[i].spans
        if not by_column:
            load += whole[i]
            continue
        passes = sum(phase.reads(i) for phase in rows.phases)
        # Two blocks lie on chip: rows that read the same ones load them again.
        load += whole[i] * passes * (1 if by_row else -(-tiles // images))
    return load


@dataclass(slots=True)
class _Pipeline:
    """When array and vector engine are free, in cycles.

    `kept`: by block of the accumulator's products, when the array has it and when the vector engine
    is done with it, the oldest first. `free`: since when the other buffers are.
    """

    array: float = 0
    vector: float = 0
    kept: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    free: list[float] = field(default_factory=list)

    def product(self, key: tuple[int, int], cycles: int) -> None:
        """The vector engine waits for the product of a block."""
        if key in self.kept:
            ready, _ = self.kept.pop(key)
        else:
            if not self.free:
                self.free.append(self.kept.pop(next(iter(self.kept)))[1])
            self.array = max(self.array, self.free.pop(0)) + cycles
            ready = self.array
        self.vector = max(self.vector, ready)
        self.kept[key] = ready, self.vector

    def done(self, key: tuple[int, int], overwritten: bool) -> None:
        """The steps of a block are over."""
        ready, _ = self.kept.pop(key)
        if overwritten:
            self.free.append(self.vector)
        else:
            self.kept[key] = ready, self.vector


def _tile_cycles(rows: RowBlocks, config: NpuConfig, plan: FusedPlan) -> float:
    """Cycles of a tile of rows behind another, while array and vector engine work on two blocks."""
    product = rows.layer.product
    assert product is not None
    array = product_cycles(product, plan.tile, config)
    behind = [_behind(rows, phase, config, plan) for phase in rows.phases]
    columns = [_vector_cycles(rows, phase.columns, config, plan) for phase in rows.phases]
    first = _vector_cycles(rows, rows.first, config, plan)
    pipeline = _Pipeline(free=[0.0] * plan.slots[product.register])
    order, ends = rows.order(plan.blocks), []
    for tile in range(_TILES):
        pipeline.vector += first
        for i, (number, block) in enumerate(order):
            phase, key = rows.phases[number], (tile, block)
            reads = phase.reads(product.register)
            if reads:
                pipeline.product(key, array)
            pipeline.vector += columns[number]
            if reads:
                pipeline.done(key, phase.writes(product.register))
            if (i + 1) % plan.blocks == 0:
                pipeline.vector += behind[number]
        ends.append(pipeline.vector)
    return (ends[-1] - ends[0]) / (_TILES - 1)


def _behind(rows: RowBlocks, phase: Phase, config: NpuConfig, plan: FusedPlan) -> int:
    """Cycles of what follows the last block of a phase."""
    registers = rows.layer.registers
    cycles = _vector_cycles(rows, phase.rows, config, plan)
    for step in phase.joins:
        nbytes = plan.blocks * registers[step.a].nbytes(plan.tile)
        cycles += -(-nbytes // config.word_bytes) + DEPENDENT_STEP_CYCLES
    # There is one TABLE: several replace each other.
    others = {s.lookup for s in (*phase.joins, *phase.rows)} - {-1}
    return cycles + 2 * TABLE_CYCLES * len(others if len(rows.layer.tables) > 1 else ())


def _vector_cycles(
    rows: RowBlocks, steps: Sequence[FusedStep], config: NpuConfig, plan: FusedPlan
) -> int:
    each = (fused_step_cycles(rows.layer, step, plan, config) for step in steps)
    return sum(each) + DEPENDENT_STEP_CYCLES * len(steps)

"""Cost model of fused elementwise layers: the busiest of vector engine, loads and stores."""

import math

from spec.config import NpuConfig
from spec.isa import Alu, Reduce, Scale, uses_b
from sw.compiler.kernels.fused.layer import FusedLayer, FusedStep, Product
from sw.compiler.kernels.fused.tiles import FusedPlan
from sw.compiler.machine.costs import (
    DEPENDENT_STEP_CYCLES,
    HANDOVER,
    MEMORY_LATENCY,
    TABLE_CYCLES,
    weight_cycles,
)
from sw.compiler.program.cycles import step_cycles


def fused_cost(layer: FusedLayer, config: NpuConfig, plan: FusedPlan) -> tuple[int, int]:
    """(cycles, bytes moved)."""
    tiles = math.prod(-(-n // t) for n, t in zip(layer.shape, plan.tile, strict=True))
    compute = sum(
        fused_step_cycles(layer, step, plan, config) + DEPENDENT_STEP_CYCLES for step in layer.steps
    )
    whole = [r.nbytes(layer.shape) for r in layer.registers]
    load = sum(whole[i] for i in range(len(layer.sources)) if i not in plan.held)
    store = sum(whole[r.register] for r in layer.results if r.register not in plan.held)
    bus = config.bus_bytes
    # There is one TABLE: several replace each other in every tile.
    if len(layer.tables) > 1:
        compute += TABLE_CYCLES * len(layer.tables)
    if layer.product is not None:
        # The array works on the next tile meanwhile.
        compute = max(compute, product_cycles(layer.product, plan.tile, config))
        load += sum(layer.product.nbytes(layer.shape)) * math.prod(layer.shape[:-2])
    cycles = max(tiles * compute, load / bus, store / bus)
    # Nothing hides the first tile's loads and the last one's stores.
    cycles += (load + store) / tiles / bus + HANDOVER
    cycles += MEMORY_LATENCY * ((1 if load else 0) + (2 if store else 0))
    return math.ceil(cycles), load + store


def fused_step_cycles(
    layer: FusedLayer, step: FusedStep, plan: FusedPlan, config: NpuConfig
) -> int:
    """Its vectors, times the words of the widest operand or the cycles of RESCALE."""
    tile, cols = plan.tile, config.cols
    read = [i for i in (step.a, step.b) if i is not None]
    spans = [layer.registers[i].spans for i in (*read, step.out)]
    sizes = [n if any(s[d] for s in spans[: len(read)]) else 1 for d, n in enumerate(tile)]
    flat = len(set(spans)) == 1 and step.params < 0 and not any(plan.vectors[i] for i in read)
    flat = flat and all(_is_dense(layer, i, plan) for i in (*read, step.out))
    if flat:
        sizes = [math.prod(sizes)]
    vectors = math.prod(sizes[:-1]) * -(-sizes[-1] // cols)
    lanes = min(cols, sizes[-1])

    def words(register: int) -> int:
        if plan.vectors[register]:
            return 1
        held = layer.registers[register]
        count = lanes if flat or held.spans[-1] else 1
        return -(-count * held.kind.bytes // config.word_bytes)

    fields = {"alu": Alu.PASS, "a_scale": Scale.OFF, **step.values}
    wide = max([words(step.a), *([words(read[1])] if uses_b(fields) and len(read) > 1 else [])])
    written = 1 if step.reduce is not Reduce.NONE else words(step.out)
    types = {"a_type": layer.registers[read[0]].kind, "b_type": layer.registers[read[-1]].kind}
    scales: dict[str, object] = {**types, **step.values}
    if step.reduce is not Reduce.NONE:
        # Its result is scaled once, which is nothing beside its steps.
        scales |= {"reduce": step.reduce, "o_scale": Scale.OFF}
    return vectors * max(wide, written, step_cycles(scales, config, lanes))


def _is_dense(layer: FusedLayer, register: int, plan: FusedPlan) -> bool:
    """Whether the elements of a tile of a register follow each other, as in buffers they do."""
    if register not in plan.held:
        return True
    placed = {r.register: r.strides for r in layer.results}
    strides = placed[register] if register in placed else layer.sources[register].strides
    held = layer.registers[register]
    step = held.kind.bytes
    for n, stride in zip(reversed(held.extents(plan.tile)), reversed(strides), strict=True):
        if n > 1 and stride != step:
            return False
        step *= n
    return True


def product_cycles(product: Product, tile: tuple[int, ...], config: NpuConfig) -> int:
    """Of the MATRIX of a tile."""
    folds = -(-tile[-1] // config.cols) * -(-product.depth // config.rows)
    return folds * max(tile[-2], weight_cycles(config, product.transposed))

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
from sw.compiler.program.cycles import reading_cycles, step_cycles


def fused_cost(layer: FusedLayer, config: NpuConfig, plan: FusedPlan) -> tuple[int, int]:
    """(cycles, bytes moved)."""
    tiles = math.prod(-(-n // t) for n, t in zip(layer.shape, plan.tile, strict=True))
    compute = sum(_in_turn(layer, step, plan, config) for step in layer.steps)
    whole = [r.nbytes(layer.shape) for r in layer.registers]
    load = sum(whole[i] for i in range(len(layer.sources)) if i not in plan.held)
    store = sum(whole[r.register] for r in layer.results if r.register not in plan.held)
    bus = config.bus_bytes
    # There is one TABLE: several replace each other in every tile.
    if len(layer.tables) > 1:
        compute += TABLE_CYCLES * len(layer.tables) / plan.abreast
    if layer.product is not None:
        # The array works on the next tile meanwhile.
        compute = max(compute, product_cycles(layer.product, plan.tile, config))
        load += sum(layer.product.nbytes(layer.shape)) * math.prod(layer.shape[:-2])
    cycles = max(tiles * compute, load / bus, store / bus)
    # Nothing hides the first tile's loads and the last one's stores.
    cycles += (load + store) / tiles / bus + HANDOVER
    cycles += MEMORY_LATENCY * ((1 if load else 0) + (2 if store else 0))
    return math.ceil(cycles), load + store


def _in_turn(layer: FusedLayer, step: FusedStep, plan: FusedPlan, config: NpuConfig) -> float:
    """Of a step on a tile, which waits for the step before unless other tiles pass meanwhile."""
    cycles = fused_step_cycles(layer, step, plan, config)
    return max(cycles, (cycles + DEPENDENT_STEP_CYCLES) / plan.abreast)


def fused_step_cycles(
    layer: FusedLayer, step: FusedStep, plan: FusedPlan, config: NpuConfig
) -> int:
    """Its vectors, times the cycles in which it reads and writes them, or those of RESCALE."""
    sizes, flat = _extent(layer, step, plan)
    across = -(-sizes[-1] // config.cols)
    lanes = min(config.cols, sizes[-1])

    def words(register: int) -> int:
        held = layer.registers[register]
        if plan.vectors[register]:
            return 0
        count = lanes if flat or held.spans[-1] else 1
        return -(-count * held.kind.bytes // config.word_bytes)

    reduces, b, fresh = step.reduce is not Reduce.NONE, 0, 1.0
    if step.b is not None and _reads_b(step):
        b = words(step.b)
        if not (flat or reduces or layer.registers[step.b].spans[-1]):
            # One element for the vectors of a row is read once.
            fresh = 1 / across
    wide = max(1.0, reading_cycles(words(step.a), b, fresh))
    written = 1 if reduces else words(step.out)
    scaled = step_cycles(_scales(layer, step), config, lanes)
    return math.ceil(math.prod(sizes[:-1]) * across * max(wide, written, scaled))


def _extent(layer: FusedLayer, step: FusedStep, plan: FusedPlan) -> tuple[list[int], bool]:
    """The extents of a step's vectors in a tile; whether they are one row of elements."""
    read = [i for i in (step.a, step.b) if i is not None]
    spans = [layer.registers[i].spans for i in (*read, step.out)]
    sizes = [n if any(s[d] for s in spans[: len(read)]) else 1 for d, n in enumerate(plan.tile)]
    flat = len(set(spans)) == 1 and step.params < 0 and not any(plan.vectors[i] for i in read)
    flat = flat and all(_is_dense(layer, i, plan) for i in (*read, step.out))
    return ([math.prod(sizes)] if flat else sizes), flat


def _scales(layer: FusedLayer, step: FusedStep) -> dict[str, object]:
    """What says how often the lanes' RESCALE is taken."""
    b = step.a if step.b is None else step.b
    kinds = {"a_type": layer.registers[step.a].kind, "b_type": layer.registers[b].kind}
    if step.reduce is Reduce.NONE:
        return {**kinds, **step.values}
    # Its result is scaled once, which is nothing beside its steps.
    return {**kinds, **step.values, "reduce": step.reduce, "o_scale": Scale.OFF}


def _reads_b(step: FusedStep) -> bool:
    """Whether the operation takes operand B."""
    return bool(uses_b({"alu": Alu.PASS, "a_scale": Scale.OFF, **step.values}))


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

"""Tile search for elementwise layers.

Layers over dense tensors without per-channel values are cut as one flat row of elements, whatever
their shape.
"""

from dataclasses import replace

from spec.config import NpuConfig
from spec.isa import Scale
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.elementwise.layer import ElementwiseLayer
from sw.compiler.kernels.epilogue import operand_a, operand_b, rescale_of_result
from sw.compiler.kernels.vector.cost import vector_cost
from sw.compiler.kernels.vector.plan import VectorPlan, fitting, no_tile_fits
from sw.compiler.kernels.vector.work import VectorWork
from sw.compiler.kernels.views import View, dense
from sw.compiler.program.cycles import step_cycles
from sw.compiler.program.records import VectorFields


def elementwise_work(layer: ElementwiseLayer, config: NpuConfig) -> VectorWork:
    """The layer as the vector engine's tile search sees it."""
    per_channel = layer.epilogue.scale is Scale.CHANNEL
    # Values per channel tie lanes to channels. Without them any elements may share a vector, and
    # one flat row fills every lane, also where channels are few.
    flat = not per_channel and all(v.is_dense for v in (*layer.inputs, layer.output))
    if flat:
        ins, out = tuple(_flatten(v) for v in layer.inputs), _flatten(layer.output)
    else:
        ins, out = layer.inputs, layer.output
    lanes = config.cols if flat else out.shape[3]
    cycles = step_cycles(arithmetic(layer), config, lanes)
    return VectorWork(ins=ins, out=out, per_channel=per_channel, flat=flat, cycles=cycles)


def arithmetic(layer: ElementwiseLayer) -> VectorFields:
    """What the VECTOR of a layer does to its operands."""
    fields = rescale_of_result(layer.epilogue) | operand_a(layer.a)
    if layer.b is not None:
        fields |= operand_b(layer.b)
    return fields | VectorFields(alu=layer.alu, table=layer.epilogue.lookup)


def _flatten(view: View) -> View:
    """A dense view as one row of one-channel pixels."""
    n, h, w, c = view.shape
    return replace(dense(view.tensor, view.dtype, (1, 1, n * h * w * c, 1)), offset=view.offset)


def plan_elementwise(
    layer: ElementwiseLayer, config: NpuConfig, budget: MemoryBudget
) -> VectorPlan:
    """The largest tiles that fit twice, yet several per layer; `CompileError` if none fits."""
    work = elementwise_work(layer, config)
    plan = fitting(work, config, budget)
    if plan is None:
        raise no_tile_fits(layer, budget)
    cycles, traffic = vector_cost(work, config, budget, plan)
    # Parameters change with the channels: such layers keep their order.
    row_order = budget.row_order and not work.per_channel
    return replace(plan, cycles=cycles, traffic=traffic, row_order=row_order)

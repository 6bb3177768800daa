"""Stage `lower`: the TOSA graph becomes layers; everything that follows a product is fused into it.

A layer is CONV2D, DEPTHWISE_CONV2D or MATMUL + RESCALE + CLAMP + TABLE, a pooling + CLAMP + TABLE,
RESCALE x 2 + ADD (SUB, MAXIMUM, MINIMUM) + RESCALE + CLAMP + TABLE, or a chain of elementwise
operators and reductions. Only values that nobody else reads are fused away. RESHAPE, IDENTITY and
SLICE become views, TRANSPOSE too next to matrix products (see `permutes`).
"""

from spec.config import NpuConfig
from sw.compiler.kernels.layers import LayerProgram
from sw.compiler.lower.composed_copies import compose_copies
from sw.compiler.lower.context import Context
from sw.compiler.lower.elementwise.chains import lower_chain
from sw.compiler.lower.table import lowering
from sw.compiler.lower.transposes import by_array
from sw.compiler.tosa.graph import Graph


def lower(graph: Graph, config: NpuConfig, fold: bool = True, *, join: bool = True) -> LayerProgram:
    """Layers of `graph` for `config`; `CompileError` on an operator that the device lacks.

    Without `fold`, weights and biases are read from memory as tensors, constant or not. Constants
    that lowering needs are added to `graph`. Without `join`, every tensor has a place of its own,
    and CONCAT copies.
    """
    ctx = Context(graph, config, fold, join=join)
    for op in graph.ops:
        # A product that a sum follows waits for the sum's other operand.
        if id(op) in ctx.fusion.done or id(op) in ctx.fusion.deferred:
            continue
        if not lower_chain(ctx, op):
            fused = ctx.fusion.sum_at.get(id(op))
            target = op if fused is None else fused.product
            lowering(target)(ctx, target)
    for name in graph.outputs:
        _own_output(ctx, name)
    memory = ctx.storage.memory
    fewer = compose_copies(ctx.layers, memory.region, config) if join else ctx.layers
    quick = (by_array(layer, config) for layer in fewer)
    layers = tuple(part for layer in quick for part in layer.split())
    return LayerProgram(layers=layers, storage=memory)


def _own_output(ctx: Context, name: str) -> None:
    """Give graph output `name` its own place in the output region, by a copy if need be."""
    if not ctx.storage.claim_output(name):
        ctx.move(name, ctx.storage.add_output(name), f"{name}.output", "")

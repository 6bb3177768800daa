"""Schedule of a FusedLayer, its rows whole or in blocks."""

from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.fused.blocks import row_blocks
from sw.compiler.kernels.fused.emit_blocks import BlockEmitter
from sw.compiler.kernels.fused.emit_tiles import TileEmitter
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.fused.tiles import FusedPlan


def emit_fused(layer: FusedLayer, plan: FusedPlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    rows = row_blocks(layer) if plan.blocks else None
    if rows is None:
        TileEmitter(layer, plan, context).run()
    else:
        BlockEmitter(rows, plan, context).run()

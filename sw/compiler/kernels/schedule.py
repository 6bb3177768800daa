"""Stage `schedule`: the nodes of every layer, in program order."""

from collections.abc import Sequence

from spec.config import NpuConfig
from spec.program import REGION_CONST
from sw.compiler.errors import LegalityError
from sw.compiler.kernels.conv.emit import ConvScheduler
from sw.compiler.kernels.conv.geometry import geometry
from sw.compiler.kernels.conv.plan import ConvPlan
from sw.compiler.kernels.depthwise.emit import DepthwiseScheduler
from sw.compiler.kernels.depthwise.plan import DepthwisePlan
from sw.compiler.kernels.emitter import Resources
from sw.compiler.kernels.fused.emit import MapScheduler
from sw.compiler.kernels.fused.layer import MapLayer
from sw.compiler.kernels.fused.plan import MapPlan
from sw.compiler.kernels.gather.gather import GatherLayer, GatherPlan, GatherScheduler
from sw.compiler.kernels.layers import (
    ConvLayer,
    DepthwiseLayer,
    ElementwiseLayer,
    LayerProgram,
    MoveLayer,
    PoolLayer,
)
from sw.compiler.kernels.move.move import MovePlan, MoveScheduler
from sw.compiler.kernels.pool.emit import VectorScheduler
from sw.compiler.kernels.pool.plan import VectorPlan
from sw.compiler.kernels.tiling import Plan
from sw.compiler.program.constants import ConstantPool
from sw.compiler.program.draft import Buffer, Draft, Place
from sw.compiler.tosa.graph import Graph


def schedule(
    program: LayerProgram,
    plans: Sequence[Plan],
    config: NpuConfig,
    constants: ConstantPool,
    tensors: dict[str, Buffer],
    graph: Graph,
) -> Draft:
    """The draft program of all layers. Constant tensors that are read as data go to `constants`."""
    draft = Draft()
    for buffer in tensors.values():
        if buffer.place is Place.DRAM and buffer.region == REGION_CONST:
            buffer.address = constants.add(graph.constant(buffer.name).tobytes())
    res = Resources(
        draft=draft,
        constants=constants,
        tensors=tensors,
        acc=Buffer(name="acc", place=Place.ACC, size=config.acc_vectors, address=0),
        table=Buffer(name="table", place=Place.TABLE, size=config.table_bytes, address=0),
    )
    for index, (layer, plan) in enumerate(zip(program.layers, plans, strict=True)):
        if isinstance(layer, ConvLayer) and isinstance(plan, ConvPlan):
            ConvScheduler(geometry(layer, plan.packing), plan, config, res, index).run()
        elif isinstance(layer, DepthwiseLayer) and isinstance(plan, DepthwisePlan):
            DepthwiseScheduler(layer, plan, config, res, index).run()
        elif isinstance(layer, PoolLayer | ElementwiseLayer) and isinstance(plan, VectorPlan):
            VectorScheduler(layer, plan, config, res, index).run()
        elif isinstance(layer, MoveLayer) and isinstance(plan, MovePlan):
            MoveScheduler(layer, plan, config, res, index).run()
        elif isinstance(layer, MapLayer) and isinstance(plan, MapPlan):
            MapScheduler(layer, plan, config, res, index).run()
        elif isinstance(layer, GatherLayer) and isinstance(plan, GatherPlan):
            GatherScheduler(layer, plan, config, res, index).run()
        else:
            raise LegalityError("no schedule for this layer", node=layer.name)
    return draft

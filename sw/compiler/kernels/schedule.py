"""Stage `schedule`: the instructions of every layer, in program order."""

from collections.abc import Sequence
from dataclasses import replace

from spec.config import NpuConfig
from spec.program import REGION_CONST
from sw.compiler.kernels.base import LayerProgram, Plan
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.families import FAMILIES, Families, family_of
from sw.compiler.program.constants import ConstantPool
from sw.compiler.program.virtual import Buffer, Place, VirtualProgram
from sw.compiler.tosa.graph import Graph


def schedule(
    program: LayerProgram,
    plans: Sequence[Plan],
    config: NpuConfig,
    constants: ConstantPool,
    tensors: dict[str, Buffer],
    graph: Graph,
    families: Families = FAMILIES,
) -> VirtualProgram:
    """The program of all layers. Constant tensors that are read as data go to `constants`."""
    for buffer in tensors.values():
        if buffer.place is Place.DRAM and buffer.region == REGION_CONST:
            buffer.address = constants.add(graph.constant(buffer.name).tobytes())
    context = EmitContext(
        config=config,
        virtual=VirtualProgram(),
        constants=constants,
        tensors=tensors,
        acc=Buffer(name="acc", place=Place.ACC, size=config.acc_vectors, address=0),
        table=Buffer(name="table", place=Place.TABLE, size=config.table_bytes, address=0),
    )
    for index, (layer, plan) in enumerate(zip(program.layers, plans, strict=True)):
        family_of(layer, families).emit(layer, plan, replace(context, index=index))
    return context.virtual

"""Instructions of an OffsetLayer: LOAD, VECTOR in place, STORE."""

import math

from offset_family.layer import OffsetLayer
from offset_family.plan import OffsetPlan
from spec.isa import Alu, DType
from spec.numerics import RANGES
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.emitter import LayerEmitter
from sw.compiler.program.records import Vector, VectorLoop
from sw.compiler.program.virtual import Access, Buffer, Place


def emit_offset(layer: OffsetLayer, plan: OffsetPlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    emitter = LayerEmitter(layer.name, context)
    slots = emitter.slots("tile", Place.SPAD, 2, 4 * plan.elements)
    size = math.prod(layer.output.shape)
    for start in range(0, size, plan.elements):
        count = min(plan.elements, size - start)
        slot, _ = slots.get(start, None)
        assert slot is not None
        source = context.tensors[layer.input.tensor]
        mem = layer.input.offset + 4 * start
        emitter.load_run(source, mem, 4 * count, slot, 4 * count, f"load {start}")
        _add(emitter, layer.constant, slot, count)
        box = [(count, 4, 4)]
        emitter.store_box(layer.output, layer.output.offset + 4 * start, slot, box, 4, "store")


def _add(emitter: LayerEmitter, constant: int, slot: Buffer, count: int) -> None:
    cols = emitter.config.cols
    vectors, lanes = -(-count // cols), min(count, cols)
    low, high = RANGES[DType.I32]
    record = Vector(
        a_type=DType.I32,
        alu=Alu.ADD,
        b_none=1,
        b_zp=-constant,
        o_min=low,
        o_max=high,
        o_type=DType.I32,
        lane_loop=0,
        lanes=lanes,
        lanes_last=count - (vectors - 1) * lanes,
        loop=[VectorLoop(count=vectors, a=4 * cols, o=4 * cols)],
    )
    touched = [Access(buffer=slot, start=0, stop=4 * count, write=w) for w in (False, True)]
    emitter.append(record, {"a_base": slot, "o_base": slot}, touched, f"add {constant}")

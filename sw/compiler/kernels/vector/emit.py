"""Instructions of layers that only the vector engine computes.

Load a box, compute it, store it, all overlapped.
"""

from spec.isa import Alu
from sw.compiler.kernels.boxes import Box, address
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.emitter import EpilogueEmitter, Spot, touch
from sw.compiler.kernels.operands import Epilogue
from sw.compiler.kernels.slots import Slots
from sw.compiler.kernels.vector.plan import VectorPlan, boxes
from sw.compiler.kernels.vector.work import VectorWork
from sw.compiler.kernels.views import View
from sw.compiler.program.records import Vector, VectorFields
from sw.compiler.program.virtual import Access, Place


class VectorEmitter(EpilogueEmitter):
    """Emits one layer; `compute` is what its kind of layer does with a box."""

    def __init__(
        self,
        name: str,
        epilogue: Epilogue,
        work: VectorWork,
        plan: VectorPlan,
        context: EmitContext,
    ) -> None:
        super().__init__(name, epilogue, context)
        self.work, self.plan = work, plan
        self.ins, self.output = work.ins, work.out
        config = context.config
        self.slots_in = [
            None if context.held(view) else self.slots(f"in{i}_", Place.SPAD, plan.slots, size)
            for i, (view, size) in enumerate(zip(self.ins, plan.in_bytes, strict=True))
        ]
        self.slots_out = (
            None
            if context.held(self.output)
            else self.slots("out", Place.SPAD, plan.slots, plan.out_bytes)
        )
        channels = self.output.shape[3]
        self.params: Slots | None = None
        if work.per_channel:
            count = min(2, -(-channels // plan.tc))
            self.params = self.slots("param", Place.PARAM, count, -(-plan.tc // config.cols))

    def run(self) -> None:
        """Emit the whole layer; loads run ahead by the number of slots."""
        self.load_table()
        todo = list(boxes(self.work, self.plan))
        ahead = self.plan.slots
        for box in todo[:ahead]:
            self._load(box)
        for i, box in enumerate(todo):
            self.compute(box)
            self._store(box)
            if i + ahead < len(todo):
                self._load(todo[i + ahead])

    def _load(self, box: Box) -> None:
        if self.params is not None:
            param, fresh = self.params.get(box.c0, None)
            assert param is not None
            if fresh:
                self.load_params(box.c0, box.c1, param)
        reads = self.work.reads(box)
        for view, slots in zip(self.ins, self.slots_in, strict=True):
            if slots is None:
                continue
            slot, _ = slots.get(box, None)
            assert slot is not None
            if reads.elements > 0:
                self.load_box(view, reads, slot, f"in y{reads.y0} x{reads.x0} c{reads.c0}")

    def place(self, view: View, slots: Slots | None, box: Box, whole: Box) -> Spot:
        """Where the pixels of `box` lie: in the slot of output box `whole`, or on chip for good."""
        held = self.context.held(view)
        if held is not None:
            return Spot(held, address(view, box), view.strides[1], view.strides[2])
        assert slots is not None
        slot, _ = slots.get(whole, None)
        assert slot is not None
        pixel = box.channels * view.item
        return Spot(slot, 0, box.cols * pixel, pixel)

    def _touch(self, view: View, place: Spot, box: Box, write: bool) -> Access:
        """The access of `box`, which lies at `place`."""
        if self.context.held(view) is not None:
            return touch(place.buffer, view, box, write=write)
        size = (box.rows - 1) * place.line + box.cols * place.pixel
        return Access(buffer=place.buffer, start=place.at, stop=place.at + size, write=write)

    def _store(self, box: Box) -> None:
        if self.slots_out is None:
            return
        out, _ = self.slots_out.get(box, None)
        assert out is not None
        self.store_tile(self.output, box, out)

    def compute(self, box: Box) -> None:
        """Append the VECTORs of output box `box`."""
        raise NotImplementedError

    def result_fields(self) -> VectorFields:
        """Fields of the epilogue, but its RESCALE: what follows the clamp, and the clamp."""
        epilogue = self.epilogue
        return VectorFields(
            o_zp=epilogue.zero_point,
            o_min=epilogue.low,
            o_max=epilogue.high,
            o_type=epilogue.dtype,
            table=epilogue.lookup,
        )

    def vector(self, box: Box, region: Box, record: Vector) -> None:
        """Compute `region` of output box `box`; the addresses in `record` are within buffers."""
        reads = self.work.reads(box)
        operands = [
            self.place(view, slots, reads, box)
            for view, slots in zip(self.ins, self.slots_in, strict=True)
        ]
        out = self.place(self.output, self.slots_out, box, box)
        at = out.inside(box, region)
        bases = {"a_base": operands[0].buffer, "o_base": out.buffer}
        accesses = [self._touch(self.output, at, region, write=True)]
        if reads.elements > 0:
            accesses += [
                self._touch(view, place, reads, write=False)
                for view, place in zip(self.ins, operands, strict=True)
            ]
        if len(operands) > 1:
            bases["b_base"] = operands[1].buffer
        elif record.alu is not Alu.PASS:
            # Rows in pairs: B is the same tensor, some rows below A.
            bases["b_base"] = operands[0].buffer
        if self.params is not None:
            held = self.params.get(box.c0, None)[0]
            assert held is not None
            bases["param_base"] = held
            entries = -(-box.channels // self.config.cols)
            accesses.append(Access(buffer=held, start=0, stop=entries, write=False))
        accesses += self.table_reads()
        note = f"compute y{box.y0} x{box.x0} c{box.c0}"
        self.append(record, bases, accesses, note)

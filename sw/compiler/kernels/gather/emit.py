"""Instructions of a GatherLayer: load offsets, then rows by them, or store rows by them."""

from collections.abc import Iterator

from spec.isa import Opcode
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.emitter import LayerEmitter
from sw.compiler.kernels.gather.layer import GatherLayer
from sw.compiler.kernels.gather.plan import OFFSET_BYTES, GatherPlan
from sw.compiler.kernels.views import View
from sw.compiler.program.records import DmaLoop, Load, Store
from sw.compiler.program.virtual import Access, Buffer, Place


def emit_gather(layer: GatherLayer, plan: GatherPlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _GatherEmitter(layer, plan, context).run()


class _GatherEmitter(LayerEmitter):
    def __init__(self, layer: GatherLayer, plan: GatherPlan, context: EmitContext) -> None:
        super().__init__(layer.name, context)
        self.layer, self.plan = layer, plan
        self.rows = self.slots("rows", Place.SPAD, 2, plan.nbytes)
        self.indices = self.slots("offsets", Place.SPAD, 2, plan.index_bytes)

    def run(self) -> None:
        """Emit the whole layer."""
        for batch, start, at in self._tiles():
            rows = min(self.plan.rows, self.layer.rows - start)
            part = min(self.plan.part, self.layer.row_bytes - at)
            index, fresh = self.indices.get((batch, start), None)
            slot, _ = self.rows.get((batch, start, at), None)
            assert index is not None and slot is not None
            near = (batch * self.layer.rows + start) * self.layer.row_bytes + at
            if fresh:
                self._load_offsets(batch * self.layer.rows + start, rows, index)
            if self.layer.scatter:
                self._move(Opcode.LOAD, self.layer.values, near, rows, part, slot, None)
                self._move(Opcode.STORE, self.layer.output, batch, rows, part, slot, index, at)
            else:
                self._move(Opcode.LOAD, self.layer.values, batch, rows, part, slot, index, at)
                self._move(Opcode.STORE, self.layer.output, near, rows, part, slot, None)

    def _tiles(self) -> Iterator[tuple[int, int, int]]:
        for batch in range(self.layer.batch):
            for start in range(0, self.layer.rows, self.plan.rows):
                for at in range(0, self.layer.row_bytes, self.plan.part):
                    yield batch, start, at

    def _load_offsets(self, first: int, rows: int, index: Buffer) -> None:
        view = self.layer.offsets
        source = self.context.tensors[view.tensor]
        mem, run = view.offset + OFFSET_BYTES * first, OFFSET_BYTES * rows
        self.load_run(source, mem, run, index, run, f"offsets {first}")

    def _move(
        self,
        opcode: Opcode,
        view: View,
        where: int,
        rows: int,
        part: int,
        slot: Buffer,
        index: Buffer | None,
        at: int = 0,
    ) -> None:
        """LOAD or STORE rows: at byte `where`, or by `index` in batch `where` from byte `at`."""
        load = opcode is Opcode.LOAD
        memory, size = self.context.tensors[view.tensor], self.layer.far_bytes
        if index is None:
            base = mem = view.offset + where
            stride = self.layer.row_bytes
            stop = mem + (rows - 1) * stride + part
        else:
            base, stride = view.offset + where * size, 0
            mem, stop = base + at, base + size
        loops = [DmaLoop(count=rows, mem=stride, chip=part)]
        run = part
        if index is None and part == stride:
            run, loops = rows * part, []
        bases = {"mem_base": memory, "chip_base": slot}
        accesses = [
            Access(buffer=memory, start=base, stop=stop, write=not load),
            Access(buffer=slot, start=0, stop=rows * part, write=load),
        ]
        if index is not None:
            bases["index_base"] = index
            accesses.append(Access(buffer=index, start=0, stop=OFFSET_BYTES * rows, write=False))
        copy = Load if load else Store
        record = copy(mem_base=mem, run=run, loop=loops, indexed=int(index is not None))
        self.append(record, bases, accesses, f"rows {where}")

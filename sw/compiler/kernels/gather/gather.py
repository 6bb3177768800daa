"""GatherLayer: rows picked or placed by offsets that a tensor holds, through indexed DMA.

Offsets are int32 bytes. A tile is a range of rows and, where a row does not fit, of its bytes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from spec.config import NpuConfig
from spec.isa import DType, Opcode, Space
from sw.compiler.errors import CompileError
from sw.compiler.kernels.conv.cost import LATENCY
from sw.compiler.kernels.emitter import LayerEmitter, Resources
from sw.compiler.kernels.layers import Epilogue, Layer
from sw.compiler.kernels.views import View
from sw.compiler.placement.residency import Room
from sw.compiler.program.draft import Access, Buffer, Place

MAX_ROWS = 0xFFFF
OFFSET_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherLayer(Layer):
    """`batch` times `rows` rows of `row_bytes`; row i of a batch lies `offsets`[batch, i] bytes
    behind the batch's start in memory.

    Gathering reads there from `values` and writes the rows one after another to the output;
    `scatter` reads them one after another from `values` and writes there. On that far side batches
    are `far_bytes` apart. Both sides are dense.
    """

    values: View
    offsets: View
    batch: int
    rows: int
    row_bytes: int
    far_bytes: int
    scatter: bool = False

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.values, self.offsets)

    def __str__(self) -> str:
        kind = "scatter" if self.scatter else "gather"
        return (
            f"{kind} {self.name}: {self.output} of {self.values} by {self.offsets}: "
            f"{self.batch} x {self.rows} rows of {self.row_bytes} bytes"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherPlan:
    """Tiles of `rows` rows and `part` bytes of each; two buffers of `nbytes`, two of offsets."""

    rows: int
    part: int
    nbytes: int
    index_bytes: int
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return 2 * (self.nbytes + self.index_bytes)

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.part} bytes; {self.spad_bytes} bytes"


def plan_gather(layer: GatherLayer, config: NpuConfig, room: Room) -> GatherPlan:
    """The most rows that fit twice; parts of rows where not even one does."""
    word = config.word_bytes
    limit = room.buffer_bytes // 2 - 2 * word
    part = min(layer.row_bytes, limit - OFFSET_BYTES)
    if part < 1:
        raise CompileError("no row fits in the scratchpad", node=layer.name, source=layer.source)
    rows = min(layer.rows, max(1, limit // (part + OFFSET_BYTES)), MAX_ROWS)
    size = layer.batch * layer.rows * layer.row_bytes
    beats = layer.batch * layer.rows * -(-layer.row_bytes // config.bus_bytes)
    return GatherPlan(
        rows=rows,
        part=part,
        nbytes=-(-rows * part // word) * word,
        index_bytes=-(-rows * OFFSET_BYTES // word) * word,
        cycles=beats + math.ceil(size / config.bus_bytes) + 4 * LATENCY,
        traffic=2 * size,
    )


class GatherScheduler(LayerEmitter):
    """Emits the nodes of one GatherLayer into a draft."""

    def __init__(
        self, layer: GatherLayer, plan: GatherPlan, config: NpuConfig, res: Resources, index: int
    ) -> None:
        super().__init__(layer.name, Epilogue(dtype=DType.I8, low=0, high=0), config, res, index)
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
        source = self.res.tensors[view.tensor]
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
        memory, size = self.res.tensors[view.tensor], self.layer.far_bytes
        if index is None:
            base = mem = view.offset + where
            stride = self.layer.row_bytes
            stop = mem + (rows - 1) * stride + part
        else:
            base, stride = view.offset + where * size, 0
            mem, stop = base + at, base + size
        loops = [{"count": rows, "mem": stride, "chip": part}]
        run = part
        if index is None and part == stride:
            run, loops = rows * part, []
        values = {"mem_base": mem, "chip_base": 0, "run": run, "loop": loops}
        if load:
            values["space"] = Space.SPAD
        bases = {"mem_base": memory, "chip_base": slot}
        accesses = [
            Access(buffer=memory, start=base, stop=stop, write=not load),
            Access(buffer=slot, start=0, stop=rows * part, write=load),
        ]
        if index is not None:
            values |= {"indexed": 1, "index_base": 0}
            bases["index_base"] = index
            accesses.append(Access(buffer=index, start=0, stop=OFFSET_BYTES * rows, write=False))
        self.node(opcode, values, bases, accesses, f"rows {where}")

"""What emitters of all layers share: rotating buffers, loads and stores, parameters, TABLE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spec.isa import Space
from sw.compiler.kernels.boxes import Box, address
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.dma import Box as Dims
from sw.compiler.kernels.dma import chip_extent, copies, load_box, memory_extent
from sw.compiler.kernels.operands import Epilogue
from sw.compiler.kernels.params import pack_params
from sw.compiler.kernels.slots import Slots
from sw.compiler.kernels.views import View
from sw.compiler.program.records import Load, Record, Store
from sw.compiler.program.virtual import Access, Buffer, Place, VirtualInstruction


@dataclass(frozen=True, slots=True)
class Spot:
    """A box on chip: its first byte within `buffer`; bytes between its rows and pixels."""

    buffer: Buffer
    at: int
    line: int
    pixel: int

    def is_dense(self, box: Box, item: int) -> bool:
        """Whether the elements of this box lie one after another."""
        pixel = box.channels * item
        return (self.pixel == pixel or box.vectors == 1) and (
            self.line == box.cols * pixel or box.rows == 1
        )

    def inside(self, box: Box, region: Box) -> "Spot":
        """The place of `region` of this box."""
        skip = (region.y0 - box.y0) * self.line + (region.x0 - box.x0) * self.pixel
        return Spot(self.buffer, self.at + skip, self.line, self.pixel)


def touch(
    buffer: Buffer, view: View, box: Box, *, write: bool, level: int = 0, iteration: int = 0
) -> Access:
    """The access of a box of a tensor on chip: as much of its memory as is really touched."""
    s0, s1, s2 = view.strides
    start = view.offset + box.batch * s0 + box.y0 * s1 + box.x0 * s2
    stop = view.offset + box.batch * s0 + (box.y1 - 1) * s1 + (box.x1 - 1) * s2
    low, high = box.c0 * view.item, box.c1 * view.item
    regular = s0 % s2 == 0 and s1 % s2 == 0 if s2 else False
    first = view.offset % s2 if regular else 0
    whole = not regular or (low == 0 and high == s2) or first + high > s2
    return Access(
        buffer=buffer,
        start=start + low,
        stop=stop + high,
        write=write,
        level=level,
        iteration=iteration,
        pitch=0 if whole else s2,
        lanes=(0, 0) if whole else (first + low, first + high),
    )


class LayerEmitter:
    """Appends the instructions of one layer to the program."""

    def __init__(self, name: str, context: EmitContext) -> None:
        self.name, self.context, self.config = name, context, context.config

    def slots(self, what: str, place: Place, count: int, size: int) -> Slots:
        """`count` new buffers of `size` in rotation."""
        virtual = self.context.virtual
        names = [f"{self.name}.{what}{i}" for i in range(count)]
        return Slots([virtual.buffer(name, place, size, self.context.index) for name in names])

    def append(
        self, record: Record, bases: Mapping[str, Buffer], accesses: Sequence[Access], note: str
    ) -> None:
        """Append an instruction."""
        self.context.virtual.instructions.append(
            VirtualInstruction(
                record=record,
                bases=bases,
                accesses=accesses,
                layer=self.context.index,
                note=f"{self.name}: {note}",
            )
        )

    def load_box(self, view: View, box: Box, slot: Buffer, note: str) -> None:
        """Load `box` of a tensor to the start of `slot`, pixel after pixel."""
        pixel = box.channels * view.item
        mem = address(view, box)
        dims = [
            (box.rows, view.strides[1], box.cols * pixel),
            (box.cols, view.strides[2], pixel),
        ]
        run, loops = load_box(dims, pixel)
        source = self.context.tensors[view.tensor]
        stop = mem + memory_extent(loops, run)
        self.append(
            Load(mem_base=mem, run=run, loop=loops),
            {"mem_base": source, "chip_base": slot},
            [
                Access(buffer=source, start=mem, stop=stop, write=False),
                Access(buffer=slot, start=0, stop=box.elements * view.item, write=True),
            ],
            note,
        )

    def load_table_bytes(self, data: bytes) -> None:
        """Load a TABLE, unless it is there: 256 int8, or 513 int16."""
        if self.context.virtual.table == data:
            return
        self.context.virtual.table = data
        self.load_constant(data, Space.TABLE, self.context.table, len(data), "table")

    def load_constant(self, data: bytes, space: Space, slot: Buffer, size: int, note: str) -> None:
        """Load a constant to the beginning of `slot`: `size` of its units."""
        mem = self.context.constants.add(data)
        self.load_run(self.context.constants.buffer, mem, len(data), slot, size, note, space)

    def load_run(
        self,
        source: Buffer,
        mem: int,
        run: int,
        slot: Buffer,
        size: int,
        note: str,
        space: Space = Space.SPAD,
    ) -> None:
        """Load `run` bytes at `mem` of `source` to the beginning of `slot`: `size` of its units."""
        self.append(
            Load(mem_base=mem, run=run, space=space),
            {"mem_base": source, "chip_base": slot},
            [
                Access(buffer=source, start=mem, stop=mem + run, write=False),
                Access(buffer=slot, start=0, stop=size, write=True),
            ],
            note,
        )

    def load_copies(
        self,
        source: Buffer,
        mem: int,
        box: Dims,
        item: int,
        slot: Buffer,
        at: int,
        size: int,
        note: str,
        first: int = 0,
    ) -> None:
        """Load a box of elements at `mem` to byte `at` of `slot`, whose bytes from `first` to
        `size` count as written by each of the instructions.
        """
        for copy in copies(box, item):
            start, stop = copy.memory_span()
            self.append(
                Load(
                    mem_base=mem + copy.mem,
                    chip_base=at + copy.chip,
                    run=copy.run,
                    loop=copy.loops,
                ),
                {"mem_base": source, "chip_base": slot},
                [
                    Access(buffer=source, start=mem + start, stop=mem + stop, write=False),
                    Access(buffer=slot, start=first, stop=size, write=True),
                ],
                note,
            )

    def store_tile(self, view: View, box: Box, source: Buffer) -> None:
        """Store a box of a tensor that lies pixel after pixel at the start of `source`."""
        pixel = box.channels * view.item
        dims = [
            (box.rows, view.strides[1], box.cols * pixel),
            (box.cols, view.strides[2], pixel),
        ]
        note = f"store y{box.y0} x{box.x0} c{box.c0}"
        self.store_box(view, address(view, box), source, dims, pixel, note)

    def store_box(
        self, view: View, mem: int, source: Buffer, box: Dims, run: int, note: str, slices: int = 1
    ) -> None:
        """Store a box that lies at the start of `source` at byte `mem` of a tensor.

        With `slices` > 1 dimension 0 of the box has that many steps, and each waits for its own
        data.
        """
        target = self.context.tensors[view.tensor]
        run, loops = load_box(box, run, keep_outer=slices > 1)
        span = chip_extent(loops, run)
        step = loops[0].chip if slices > 1 else 0
        reads = [
            Access(
                buffer=source,
                start=i * step,
                stop=i * step + span - (slices - 1) * step,
                write=False,
                level=int(slices > 1),
                iteration=i,
            )
            for i in range(slices)
        ]
        stop = mem + memory_extent(loops, run)
        self.append(
            Store(mem_base=mem, run=run, loop=loops),
            {"mem_base": target, "chip_base": source},
            [*reads, Access(buffer=target, start=mem, stop=stop, write=True)],
            note,
        )

    def store_copies(
        self, target: Buffer, mem: int, box: Dims, item: int, slot: Buffer, note: str, at: int = 0
    ) -> None:
        """Store a box of elements from byte `at` of `slot` on at `mem` of `target`."""
        for copy in copies(box, item):
            (start, stop), (first, end) = copy.memory_span(), copy.chip_span()
            self.append(
                Store(
                    mem_base=mem + copy.mem,
                    chip_base=at + copy.chip,
                    run=copy.run,
                    loop=copy.loops,
                ),
                {"mem_base": target, "chip_base": slot},
                [
                    Access(buffer=slot, start=at + first, stop=at + end, write=False),
                    Access(buffer=target, start=mem + start, stop=mem + stop, write=True),
                ],
                note,
            )


class EpilogueEmitter(LayerEmitter):
    """The same for layers with an epilogue, which may have parameters and a TABLE."""

    def __init__(self, name: str, epilogue: Epilogue, context: EmitContext) -> None:
        super().__init__(name, context)
        self.epilogue = epilogue

    def load_params(self, o0: int, o1: int, slot: Buffer) -> None:
        """Load the parameter entries of output channels o0…o1."""
        if self.epilogue.params is not None:
            self._load_packed(self.epilogue.params, o0, o1, slot)
            return
        data = pack_params(self.epilogue.param_passes, o0, o1, self.config)
        entries = len(data) // self.config.param_entry_bytes
        self.load_constant(data, Space.PARAM, slot, entries, f"params c{o0}")

    def _load_packed(self, view: View, o0: int, o1: int, slot: Buffer) -> None:
        """The same, of entries that lie in memory."""
        cols, entry = self.config.cols, self.config.param_entry_bytes
        assert o0 % cols == 0
        mem, entries = view.offset + o0 // cols * entry, -(-(o1 - o0) // cols)
        source = self.context.tensors[view.tensor]
        self.load_run(source, mem, entries * entry, slot, entries, f"params c{o0}", Space.PARAM)

    def load_table(self) -> None:
        """Load the layer's TABLE, if one of its passes has one."""
        for each in self.epilogue.passes:
            if each.table is not None:
                self.load_table_bytes(each.table.tobytes())

    def table_reads(self, each: Epilogue | None = None) -> list[Access]:
        """The access of a VECTOR to the TABLE, if its pass (the last one) has one."""
        table = (each or self.epilogue).table
        if table is None:
            return []
        return [Access(buffer=self.context.table, start=0, stop=table.nbytes, write=False)]

"""Instructions of a PoolLayer: the kernel's taps are reduction loops of VECTOR.

A step reads one tap, or two that lie a number of rows or columns apart: see taps.py.
"""

from collections.abc import Iterator
from dataclasses import replace

from spec.isa import Alu, Reduce, Scale
from spec.numerics import RANGES, reciprocal_scale
from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.emitter import Spot
from sw.compiler.kernels.pool.cost import pair_fields, tap_rate
from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.kernels.pool.plan import pool_work
from sw.compiler.kernels.pool.taps import Taps, paired_taps, single_taps
from sw.compiler.kernels.pool.windows import same_taps
from sw.compiler.kernels.vector.emit import VectorEmitter
from sw.compiler.kernels.vector.plan import VectorPlan, aligned
from sw.compiler.kernels.views import DTYPE
from sw.compiler.kernels.windows import WindowAxis
from sw.compiler.machine.costs import VECTOR_TILE_CYCLES
from sw.compiler.program.cycles import vector_cycles
from sw.compiler.program.records import Vector, VectorFields, VectorLoop
from sw.compiler.program.virtual import Access, Buffer, Place


def emit_pool(layer: PoolLayer, plan: VectorPlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _PoolEmitter(layer, plan, context).run()


class _PoolEmitter(VectorEmitter):
    def __init__(self, layer: PoolLayer, plan: VectorPlan, context: EmitContext) -> None:
        work = pool_work(layer, context.config)
        super().__init__(layer.name, layer.epilogue, work, plan, context)
        self.layer = layer
        self.axes = WindowAxis.of(layer, (1, 1))
        self.rate = tap_rate(layer, context.config, layer.output.shape[3])
        self.between: Buffer | None = None
        if work.separate:
            self.between = self.slots("rows", Place.SPAD, 1, plan.between_bytes).buffers[0]

    def compute(self, box: Box) -> None:
        if self.work.separate and self.work.reads(box).elements > 0:
            self._rows_then_columns(box)
            return
        for region, fields in self._regions(box):
            ways = [self._records(box, region, way, fields) for way in self._ways(region)]
            for part, record in min(ways, key=self._cycles):
                self.vector(box, part, record)

    def _ways(self, region: Box) -> list[list[tuple[Taps, Taps]]]:
        """How the taps of a region's windows may be taken: two a step down, or to the right, or one
        a step. Each way is a list of instructions: which rows of outputs, and which columns.
        """
        y, x = self.axes
        down = single_taps(y, region.y0, region.y1)
        right = single_taps(x, region.x0, region.x1)
        blocks = -(-region.channels // self.config.cols)
        each_row, each_col = blocks * region.cols * right.steps, blocks * region.rows * down.steps
        rows = paired_taps(y, region.y0, region.y1, self.rate, each_row)
        cols = paired_taps(x, region.x0, region.x1, self.rate, each_col)
        return [
            [(taps, right) for taps in rows],
            [(down, taps) for taps in cols],
            [(down, right)],
        ]

    def _records(
        self, box: Box, region: Box, way: list[tuple[Taps, Taps]], fields: VectorFields
    ) -> list[tuple[Box, Vector]]:
        """The instructions of a way, each with its part of the region."""
        parts = [
            replace(region, y0=rows.start, y1=rows.stop, x0=cols.start, x1=cols.stop)
            for rows, cols in way
        ]
        return [
            (part, self._record(box, part, taps, fields))
            for part, taps in zip(parts, way, strict=True)
        ]

    def _cycles(self, records: list[tuple[Box, Vector]]) -> float:
        """Of all instructions; they differ in what A and B read from the same banks, too."""
        return sum(
            VECTOR_TILE_CYCLES + vector_cycles(record, self.config, near=True)
            for _, record in records
        )

    def _regions(self, box: Box) -> Iterator[tuple[Box, VectorFields]]:
        """Regions of a box, and the RESCALE of each."""
        layer = self.layer
        if layer.sums or not layer.average:
            yield box, VectorFields()
            return
        # An average divides by the taps inside the input: as many RESCALEs as there are counts.
        for y0, y1, taps_y in same_taps(box.y0, box.y1, layer, 0):
            for x0, x1, taps_x in same_taps(box.x0, box.x1, layer, 1):
                region = replace(box, y0=y0, y1=y1, x0=x0, x1=x1)
                multiplier, shift = reciprocal_scale(taps_y * taps_x)
                scale = VectorFields(o_scale=Scale.TENSOR, o_mult=multiplier, o_shift=shift)
                yield region, scale

    def _record(
        self, box: Box, region: Box, taps: tuple[Taps, Taps], fields: VectorFields
    ) -> Vector:
        layer, item, cols = self.layer, self.output.item, self.config.cols
        view, reads = layer.input, self.work.reads(box)
        source = self.place(view, self.slots_in[0], reads, box)
        out = self.place(self.output, self.slots_out, box, box)
        (sy, sx), (py, px) = layer.stride, layer.pad
        down, right = taps
        y, x = region.y0 * sy - py + down.first, region.x0 * sx - px + right.first
        blocks, lanes = -(-box.channels // cols), min(cols, box.channels)
        line, pixel, kind = source.line, source.pixel, DTYPE[view.dtype]
        base = source.at + (y - reads.y0) * line + (x - reads.x0) * pixel
        block = cols * view.item
        fields = self.result_fields() | fields
        fields |= VectorFields(
            a_type=kind,
            a_zp=layer.input_zp,
            a_base=base,
            o_base=out.inside(box, region).at,
            reduce=Reduce.SUM if layer.average else Reduce.MAX,
            reduce_loops=0b11000,
            y0=y,
            x0=x,
            # Both taps of a step lie inside if the first one does.
            height=view.shape[1] - down.apart,
            width=view.shape[2] - right.apart,
            lane_loop=0,
            lanes=lanes,
            lanes_last=box.channels - (blocks - 1) * lanes,
        )
        loops = [
            VectorLoop(count=blocks, a=block, o=cols * item),
            VectorLoop(count=region.rows, a=sy * line, o=out.line, dy=sy),
            VectorLoop(count=region.cols, a=sx * pixel, o=out.pixel, dx=sx),
            VectorLoop(count=down.steps, a=line, dy=1),
            VectorLoop(count=right.steps, a=pixel, dx=1),
        ]
        distance = down.apart * line + right.apart * pixel
        return self._with_second_tap(Vector(**fields, loop=loops), distance)

    def _with_second_tap(self, record: Vector, distance: int) -> Vector:
        """The same with operand B, so many bytes behind A; 0: there is none."""
        if not distance:
            return record
        loops = [loop._replace(b=loop.a) for loop in record.loop]
        second = pair_fields(self.layer) | VectorFields(b_base=record.a_base + distance)
        return record._replace(**second, loop=loops)

    # Rows, then columns -----------------------------------------------------------------------

    def _rows_then_columns(self, box: Box) -> None:
        """The maxima of every input column over the windows' rows, and of these over columns."""
        assert self.between is not None
        view, cols, reads = self.layer.input, self.config.cols, self.work.reads(box)
        source = self.place(view, self.slots_in[0], reads, box)
        size = box.channels * view.item
        # Pixels without bytes between them are vectors of whatever channels, if that is fewer.
        flat = box.channels > cols and box.channels % cols > 0 and source.pixel == size
        pixel = size if flat else aligned(size, self.config)
        between = Spot(self.between, 0, reads.cols * pixel, pixel)
        pixels = 1 if flat else reads.cols
        channels = reads.cols * box.channels // pixels
        y, x = self.axes
        for taps in paired_taps(y, box.y0, box.y1, self.rate, pixels * -(-channels // cols)):
            self._rows(box, reads, taps, between, (pixels, channels))
        blocks = -(-box.channels // cols)
        for taps in paired_taps(x, box.x0, box.x1, self.rate, blocks * box.rows):
            self._columns(box, reads, taps, between)

    def _rows(self, box: Box, reads: Box, taps: Taps, between: Spot, row: tuple[int, int]) -> None:
        """Of rows of outputs: the maxima of each input column. row: its pixels, and channels."""
        layer, view, block = self.layer, self.layer.input, self.config.cols * self.layer.input.item
        source, sy = self.place(view, self.slots_in[0], reads, box), layer.stride[0]
        y, line = taps.start * sy - layer.pad[0] + taps.first, source.line
        low, high = RANGES[DTYPE[view.dtype]]
        start, stop = ((at - box.y0) * between.line for at in (taps.start, taps.stop))
        pixels, channels = row
        fields = self._lanes(channels) | VectorFields(
            a_base=source.at + (y - reads.y0) * line,
            o_base=start,
            o_type=DTYPE[view.dtype],
            o_min=low,
            o_max=high,
            y0=y,
            height=view.shape[1] - taps.apart,
        )
        loops = [
            VectorLoop(count=-(-channels // self.config.cols), a=block, o=block),
            VectorLoop(count=taps.stop - taps.start, a=sy * line, o=between.line, dy=sy),
            VectorLoop(count=pixels, a=source.pixel, o=between.pixel),
            VectorLoop(count=taps.steps, a=line, dy=1),
        ]
        record = self._with_second_tap(Vector(**fields, loop=loops), taps.apart * line)
        accesses = [
            self._touch(view, source, reads, write=False),
            Access(buffer=between.buffer, start=start, stop=stop, write=True),
        ]
        bases = {"a_base": source.buffer, "o_base": between.buffer}
        self._append(record, bases, accesses, f"rows y{taps.start} x{box.x0} c{box.c0}")

    def _columns(self, box: Box, reads: Box, taps: Taps, between: Spot) -> None:
        """Of columns of outputs: the maxima of what came of the rows."""
        layer, view, cols = self.layer, self.layer.input, self.config.cols
        whole, sx = self.place(self.output, self.slots_out, box, box), layer.stride[1]
        region = replace(box, x0=taps.start, x1=taps.stop)
        x, out = taps.start * sx - layer.pad[1] + taps.first, whole.inside(box, region)
        pixel = between.pixel
        fields = self._lanes(box.channels) | self.result_fields()
        fields |= VectorFields(
            a_base=(x - reads.x0) * pixel,
            o_base=out.at,
            x0=x,
            width=view.shape[2] - taps.apart,
        )
        loops = [
            VectorLoop(
                count=-(-box.channels // cols), a=cols * view.item, o=cols * self.output.item
            ),
            VectorLoop(count=box.rows, a=between.line, o=out.line),
            VectorLoop(count=region.cols, a=sx * pixel, o=out.pixel, dx=sx),
            VectorLoop(count=taps.steps, a=pixel, dx=1),
        ]
        record = self._with_second_tap(Vector(**fields, loop=loops), taps.apart * pixel)
        accesses = [
            Access(buffer=between.buffer, start=0, stop=box.rows * between.line, write=False),
            self._touch(self.output, out, region, write=True),
            *self.table_reads(),
        ]
        bases = {"a_base": between.buffer, "o_base": out.buffer}
        self._append(record, bases, accesses, f"columns y{box.y0} x{taps.start} c{box.c0}")

    def _append(
        self, record: Vector, bases: dict[str, Buffer], accesses: list[Access], note: str
    ) -> None:
        """Append a VECTOR, whose B is in the buffer of A if it has one."""
        if record.alu is not Alu.PASS:
            bases["b_base"] = bases["a_base"]
        self.append(record, bases, accesses, note)

    def _lanes(self, channels: int) -> VectorFields:
        """Fields of a maximum over whole vectors of so many channels."""
        blocks, lanes = -(-channels // self.config.cols), min(self.config.cols, channels)
        return VectorFields(
            a_type=DTYPE[self.layer.input.dtype],
            reduce=Reduce.MAX,
            reduce_loops=0b1000,
            lane_loop=0,
            lanes=lanes,
            lanes_last=channels - (blocks - 1) * lanes,
        )

"""Instructions of a PoolLayer: the kernel's taps are reduction loops of VECTOR."""

from collections.abc import Iterator
from dataclasses import replace

from spec.isa import Reduce, Scale
from spec.numerics import RANGES, reciprocal_scale
from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.kernels.pool.plan import pool_work
from sw.compiler.kernels.pool.windows import same_taps
from sw.compiler.kernels.vector.emit import VectorEmitter
from sw.compiler.kernels.vector.plan import VectorPlan
from sw.compiler.kernels.views import DTYPE
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
        self.between: Buffer | None = None
        if layer.is_separate:
            self.between = self.slots("rows", Place.SPAD, 1, plan.between_bytes).buffers[0]

    def compute(self, box: Box) -> None:
        if self.layer.is_separate:
            self._rows_then_columns(box)
            return
        for region, fields in self._regions(box):
            self.vector(box, region, self._record(box, region, fields))

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

    def _record(self, box: Box, region: Box, fields: VectorFields) -> Vector:
        layer, item, cols = self.layer, self.output.item, self.config.cols
        view, reads = layer.input, self.work.reads(box)
        source = self.place(view, self.slots_in[0], reads, box)
        out = self.place(self.output, self.slots_out, box, box)
        (ky, kx), (sy, sx), (py, px) = layer.kernel, layer.stride, layer.pad
        y, x = region.y0 * sy - py, region.x0 * sx - px
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
            height=view.shape[1],
            width=view.shape[2],
            lane_loop=0,
            lanes=lanes,
            lanes_last=box.channels - (blocks - 1) * lanes,
        )
        down, right = sy * line, sx * pixel
        loops = [
            VectorLoop(count=blocks, a=block, o=cols * item),
            VectorLoop(count=region.rows, a=down, o=out.line, dy=sy),
            VectorLoop(count=region.cols, a=right, o=out.pixel, dx=sx),
            VectorLoop(count=ky, a=line, dy=1),
            VectorLoop(count=kx, a=pixel, dx=1),
        ]
        return Vector(**fields, loop=loops)

    # Rows, then columns -----------------------------------------------------------------------

    def _rows_then_columns(self, box: Box) -> None:
        """The maxima of every input column over the windows' rows, and of these over columns."""
        layer, view, reads = self.layer, self.layer.input, self.work.reads(box)
        if reads.elements <= 0:
            self.vector(box, box, self._record(box, box, VectorFields()))
            return
        assert self.between is not None
        (ky, kx), (sy, sx), (py, px) = layer.kernel, layer.stride, layer.pad
        source = self.place(view, self.slots_in[0], reads, box)
        out = self.place(self.output, self.slots_out, box, box)
        pixel, kind = box.channels * view.item, DTYPE[view.dtype]
        line = reads.cols * pixel
        low, high = RANGES[kind]
        between = Access(buffer=self.between, start=0, stop=box.rows * line, write=True)
        note = f"y{box.y0} x{box.x0} c{box.c0}"
        y = box.y0 * sy - py
        rows = self._lanes(box) | VectorFields(
            a_type=kind,
            a_base=source.at + (y - reads.y0) * source.line,
            o_type=kind,
            o_min=low,
            o_max=high,
            reduce_loops=0b1000,
            y0=y,
            height=view.shape[1],
        )
        block = self.config.cols
        loops = [
            VectorLoop(count=-(-box.channels // block), a=block * view.item, o=block * view.item),
            VectorLoop(count=box.rows, a=sy * source.line, o=line, dy=sy),
            VectorLoop(count=reads.cols, a=source.pixel, o=pixel),
            VectorLoop(count=ky, a=source.line, dy=1),
        ]
        read = self._touch(view, source, reads, write=False)
        bases = {"a_base": source.buffer, "o_base": self.between}
        self.append(Vector(**rows, loop=loops), bases, [read, between], f"rows {note}")
        x = box.x0 * sx - px
        columns = self._lanes(box) | self.result_fields()
        columns |= VectorFields(
            a_type=kind,
            a_base=(x - reads.x0) * pixel,
            o_base=out.at,
            reduce_loops=0b1000,
            x0=x,
            width=view.shape[2],
        )
        loops = [
            VectorLoop(
                count=-(-box.channels // block), a=block * view.item, o=block * self.output.item
            ),
            VectorLoop(count=box.rows, a=line, o=out.line),
            VectorLoop(count=box.cols, a=sx * pixel, o=out.pixel, dx=sx),
            VectorLoop(count=kx, a=pixel, dx=1),
        ]
        accesses = [
            replace(between, write=False),
            self._touch(self.output, out, box, write=True),
            *self.table_reads(),
        ]
        bases = {"a_base": self.between, "o_base": out.buffer}
        self.append(Vector(**columns, loop=loops), bases, accesses, f"columns {note}")

    def _lanes(self, box: Box) -> VectorFields:
        """Fields of a maximum over whole vectors of channels."""
        blocks, lanes = -(-box.channels // self.config.cols), min(self.config.cols, box.channels)
        return VectorFields(
            reduce=Reduce.MAX,
            lane_loop=0,
            lanes=lanes,
            lanes_last=box.channels - (blocks - 1) * lanes,
        )

"""Instructions of a PoolLayer: the kernel's taps are reduction loops of VECTOR."""

from collections.abc import Iterator
from dataclasses import replace

from spec.isa import Reduce, Scale
from spec.numerics import reciprocal_scale
from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.kernels.pool.plan import pool_work
from sw.compiler.kernels.pool.windows import same_taps
from sw.compiler.kernels.vector.emit import VectorEmitter
from sw.compiler.kernels.vector.plan import VectorPlan
from sw.compiler.kernels.views import DTYPE
from sw.compiler.program.records import Vector, VectorFields, VectorLoop


def emit_pool(layer: PoolLayer, plan: VectorPlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _PoolEmitter(layer, plan, context).run()


class _PoolEmitter(VectorEmitter):
    def __init__(self, layer: PoolLayer, plan: VectorPlan, context: EmitContext) -> None:
        work = pool_work(layer, context.config)
        super().__init__(layer.name, layer.epilogue, work, plan, context)
        self.layer = layer

    def compute(self, box: Box) -> None:
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

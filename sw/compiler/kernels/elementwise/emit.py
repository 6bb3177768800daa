"""Instructions of an ElementwiseLayer: one VECTOR a box."""

from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.elementwise.layer import ElementwiseLayer
from sw.compiler.kernels.elementwise.plan import arithmetic, elementwise_work
from sw.compiler.kernels.emitter import Spot
from sw.compiler.kernels.vector.emit import VectorEmitter
from sw.compiler.kernels.vector.plan import VectorPlan
from sw.compiler.program.records import Vector, VectorFields, VectorLoop


def emit_elementwise(layer: ElementwiseLayer, plan: VectorPlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _ElementwiseEmitter(layer, plan, context).run()


class _ElementwiseEmitter(VectorEmitter):
    def __init__(self, layer: ElementwiseLayer, plan: VectorPlan, context: EmitContext) -> None:
        work = elementwise_work(layer, context.config)
        super().__init__(layer.name, layer.epilogue, work, plan, context)
        self.layer = layer

    def compute(self, box: Box) -> None:
        self.vector(box, box, self._record(box))

    def _record(self, box: Box) -> Vector:
        """The VECTOR over all of a box."""
        layer = self.layer
        a, b, item = layer.a, layer.b, self.output.item
        cols = self.config.cols
        first, *more = (
            self.place(view, slots, box, box)
            for view, slots in zip(self.ins, self.slots_in, strict=True)
        )
        second = more[0] if more else Spot(first.buffer, 0, 0, 0)
        out = self.place(self.output, self.slots_out, box, box)
        a_item, b_item = a.view.item, b.view.item if b is not None else 0
        places = [(first, a_item), (second, b_item), (out, item)][:: 1 if more else 2]
        if self.params is None and all(p.is_dense(box, size) for p, size in places):
            count, lanes = -(-box.elements // cols), min(cols, box.elements)
            last = box.elements - (count - 1) * lanes
            loops = [VectorLoop(count=count, a=cols * a_item, b=cols * b_item, o=cols * item)]
        else:
            count, lanes = -(-box.channels // cols), min(cols, box.channels)
            last = box.channels - (count - 1) * lanes
            loops = [
                VectorLoop(
                    count=count,
                    a=cols * a_item,
                    b=cols * b_item,
                    o=cols * item,
                    param=int(self.params is not None),
                ),
                VectorLoop(count=box.rows, a=first.line, b=second.line, o=out.line),
                VectorLoop(count=box.cols, a=first.pixel, b=second.pixel, o=out.pixel),
            ]
        fields = self.result_fields() | arithmetic(layer)
        fields |= VectorFields(
            a_base=first.at,
            b_base=second.at,
            o_base=out.at,
            lane_loop=0,
            lanes=lanes,
            lanes_last=last,
        )
        return Vector(**fields, loop=loops)

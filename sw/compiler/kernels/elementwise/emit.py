"""Instructions of an ElementwiseLayer: one VECTOR a box."""

from typing import Any

from spec.isa import Scale
from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.elementwise.layer import ElementwiseLayer
from sw.compiler.kernels.elementwise.plan import elementwise_work
from sw.compiler.kernels.emitter import Spot
from sw.compiler.kernels.epilogue import operand_values
from sw.compiler.kernels.vector.emit import VectorEmitter
from sw.compiler.kernels.vector.plan import VectorPlan


def emit_elementwise(layer: ElementwiseLayer, plan: VectorPlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _ElementwiseEmitter(layer, plan, context).run()


class _ElementwiseEmitter(VectorEmitter):
    def __init__(self, layer: ElementwiseLayer, plan: VectorPlan, context: EmitContext) -> None:
        super().__init__(layer.name, layer.epilogue, elementwise_work(layer), plan, context)
        self.layer = layer

    def compute(self, box: Box) -> None:
        self.vector(box, box, self._values(box))

    def _values(self, box: Box) -> dict[str, Any]:
        """Fields of the VECTOR over all of a box."""
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
            loops = [{"count": count, "a": cols * a_item, "b": cols * b_item, "o": cols * item}]
        else:
            count, lanes = -(-box.channels // cols), min(cols, box.channels)
            last = box.channels - (count - 1) * lanes
            loops = [
                {
                    "count": count,
                    "a": cols * a_item,
                    "b": cols * b_item,
                    "o": cols * item,
                    "param": int(self.params is not None),
                },
                {"count": box.rows, "a": first.line, "b": second.line, "o": out.line},
                {"count": box.cols, "a": first.pixel, "b": second.pixel, "o": out.pixel},
            ]
        values: dict[str, Any] = {
            **operand_values("a", a),
            **({} if b is None else operand_values("b", b)),
            "a_base": first.at,
            "b_base": second.at,
            "o_base": out.at,
            "alu": layer.alu,
            "lane_loop": 0,
            "lanes": lanes,
            "lanes_last": last,
            "loop": loops,
        }
        epilogue = layer.epilogue
        values["o_scale"] = epilogue.scale
        if epilogue.scale is Scale.TENSOR:
            assert epilogue.multiplier is not None and epilogue.shift is not None
            values |= {"o_mult": int(epilogue.multiplier[0]), "o_shift": int(epilogue.shift[0])}
        return values

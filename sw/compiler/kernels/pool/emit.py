"""Schedules of pooling and elementwise layers: load a box, compute it, store it, all overlapped."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spec.config import NpuConfig
from spec.isa import Alu, Opcode, Reduce, Scale, Space
from spec.numerics import reciprocal_scale
from sw.compiler.kernels.conv.geometry import Box, address
from sw.compiler.kernels.dma import store_box
from sw.compiler.kernels.emitter import LayerEmitter, Resources, Spot, touch
from sw.compiler.kernels.epilogue import operand_values
from sw.compiler.kernels.layers import ElementwiseLayer, PoolLayer
from sw.compiler.kernels.pool.plan import (
    VectorLayer,
    VectorPlan,
    boxes,
    input_box,
    pair_rows,
    pair_runs,
    same_taps,
    views,
)
from sw.compiler.kernels.slots import Slots
from sw.compiler.kernels.views import DTYPE, View
from sw.compiler.program.draft import Access, Place


class VectorScheduler(LayerEmitter):
    """Emits the nodes of one pooling or elementwise layer into a draft."""

    def __init__(
        self, layer: VectorLayer, plan: VectorPlan, config: NpuConfig, res: Resources, index: int
    ) -> None:
        super().__init__(layer.name, layer.epilogue, config, res, index)
        self.layer, self.plan = layer, plan
        self.ins, self.output = views(layer, plan.flat)
        self.slots_in = [
            None if res.held(view) else self.slots(f"in{i}_", Place.SPAD, plan.slots, size)
            for i, (view, size) in enumerate(zip(self.ins, plan.in_bytes, strict=True))
        ]
        self.slots_out = (
            None
            if res.held(self.output)
            else self.slots("out", Place.SPAD, plan.slots, plan.out_bytes)
        )
        channels = self.output.shape[3]
        self.params: Slots | None = None
        if layer.epilogue.scale is Scale.CHANNEL:
            count = min(2, -(-channels // plan.tc))
            self.params = self.slots("param", Place.PARAM, count, -(-plan.tc // config.cols))

    def run(self) -> None:
        """Emit the whole layer; loads run ahead by the number of slots."""
        self.load_table()
        todo = list(boxes(self.layer, self.plan))
        ahead = self.plan.slots
        for box in todo[:ahead]:
            self._load(box)
        for i, box in enumerate(todo):
            self._compute(box)
            self._store(box)
            if i + ahead < len(todo):
                self._load(todo[i + ahead])

    def _load(self, box: Box) -> None:
        if self.params is not None:
            param, fresh = self.params.get(box.c0, None)
            assert param is not None
            if fresh:
                self.load_params(box.c0, box.c1, param)
        reads = input_box(self.layer, box, self.plan)
        for view, slots in zip(self.ins, self.slots_in, strict=True):
            if slots is None:
                continue
            slot, _ = slots.get(box, None)
            assert slot is not None
            if reads.elements > 0:
                self.load_box(view, reads, slot, f"in y{reads.y0} x{reads.x0} c{reads.c0}")

    def _place(self, view: View, slots: Slots | None, box: Box, whole: Box) -> Spot:
        """Where the pixels of `box` lie: in the slot of output box `whole`, or on chip for good."""
        held = self.res.held(view)
        if held is not None:
            return Spot(held, address(view, box), view.strides[1], view.strides[2])
        assert slots is not None
        slot, _ = slots.get(whole, None)
        assert slot is not None
        pixel = box.channels * view.item
        return Spot(slot, 0, box.cols * pixel, pixel)

    def _touch(self, view: View, place: Spot, box: Box, write: bool) -> Access:
        """The access of `box`, which lies at `place`."""
        if self.res.held(view) is not None:
            return touch(place.buffer, view, box, write=write)
        size = (box.rows - 1) * place.line + box.cols * place.pixel
        return Access(buffer=place.buffer, start=place.at, stop=place.at + size, write=write)

    def _store(self, box: Box) -> None:
        if self.slots_out is None:
            return
        out, _ = self.slots_out.get(box, None)
        assert out is not None
        view = self.output
        pixel = box.channels * view.item
        dims = [
            (box.rows, view.strides[1], box.cols * pixel),
            (box.cols, view.strides[2], pixel),
        ]
        node = store_box(self.res.tensors[view.tensor], address(view, box), out, dims, pixel)
        self.append(node, f"store y{box.y0} x{box.x0} c{box.c0}")

    def _compute(self, box: Box) -> None:
        if isinstance(self.layer, PoolLayer):
            for region, own in self._pool_regions(self.layer, box):
                values = self._pool(self.layer, box, region)
                if own.get("alu") is Alu.MAX:
                    self._pair(self.layer, values)
                self._vector(box, region, values | own)
        else:
            self._vector(box, box, self._elementwise(self.layer, box))

    def _vector(self, box: Box, region: Box, values: dict[str, Any]) -> None:
        """Compute `region` of output box `box`; the addresses in `values` are within buffers."""
        epilogue = self.layer.epilogue
        values = {
            "a_space": Space.SPAD,
            "o_space": Space.SPAD,
            "o_zp": epilogue.zero_point,
            "o_min": epilogue.low,
            "o_max": epilogue.high,
            "o_type": epilogue.dtype,
            "table": epilogue.lookup,
            **values,
        }
        reads = input_box(self.layer, box, self.plan)
        operands = [
            self._place(view, slots, reads, box)
            for view, slots in zip(self.ins, self.slots_in, strict=True)
        ]
        out = self._place(self.output, self.slots_out, box, box)
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
        elif values["alu"] is not Alu.PASS:
            bases["b_base"] = operands[0].buffer
        if self.params is not None:
            held = self.params.get(box.c0, None)[0]
            assert held is not None
            bases["param_base"] = held
            entries = -(-box.channels // self.config.cols)
            accesses.append(Access(buffer=held, start=0, stop=entries, write=False))
        accesses += self.table_reads()
        self.node(Opcode.VECTOR, values, bases, accesses, f"compute y{box.y0} x{box.x0} c{box.c0}")

    # Elementwise ------------------------------------------------------------------------------

    def _elementwise(self, layer: ElementwiseLayer, box: Box) -> dict[str, Any]:
        a, b, item = layer.a, layer.b, self.output.item
        cols = self.config.cols
        first, *more = (
            self._place(view, slots, box, box)
            for view, slots in zip(self.ins, self.slots_in, strict=True)
        )
        second = more[0] if more else Spot(first.buffer, 0, 0, 0)
        out = self._place(self.output, self.slots_out, box, box)
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

    # Pooling ----------------------------------------------------------------------------------

    def _pool_regions(self, layer: PoolLayer, box: Box) -> Iterator[tuple[Box, dict[str, Any]]]:
        """Regions and how they differ: averages in the RESCALE, maxima in taking rows in pairs."""
        if layer.sums:
            yield box, {}
            return
        h = layer.input.shape[1]
        if not layer.average:
            for y0, y1, pairs in pair_runs(box.y0, box.y1, layer, h):
                yield replace(box, y0=y0, y1=y1), {"alu": Alu.MAX} if pairs else {}
            return
        for y0, y1, taps_y in same_taps(box.y0, box.y1, layer, 0):
            for x0, x1, taps_x in same_taps(box.x0, box.x1, layer, 1):
                region = Box(batch=box.batch, y0=y0, y1=y1, x0=x0, x1=x1, c0=box.c0, c1=box.c1)
                multiplier, shift = reciprocal_scale(taps_y * taps_x)
                scale = {"o_scale": Scale.TENSOR, "o_mult": multiplier, "o_shift": shift}
                yield region, scale

    def _pool(self, layer: PoolLayer, box: Box, region: Box) -> dict[str, Any]:
        view, item, cols = layer.input, self.output.item, self.config.cols
        reads = input_box(layer, box, self.plan)
        source = self._place(view, self.slots_in[0], reads, box)
        out = self._place(self.output, self.slots_out, box, box)
        (ky, kx), (sy, sx), (py, px) = layer.kernel, layer.stride, layer.pad
        y, x = region.y0 * sy - py, region.x0 * sx - px
        blocks, lanes = -(-box.channels // cols), min(cols, box.channels)
        line, pixel = source.line, source.pixel
        return {
            "a_type": DTYPE[view.dtype],
            "a_zp": layer.input_zp,
            "a_base": source.at + (y - reads.y0) * line + (x - reads.x0) * pixel,
            "o_base": out.inside(box, region).at,
            "alu": Alu.PASS,
            "reduce": Reduce.SUM if layer.average else Reduce.MAX,
            "reduce_loops": 0b11000,
            "y0": y,
            "x0": x,
            "height": view.shape[1],
            "width": view.shape[2],
            "lane_loop": 0,
            "lanes": lanes,
            "lanes_last": box.channels - (blocks - 1) * lanes,
            "loop": [
                {"count": blocks, "a": cols * view.item, "o": cols * item},
                {"count": region.rows, "a": sy * line, "o": out.line, "dy": sy},
                {"count": region.cols, "a": sx * pixel, "o": out.pixel, "dx": sx},
                {"count": ky, "a": line, "dy": 1},
                {"count": kx, "a": pixel, "dx": 1},
            ],
        }

    def _pair(self, layer: PoolLayer, values: dict[str, Any]) -> None:
        """Take kernel rows in pairs, the second of each as B."""
        rows, line = layer.kernel[0], values["loop"][3]["a"]
        values["loop"][3]["count"] = pair_rows(rows)
        values["b_type"] = values["a_type"]
        values["b_base"] = values["a_base"] + (rows - pair_rows(rows)) * line
        for loop in values["loop"]:
            loop["b"] = loop["a"]

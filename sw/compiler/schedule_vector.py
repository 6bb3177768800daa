"""Schedules of pooling and elementwise layers: load a box, compute it, store it, all overlapped."""

from collections.abc import Iterator
from typing import Any

from spec.config import NpuConfig
from spec.isa import Alu, Opcode, Reduce, Scale, Space
from spec.numerics import reciprocal_scale
from sw.compiler.dma import bounding, load_box, store_box
from sw.compiler.draft import Access, Buffer, Place
from sw.compiler.emitter import LayerEmitter, Resources
from sw.compiler.layers import ElementwiseLayer, PoolLayer, View
from sw.compiler.slots import Slots
from sw.compiler.tiling_vector import (
    Box,
    VectorLayer,
    VectorPlan,
    address,
    boxes,
    input_box,
    views,
)

Range = tuple[int, int]


class VectorScheduler(LayerEmitter):
    """Emits the nodes of one pooling or elementwise layer into a draft."""

    def __init__(
        self, layer: VectorLayer, plan: VectorPlan, config: NpuConfig, res: Resources, index: int
    ) -> None:
        super().__init__(layer.name, layer.epilogue, config, res, index)
        self.layer, self.plan = layer, plan
        self.ins, self.output = views(layer, plan.flat)
        self.slots_in = [
            self.slots(f"in{i}_", Place.SPAD, plan.slots, size)
            for i, size in enumerate(plan.in_bytes)
        ]
        self.slots_out = self.slots("out", Place.SPAD, plan.slots, plan.out_bytes)
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
            slot, _ = slots.get(box, None)
            assert slot is not None
            if reads.elements > 0:
                self._load_operand(view, reads, slot)

    def _load_operand(self, view: View, box: Box, slot: Buffer) -> None:
        pixel = box.channels * view.item
        mem = address(view, box)
        dims = [
            (box.rows, view.strides[1], box.cols * pixel),
            (box.cols, view.strides[2], pixel),
        ]
        run, loops = load_box(dims, pixel)
        source = self.res.tensors[view.tensor]
        self.node(
            Opcode.LOAD,
            {"mem_base": mem, "chip_base": 0, "run": run, "space": Space.SPAD, "loop": loops},
            {"mem_base": source, "chip_base": slot},
            [
                Access(
                    buffer=source, start=mem, stop=mem + bounding(loops, "mem", run), write=False
                ),
                Access(buffer=slot, start=0, stop=box.elements * view.item, write=True),
            ],
            f"in y{box.y0} x{box.x0} c{box.c0}",
        )

    def _store(self, box: Box) -> None:
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
        slots = [s.get(box, None)[0] for s in self.slots_in]
        out, _ = self.slots_out.get(box, None)
        assert out is not None
        operands = [s for s in slots if s is not None]
        if isinstance(self.layer, PoolLayer):
            for values, span in self._pool_regions(self.layer, box):
                self._vector(box, values, operands, out, span)
        else:
            span = (0, box.elements * self.output.item)
            self._vector(box, self._elementwise(self.layer, box), operands, out, span)

    def _vector(
        self, box: Box, values: dict[str, Any], operands: list[Buffer], out: Buffer, span: Range
    ) -> None:
        epilogue = self.layer.epilogue
        values = {
            "a_space": Space.SPAD,
            "o_space": Space.SPAD,
            "o_zp": epilogue.zero_point,
            "o_min": epilogue.low,
            "o_max": epilogue.high,
            "o_type": epilogue.dtype,
            "table": int(epilogue.table is not None),
            **values,
        }
        bases = {"a_base": operands[0], "o_base": out}
        reads = input_box(self.layer, box, self.plan)
        accesses = [Access(buffer=out, start=span[0], stop=span[1], write=True)]
        for view, slot in zip(self.ins, operands, strict=True):
            size = reads.elements * view.item
            if size:
                accesses.append(Access(buffer=slot, start=0, stop=size, write=False))
        if len(operands) > 1:
            bases["b_base"] = operands[1]
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
        a_item, b_item = a.view.item, b.view.item if b is not None else 0
        if self.params is None:
            count, lanes = -(-box.elements // cols), min(cols, box.elements)
            last = box.elements - (count - 1) * lanes
            loops = [{"count": count, "a": cols * a_item, "b": cols * b_item, "o": cols * item}]
        else:
            count, lanes = -(-box.channels // cols), min(cols, box.channels)
            last = box.channels - (count - 1) * lanes
            c = box.channels
            loops = [
                {
                    "count": count,
                    "a": cols * a_item,
                    "b": cols * b_item,
                    "o": cols * item,
                    "param": 1,
                },
                {"count": box.rows * box.cols, "a": c * a_item, "b": c * b_item, "o": c * item},
            ]
        values: dict[str, Any] = {
            "a_type": a.dtype,
            "a_zp": a.zero_point,
            "alu": layer.alu,
            "lane_loop": 0,
            "lanes": lanes,
            "lanes_last": last,
            "loop": loops,
        }
        if a.shift:
            values |= {"a_scale": Scale.TENSOR, "a_mult": a.multiplier, "a_shift": a.shift}
        if b is not None:
            values |= {"b_type": b.dtype, "b_zp": b.zero_point}
            if b.shift:
                values |= {"b_scale": Scale.TENSOR, "b_mult": b.multiplier, "b_shift": b.shift}
        epilogue = layer.epilogue
        values["o_scale"] = epilogue.scale
        if epilogue.scale is Scale.TENSOR:
            assert epilogue.multiplier is not None and epilogue.shift is not None
            values |= {"o_mult": int(epilogue.multiplier[0]), "o_shift": int(epilogue.shift[0])}
        return values

    # Pooling ----------------------------------------------------------------------------------

    def _pool_regions(self, layer: PoolLayer, box: Box) -> Iterator[tuple[dict[str, Any], Range]]:
        """VECTOR fields and written bytes of each region; averages of unequal counts differ."""
        if not layer.average:
            yield self._pool(layer, box, box)
            return
        _, h, w, _ = layer.input.shape
        for y0, y1, taps_y in _runs(box.y0, box.y1, layer, 0, h):
            for x0, x1, taps_x in _runs(box.x0, box.x1, layer, 1, w):
                region = Box(batch=box.batch, y0=y0, y1=y1, x0=x0, x1=x1, c0=box.c0, c1=box.c1)
                values, span = self._pool(layer, box, region)
                multiplier, shift = reciprocal_scale(taps_y * taps_x)
                values |= {"o_scale": Scale.TENSOR, "o_mult": multiplier, "o_shift": shift}
                yield values, span

    def _pool(self, layer: PoolLayer, box: Box, region: Box) -> tuple[dict[str, Any], Range]:
        view, item, cols = layer.input, self.output.item, self.config.cols
        reads = input_box(layer, box, self.plan)
        pixel = box.channels * view.item
        line = reads.cols * pixel
        out_pixel = box.channels * item
        out_line = box.cols * out_pixel
        (ky, kx), (sy, sx), (py, px) = layer.kernel, layer.stride, layer.pad
        y, x = region.y0 * sy - py, region.x0 * sx - px
        blocks, lanes = -(-box.channels // cols), min(cols, box.channels)
        at = (region.y0 - box.y0) * out_line + (region.x0 - box.x0) * out_pixel
        values: dict[str, Any] = {
            "a_type": layer.epilogue.dtype,
            "a_zp": layer.input_zp,
            "a_base": (y - reads.y0) * line + (x - reads.x0) * pixel,
            "o_base": at,
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
                {"count": region.rows, "a": sy * line, "o": out_line, "dy": sy},
                {"count": region.cols, "a": sx * pixel, "o": out_pixel, "dx": sx},
                {"count": ky, "a": line, "dy": 1},
                {"count": kx, "a": pixel, "dx": 1},
            ],
        }
        size = (region.rows - 1) * out_line + region.cols * out_pixel
        return values, (at, at + size)


def _runs(
    start: int, stop: int, layer: PoolLayer, axis: int, size: int
) -> Iterator[tuple[int, int, int]]:
    """Runs of output positions with equally many taps inside the input: (from, to, taps)."""
    kernel, stride, pad = layer.kernel[axis], layer.stride[axis], layer.pad[axis]

    def taps(at: int) -> int:
        first = at * stride - pad
        return min(first + kernel, size) - max(first, 0)

    while start < stop:
        end = start + 1
        while end < stop and taps(end) == taps(start):
            end += 1
        yield start, end, taps(start)
        start = end

"""Instructions of a PoolLayer: the kernel's taps are reduction loops of VECTOR."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spec.isa import Alu, Reduce, Scale
from spec.numerics import reciprocal_scale
from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.kernels.pool.plan import pool_work
from sw.compiler.kernels.pool.windows import pair_rows, pair_runs, same_taps
from sw.compiler.kernels.vector.emit import VectorEmitter
from sw.compiler.kernels.vector.plan import VectorPlan
from sw.compiler.kernels.views import DTYPE


def emit_pool(layer: PoolLayer, plan: VectorPlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _PoolEmitter(layer, plan, context).run()


class _PoolEmitter(VectorEmitter):
    def __init__(self, layer: PoolLayer, plan: VectorPlan, context: EmitContext) -> None:
        super().__init__(layer.name, layer.epilogue, pool_work(layer), plan, context)
        self.layer = layer

    def compute(self, box: Box) -> None:
        for region, own in self._pool_regions(self.layer, box):
            values = self._pool(self.layer, box, region)
            if own.get("alu") is Alu.MAX:
                self._pair(self.layer, values)
            self.vector(box, region, values | own)

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
        reads = self.work.reads(box)
        source = self.place(view, self.slots_in[0], reads, box)
        out = self.place(self.output, self.slots_out, box, box)
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

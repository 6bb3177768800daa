"""Lowering of pools. Windows that do not fit in the scratchpad are computed in parts."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from spec.isa import Alu, DType, Scale, Table
from spec.numerics import RANGES, reciprocal_scale
from sw.compiler.errors import CompileError
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.fused.builder import MapBuilder, Target, Value
from sw.compiler.kernels.layers import Epilogue, PoolLayer
from sw.compiler.kernels.pool.plan import plan_pool
from sw.compiler.kernels.pool.windows import same_taps
from sw.compiler.kernels.views import DTYPE, ITEM, Placed, View, dense, to_nhwc
from sw.compiler.lower.builder import LayerBuilder
from sw.compiler.tosa.graph import Op


class PoolLowering(LayerBuilder):
    """The handler of MAX_POOL2D and AVG_POOL2D."""

    def pool(self, op: Op) -> None:
        """A PoolLayer, or several and what brings them together."""
        x = op.inputs[0]
        average = op.kind == "AVG_POOL2D"
        kind = DTYPE[self.graph.tensors[x].dtype]
        low, high = RANGES[kind]
        zero_point = self.fusion.integer(op.inputs[2]) if average else 0
        epilogue = Epilogue(dtype=kind, low=low, high=high, zero_point=zero_point)
        names = [op.kind]
        shape = to_nhwc(self.graph.tensors[op.outputs[0]].shape)
        out, epilogue = self.fusion.clamps(op.outputs[0], epilogue, names)
        top, _, left, _ = op.attributes["pad"]
        layer = PoolLayer(
            name=op.name,
            output=self.output(out, shape),
            ops=tuple(names),
            source=op.source,
            input=self.image(x),
            epilogue=epilogue,
            average=average,
            kernel=op.attributes["kernel"],
            stride=op.attributes["stride"],
            pad=(top, left),
            input_zp=self.fusion.integer(op.inputs[1]) if average else 0,
        )
        if self._fits(layer):
            self.layers.append(layer)
        else:
            self._in_parts(layer)

    def _fits(self, layer: PoolLayer) -> bool:
        budget = MemoryBudget.whole(self.config)
        if math.prod(layer.kernel) * min(layer.input.shape[3], self.config.cols) < 1024:
            return True
        for part in layer.split():
            try:
                plan_pool(part, self.config, budget)
            except CompileError:
                return False
        return True

    def _in_parts(self, layer: PoolLayer) -> None:
        """Maxima or sums over parts of the window, then what they come to together."""
        kind = DType.I32 if layer.average else DTYPE[layer.input.dtype]
        low, high = RANGES[kind]
        epilogue = Epilogue(dtype=kind, low=low, high=high)
        dtype = "int32" if layer.average else layer.input.dtype
        whole = replace(layer, sums=layer.average, epilogue=epilogue)
        parts: list[View] = []
        for i, part in enumerate(self._windows(whole)):
            size = math.prod(layer.output.shape)
            root = self.storage.add_temp(f"{layer.output.tensor}.part{i}", size * ITEM[dtype])
            view = dense(root, dtype, layer.output.shape)
            self.layers.append(replace(part, name=f"{layer.name}.part{i}", output=view))
            parts.append(view)
        if not layer.average:
            self._together(layer, parts, None)
            return
        axes = [list(same_taps(0, layer.output.shape[1 + i], layer, i)) for i in range(2)]
        for rows, cols in itertools.product(*axes):
            self._together(layer, parts, (rows, cols))

    def _windows(self, layer: PoolLayer) -> Iterator[PoolLayer]:
        """The layer's window in halves, until they fit; one input element always does."""
        if layer.kernel == (1, 1) or self._fits(layer):
            yield layer
            return
        axis = 0 if layer.kernel[0] > 1 else 1
        half = layer.kernel[axis] // 2
        for start, stop in ((0, half), (half, layer.kernel[axis])):
            kernel, pad = list(layer.kernel), list(layer.pad)
            kernel[axis], pad[axis] = stop - start, pad[axis] - start
            part = replace(layer, kernel=(kernel[0], kernel[1]), pad=(pad[0], pad[1]))
            yield from self._windows(part)

    def _together(
        self,
        layer: PoolLayer,
        parts: list[View],
        region: tuple[tuple[int, int, int], tuple[int, int, int]] | None,
    ) -> None:
        """The maximum, or the average of outputs (from, to, taps) in both dimensions."""
        n, h, w, c = layer.output.shape
        rows, cols = region or ((0, h, 1), (0, w, 1))
        shape = (n, rows[1] - rows[0], cols[1] - cols[0], c)

        def within(view: View) -> int:
            return view.offset + rows[0] * view.strides[1] + cols[0] * view.strides[2]

        builder = MapBuilder()
        values: list[Value] = []
        for view in parts:
            strides = (*view.strides, view.item)
            placed = Placed(
                root=view.tensor, shape=shape, strides=strides, offset=within(view), item=view.item
            )
            values.append(builder.source(placed, view.dtype))
        total = values[0]
        alu = Alu.ADD if region else Alu.MAX
        for value in values[1:]:
            total = builder.step(total, value, values[0].kind, alu=alu)
        last, epilogue = builder.steps[-1], layer.epilogue
        last.out.kind = epilogue.dtype
        last.values |= {"o_zp": epilogue.zero_point, "o_min": epilogue.low, "o_max": epilogue.high}
        if region:
            multiplier, shift = reciprocal_scale(rows[2] * cols[2])
            last.values |= {"o_scale": Scale.TENSOR, "o_mult": multiplier, "o_shift": shift}
        if epilogue.table is not None:
            builder.look_up(last, epilogue.table, Table.I8)
        target = layer.output
        self.layers.append(
            builder.layer(
                Target(target, within(target), (*target.strides, target.item)),
                name=layer.name,
                ops=layer.ops,
                source=layer.source,
            )
        )

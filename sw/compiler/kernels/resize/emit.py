"""Schedule of a ResizeLayer: load a box and its borders; convolve, finish each phase; store.

A tile lies in the scratchpad with the rows and columns around the input, which LOAD copies from the
input's edge. A phase is a convolution of the tile, and its results are written `phases` rows and
columns apart.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from spec.isa import Space
from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.depthwise.geometry import Pass, kernel_passes, units
from sw.compiler.kernels.emitter import EpilogueEmitter
from sw.compiler.kernels.epilogue import accumulator_fields
from sw.compiler.kernels.resize.layer import ResizeLayer
from sw.compiler.kernels.resize.tiles import (
    PhaseWeights,
    ResizePlan,
    boxes,
    phase_weights,
    zero_point,
)
from sw.compiler.kernels.turns import bank_starts, in_turns
from sw.compiler.program.records import ArrayLoop, Depthwise, Vector, VectorFields, VectorLoop
from sw.compiler.program.virtual import Access, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """A piece of a phase of `box`, whose sums lie in the accumulator from vector `acc` on.

    `piece`: in outputs of this phase, of which y, x is the first. `weights`: address of its first
    kernel.
    """

    box: Box
    piece: Box
    y: int
    x: int
    acc: int
    weights: int
    kernels: PhaseWeights
    last: bool


def emit_resize(layer: ResizeLayer, plan: ResizePlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _ResizeEmitter(layer, plan, context).run()


class _ResizeEmitter(EpilogueEmitter):
    def __init__(self, layer: ResizeLayer, plan: ResizePlan, context: EmitContext) -> None:
        super().__init__(layer.name, layer.epilogue, context)
        self.layer, self.plan = layer, plan
        self.act = self.slots("act", Place.SPAD, plan.slots, plan.act_bytes)
        self.out = self.slots("out", Place.SPAD, plan.slots, plan.out_bytes)
        self.weights = self.slots("wgt", Place.SPAD, 1, plan.weight_bytes).buffers[0]
        self.zero_point = zero_point(layer)
        self.kernels = self._phase_kernels()
        self.turn = 0

    def _phase_kernels(self) -> dict[tuple[int, int], tuple[int, PhaseWeights]]:
        """By phase of rows and columns: (address of its kernels, these)."""
        rows, cols = self.layer.rows, self.layer.cols
        found, at = {}, 0
        phases = (range(min(axis.phases, axis.out)) for axis in (rows, cols))
        for y, x in itertools.product(*phases):
            weights = phase_weights(self.layer, y, x)
            found[y, x] = at, weights
            at += len(weights.kernels) * weights.kernels[0].size * self.config.cols
        return found

    def run(self) -> None:
        """Emit the whole layer; loads run ahead by the number of slots."""
        self.load_table()
        self._load_weights()
        todo, ahead = boxes(self.layer, self.plan), self.plan.slots
        in_turns(todo, ahead, self._units, self._load, self._depthwise, self._finish)

    def _load_weights(self) -> None:
        taps = [
            kernel.reshape(-1) + self.zero_point
            for _, weights in self.kernels.values()
            for kernel in weights.kernels
        ]
        # Every lane has the same weight.
        data = np.repeat(np.concatenate(taps), self.config.cols).astype(np.int8).tobytes()
        self.load_constant(data, Space.SPAD, self.weights, len(data), "weights")

    def _units(self, box: Box) -> list[_Unit]:
        plan, config, layer = self.plan, self.config, self.layer
        bank, places = config.acc_bank, bank_starts(config, plan.shared)
        pieces = [
            (y, x, piece)
            for y, high in layer.rows.outputs(box.y0, box.y1)
            for x, wide in layer.cols.outputs(box.x0, box.x1)
            for piece in units(
                Box(batch=box.batch, y0=0, y1=high, x0=0, x1=wide, c0=box.c0, c1=box.c1),
                config.cols,
                bank,
            )
        ]
        out = []
        for i, (y, x, piece) in enumerate(pieces):
            weights, kernels = self.kernels[y % layer.rows.phases, x % layer.cols.phases]
            out.append(
                _Unit(
                    box=box,
                    piece=piece,
                    y=y + piece.y0 * layer.rows.phases,
                    x=x,
                    acc=places[self.turn % len(places)],
                    weights=weights,
                    kernels=kernels,
                    last=i == len(pieces) - 1,
                )
            )
            self.turn += 1
        return out

    # Loads ------------------------------------------------------------------------------------

    def _tile(self, box: Box) -> tuple[tuple[int, int], tuple[int, int]]:
        """Input rows and columns that a box reads, also those outside the input."""
        return self.layer.rows.reach(box.y0, box.y1), self.layer.cols.reach(box.x0, box.x1)

    def _load(self, box: Box) -> None:
        slot, fresh = self.act.get(box, None)
        assert slot is not None and fresh
        view, (rows, cols) = self.layer.input, self._tile(box)
        image, line, pixel = view.strides
        wide, deep = cols[1] - cols[0], box.channels
        source = self.context.tensors[view.tensor]
        size = (rows[1] - rows[0]) * wide * deep
        for y in self.layer.rows.segments(*rows):
            for x in self.layer.cols.segments(*cols):
                mem = view.offset + box.batch * image + y.source * line + x.source * pixel + box.c0
                dims = [
                    (y.count, y.step * line, wide * deep),
                    (x.count, x.step * pixel, deep),
                    (deep, 1, 1),
                ]
                at, note = (y.at * wide + x.at) * deep, f"in y{box.y0} x{box.x0} c{box.c0}"
                self.load_copies(source, mem, dims, 1, slot, at, size, note)

    # Compute ----------------------------------------------------------------------------------

    def _depthwise(self, unit: _Unit) -> None:
        stride = self.layer.cols.stride
        passes = kernel_passes(unit.kernels.shape, stride, 1, self.config.taps)
        for number, (k, over) in enumerate(
            itertools.product(range(len(unit.kernels.kernels)), passes)
        ):
            self._pass(unit, over, k, first=number == 0)

    def _pass(self, unit: _Unit, over: Pass, kernel: int, first: bool) -> None:
        layer, piece, box, cols = self.layer, unit.piece, unit.box, self.config.cols
        (y0, y1), (x0, x1) = self._tile(box)
        kh, kw = unit.kernels.shape
        act, _ = self.act.get(box, None)
        assert act is not None
        pixel = box.channels
        line = (x1 - x0) * pixel
        y = layer.rows.low(unit.y) - y0 + over.kh0
        x = layer.cols.low(unit.x) - x0 + over.kw0
        blocks, lanes = -(-piece.channels // cols), min(cols, piece.channels)
        sy = layer.rows.stride
        record = Depthwise(
            act_base=y * line + x * pixel + piece.c0 - box.c0,
            act_row=line,
            act_col=over.step * pixel,
            wgt_base=unit.weights + (kernel * kh * kw + over.kh0 * kw + over.kw0) * cols,
            wgt_row=kw * cols,
            wgt_col=cols,
            acc_base=unit.acc,
            acc_col=1,
            y0=y,
            x0=x,
            row_step=1,
            col_step=over.step,
            height=y1 - y0,
            width=x1 - x0,
            act_zp=0,
            wgt_zp=self.zero_point,
            kernel_rows=over.rows,
            kernel_cols=over.cols,
            stride=over.stride,
            outputs=piece.cols,
            accumulate=int(not first),
            fold_loops=1,
            lane_loop=0,
            lanes=lanes,
            lanes_last=piece.channels - (blocks - 1) * lanes,
            loop=[
                ArrayLoop(count=blocks, act=cols, wgt=0, acc=piece.vectors),
                ArrayLoop(count=piece.rows, act=sy * line, acc=piece.cols, dy=sy),
            ],
        )
        acc, size = self.context.acc, blocks * piece.vectors
        accesses = [
            Access(buffer=self.weights, start=0, stop=self.weights.size, write=False),
            Access(buffer=act, start=0, stop=(y1 - y0) * line, write=False),
            Access(buffer=acc, start=unit.acc, stop=unit.acc + size, write=True),
        ]
        bases = {"act_base": act, "wgt_base": self.weights, "acc_base": acc}
        self.append(record, bases, accesses, f"y{unit.y} x{unit.x} c{piece.c0} k{kernel}")

    # Epilogue and store -----------------------------------------------------------------------

    def _finish(self, unit: _Unit) -> None:
        self._vector(unit)
        if unit.last:
            self._store(unit.box)

    def _vector(self, unit: _Unit) -> None:
        piece, box, cols, layer = unit.piece, unit.box, self.config.cols, self.layer
        item, acc = layer.output.item, self.context.acc
        out, _ = self.out.get(box, None)
        assert out is not None
        pixel = box.channels * item
        line = box.cols * pixel
        down, right = layer.rows.phases * line, layer.cols.phases * pixel
        at = (unit.y - box.y0) * line + (unit.x - box.x0) * pixel + (piece.c0 - box.c0) * item
        blocks, lanes = -(-piece.channels // cols), min(cols, piece.channels)
        fields = accumulator_fields(self.epilogue, None) | VectorFields(
            a_base=unit.acc,
            o_base=at,
            lane_loop=0,
            lanes=lanes,
            lanes_last=piece.channels - (blocks - 1) * lanes,
        )
        loops = [
            VectorLoop(count=blocks, a=piece.vectors, o=cols * item),
            VectorLoop(count=piece.rows, a=piece.cols, o=down),
            VectorLoop(count=piece.cols, a=1, o=right),
        ]
        stop = at + (piece.rows - 1) * down + (piece.cols - 1) * right + piece.channels * item
        accesses = [
            Access(buffer=acc, start=unit.acc, stop=unit.acc + blocks * piece.vectors, write=False),
            Access(buffer=out, start=at, stop=stop, write=True),
            *self.table_reads(),
        ]
        note = f"finish y{unit.y} x{unit.x} c{piece.c0}"
        self.append(Vector(**fields, loop=loops), {"a_base": acc, "o_base": out}, accesses, note)

    def _store(self, box: Box) -> None:
        out, _ = self.out.get(box, None)
        assert out is not None
        self.store_tile(self.layer.output, box, out)

"""Schedule of a DepthwiseLayer: load a box, convolve and finish it unit by unit, store it.

Units take turns in the four banks of the accumulator, so that VECTOR empties one bank while the
depthwise engine fills another.
"""

from dataclasses import dataclass, replace

from spec.isa import DType, Space
from sw.compiler.kernels.boxes import Box, address
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.depthwise.geometry import Pass, inputs_of, passes, units
from sw.compiler.kernels.depthwise.layer import DepthwiseLayer
from sw.compiler.kernels.depthwise.tiles import DepthwisePlan, boxes
from sw.compiler.kernels.emitter import EpilogueEmitter, Spot, touch
from sw.compiler.kernels.epilogue import accumulator_fields
from sw.compiler.kernels.operands import Epilogue, Residual
from sw.compiler.kernels.slots import Slots
from sw.compiler.kernels.turns import bank_starts, in_turns
from sw.compiler.kernels.views import View
from sw.compiler.program.records import ArrayLoop, Depthwise, Vector, VectorFields, VectorLoop
from sw.compiler.program.virtual import Access, Buffer, Place

MOST_SLICES = 63
"""Most parts in which a unit is handed over: semaphores count to 255, and several are on their way
at a time."""

Result = tuple[Buffer, int, int, int, list[Access]]
"""(buffer, first byte, bytes of a row, of a pixel, accesses) of what a VECTOR writes."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A piece of `box` whose sums lie in the accumulator from vector `acc` on."""

    box: Box
    piece: Box
    acc: int
    last: bool


def emit_depthwise(layer: DepthwiseLayer, plan: DepthwisePlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _DepthwiseEmitter(layer, plan, context).run()


class _DepthwiseEmitter(EpilogueEmitter):
    def __init__(self, layer: DepthwiseLayer, plan: DepthwisePlan, context: EmitContext) -> None:
        super().__init__(layer.name, layer.epilogue, context)
        config = context.config
        self.layer, self.plan = layer, plan
        self.passes = passes(layer, config.taps)
        self.act = self.slots("act", Place.SPAD, plan.act_slots, plan.act_bytes)
        self.wgt = self.slots("wgt", Place.SPAD, plan.wgt_slots, plan.wgt_bytes)
        self.out = self.slots("out", Place.SPAD, plan.out_slots, plan.out_bytes)
        self.params: Slots | None = None
        if readers := len(layer.epilogue.param_passes):
            entries = readers * -(-plan.tc // config.cols)
            self.params = self.slots("param", Place.PARAM, plan.wgt_slots, entries)
        self.held_in, self.held_out = context.held(layer.input), context.held(layer.output)
        self.added: Slots | None = None
        if plan.res_slots:
            self.added = self.slots("residual", Place.SPAD, plan.res_slots, plan.res_bytes)
        self.turn = 0

    def run(self) -> None:
        """Emit the whole layer; loads run ahead by the number of slots."""
        self.load_table()
        todo, ahead = boxes(self.layer, self.plan), self.plan.ahead
        in_turns(todo, ahead, self._units, self._load, self._depthwise, self._finish)

    def _units(self, box: Box) -> list[_Unit]:
        plan, config = self.plan, self.config
        bank, places = config.acc_bank, bank_starts(config, plan.shared)
        # Tensors come from the layer before channel by channel.
        pieces = list(units(box, config.cols, bank, channels_first=plan.held_in))
        out = []
        for i, piece in enumerate(pieces):
            acc = places[self.turn % len(places)]
            out.append(_Unit(box, piece, acc, i == len(pieces) - 1))
            self.turn += 1
        return out

    # Loads ------------------------------------------------------------------------------------

    def _load(self, box: Box) -> None:
        # Weights and parameters serve every tile of their channels.
        wgt, fresh = self.wgt.get(box.c0, None)
        assert wgt is not None
        if fresh:
            self._load_weights(box, wgt)
        if self.held_in is None:
            self._load_act(box)
        if self.params is not None:
            param, fresh = self.params.get(box.c0, None)
            assert param is not None
            if fresh:
                self.load_params(box.c0, box.c1, param)
        if self.added is not None and self.layer.residual is not None:
            self._load_residual(self.layer.residual, self.added, box)

    def _load_weights(self, box: Box, slot: Buffer) -> None:
        if self.layer.weight_view is not None:
            taps = replace(box, batch=0, y0=0, y1=self.layer.kernel[0], x0=0)
            taps = replace(taps, x1=self.layer.kernel[1])
            self.load_box(self.layer.weight_view, taps, slot, f"weights c{box.c0}")
            return
        assert self.layer.weights is not None
        data = self.layer.weights[:, :, box.c0 : box.c1].tobytes()
        self.load_constant(data, Space.SPAD, slot, len(data), f"weights c{box.c0}")

    def _load_act(self, box: Box) -> None:
        slot, fresh = self.act.get(box, None)
        assert slot is not None and fresh
        reads = inputs_of(self.layer, box)
        if reads.elements > 0:
            self.load_box(self.layer.input, reads, slot, f"act y{box.y0} x{box.x0} c{box.c0}")

    def _load_residual(self, residual: Residual, slots: Slots, box: Box) -> None:
        slot, fresh = slots.get(box, None)
        assert slot is not None and fresh
        note = f"residual y{box.y0} x{box.x0} c{box.c0}"
        self.load_box(residual.operand.view, box, slot, note)

    # Compute ----------------------------------------------------------------------------------

    def _depthwise(self, unit: _Unit) -> None:
        for number, over in enumerate(self.passes):
            self._pass(unit, over, first=number == 0)

    def _pass(self, unit: _Unit, over: Pass, first: bool) -> None:
        layer, piece, box, cols = self.layer, unit.piece, unit.box, self.config.cols
        wgt = self.wgt.get(box.c0, None)[0]
        assert wgt is not None
        act, origin, line, pixel = self._activations(box)
        tap_row = layer.kernel[1] * box.channels
        (sy, sx), (dy, dx), (py, px) = layer.stride, layer.dilation, layer.pad
        y = piece.y0 * sy - py + over.kh0 * dy
        x = piece.x0 * sx - px + over.kw0 * dx
        channel = piece.c0 - box.c0
        weights = over.kh0 * tap_row + over.kw0 * box.channels + channel
        blocks = -(-piece.channels // cols)
        lanes = min(cols, piece.channels)
        record = Depthwise(
            act_base=origin + y * line + x * pixel + channel,
            act_row=dy * line,
            act_col=over.step * pixel,
            wgt_base=weights,
            wgt_row=tap_row,
            wgt_col=box.channels,
            acc_base=unit.acc,
            acc_col=1,
            y0=y,
            x0=x,
            row_step=dy,
            col_step=over.step,
            height=layer.input.shape[1],
            width=layer.input.shape[2],
            act_zp=layer.input_zp,
            wgt_zp=layer.weight_zp,
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
                ArrayLoop(count=blocks, act=cols, wgt=cols, acc=piece.vectors),
                ArrayLoop(count=piece.rows, act=sy * line, acc=piece.cols, dy=sy),
            ],
        )
        reads = [Access(buffer=wgt, start=0, stop=layer.kernel[0] * tap_row, write=False)]
        # A loaded box arrives as a whole. On chip, a block of channels can begin before the others
        # are written.
        if self.held_in is not None:
            reads += self._touched(act, layer.input, inputs_of(layer, piece), write=False)
        elif taken := inputs_of(layer, box).elements:
            reads.append(Access(buffer=act, start=0, stop=taken, write=False))
        self.append(
            record,
            {"act_base": act, "wgt_base": wgt, "acc_base": self.context.acc},
            [*reads, *self._sums(unit, write=True)],
            f"y{piece.y0} x{piece.x0} c{piece.c0} k{over.kh0},{over.kw0}",
        )

    def _touched(self, buffer: Buffer, view: View, box: Box, *, write: bool) -> list[Access]:
        """The accesses of a box of a tensor on chip, one block of channels after another."""
        cols = self.config.cols
        starts = range(box.c0, box.c1, cols) if box.elements else ()
        level = int(box.channels > cols)
        return [
            touch(
                buffer,
                view,
                replace(box, c0=c, c1=min(c + cols, box.c1)),
                write=write,
                level=level,
                iteration=i,
            )
            for i, c in enumerate(starts)
        ]

    def _activations(self, box: Box) -> tuple[Buffer, int, int, int]:
        """(buffer, first channel of the box in input pixel 0,0, bytes of a row, of a pixel)."""
        if self.held_in is not None:
            view = self.layer.input
            image, line, pixel = view.strides
            return self.held_in, view.offset + box.batch * image + box.c0, line, pixel
        act, held = self.act.get(box, None)[0], inputs_of(self.layer, box)
        assert act is not None
        line, pixel = held.cols * box.channels, box.channels
        return act, -held.y0 * line - held.x0 * pixel, line, pixel

    # Epilogue and store -----------------------------------------------------------------------

    def _finish(self, unit: _Unit) -> None:
        self._vector(unit)
        if unit.last and self.held_out is None:
            self._store(unit.box)

    def _result(self, unit: _Unit) -> Result:
        """Where a unit's results go."""
        piece, box, view = unit.piece, unit.box, self.layer.output
        if self.held_out is not None:
            _, line, pixel = view.strides
            writes = self._touched(self.held_out, view, piece, write=True)
            return self.held_out, address(view, piece), line, pixel, writes
        out, _ = self.out.get(box, None)
        assert out is not None
        pixel = box.channels * view.item
        line = box.cols * pixel
        at = (piece.y0 - box.y0) * line + (piece.c0 - box.c0) * view.item
        stop = at + (piece.vectors - 1) * pixel + piece.channels * view.item
        return out, at, line, pixel, [Access(buffer=out, start=at, stop=stop, write=True)]

    def _vector(self, unit: _Unit) -> None:
        """The VECTORs of a unit: all but the last leave their results where the sums are."""
        piece, cols = unit.piece, self.config.cols
        *before, last = self.layer.epilogue.passes
        for each in before:
            writes = self._sums(unit, write=True)
            self._finish_pass(unit, each, (self.context.acc, unit.acc, piece.cols, 1, writes), 0)
        self._finish_pass(unit, last, self._result(unit), cols * self.layer.output.item)

    def _sums(self, unit: _Unit, *, write: bool) -> list[Access]:
        """The accumulator vectors of a unit: row by row, or one block of channels after another."""
        piece, blocks = unit.piece, -(-unit.piece.channels // self.config.cols)
        by_rows = piece.rows * blocks <= MOST_SLICES
        count, size = (blocks * piece.rows, piece.cols) if by_rows else (blocks, piece.vectors)
        level = 2 if by_rows else int(blocks > 1)
        return [
            Access(
                buffer=self.context.acc,
                start=unit.acc + i * size,
                stop=unit.acc + (i + 1) * size,
                write=write,
                level=level if count > 1 else 0,
                iteration=i,
            )
            for i in range(count)
        ]

    def _finish_pass(self, unit: _Unit, each: Epilogue, result: Result, block: int) -> None:
        """One VECTOR over a unit. `block`: bytes between its channel blocks in the scratchpad."""
        piece, cols = unit.piece, self.config.cols
        blocks, lanes = -(-piece.channels // cols), min(cols, piece.channels)
        out, at, line, pixel, writes = result
        residual = self.layer.residual if each is self.layer.epilogue else None
        bases = {"a_base": self.context.acc, "o_base": out}
        accesses = [*self._sums(unit, write=False), *writes]
        added: Spot | None = None
        if residual is not None:
            added, reads = self._residual(residual, unit)
            bases["b_base"] = added.buffer
            accesses += reads
        entry, entry_step = self._params(unit, each, bases, accesses)
        b_block = 0 if residual is None else cols * residual.operand.view.item
        b_line, b_pixel = (0, 0) if added is None else (added.line, added.pixel)
        fields = accumulator_fields(each, residual) | VectorFields(
            a_base=unit.acc,
            b_base=0 if added is None else added.at,
            o_base=at,
            param_base=entry,
            lane_loop=0,
            lanes=lanes,
            lanes_last=piece.channels - (blocks - 1) * lanes,
        )
        if out is self.context.acc:
            fields |= VectorFields(o_space=Space.ACC, o_type=DType.I32)
            block = piece.vectors
        loops = [
            VectorLoop(count=blocks, a=piece.vectors, b=b_block, o=block, param=entry_step),
            VectorLoop(count=piece.rows, a=piece.cols, b=b_line, o=line),
            VectorLoop(count=piece.cols, a=1, b=b_pixel, o=pixel),
        ]
        record = Vector(**fields, loop=loops)
        note = f"finish y{piece.y0} x{piece.x0} c{piece.c0}"
        self.append(record, bases, [*accesses, *self.table_reads(each)], note)

    def _params(
        self, unit: _Unit, each: Epilogue, bases: dict[str, Buffer], accesses: list[Access]
    ) -> tuple[int, int]:
        """(first parameter entry of a pass, entries between channel blocks).

        The buffer and the access of a pass that reads any go into `bases` and `accesses`.
        """
        if self.params is None or not each.uses_params:
            return 0, 1
        params = self.params.get(unit.box.c0, None)[0]
        assert params is not None
        readers, cols = self.layer.epilogue.param_passes, self.config.cols
        blocks = -(-unit.piece.channels // cols)
        # A channel block's entries lie side by side, one for each pass that reads any.
        step = len(readers)
        entry = (unit.piece.c0 - unit.box.c0) // cols * step
        entry += [p is each for p in readers].index(True)
        bases["param_base"] = params
        stop = entry + (blocks - 1) * step + 1
        accesses.append(Access(buffer=params, start=entry, stop=stop, write=False))
        return entry, step

    def _residual(self, residual: Residual, unit: _Unit) -> tuple[Spot, list[Access]]:
        """Where the residual of a unit lies, and the accesses of the VECTOR that reads it."""
        view, box, piece = residual.operand.view, unit.box, unit.piece
        held = self.context.held(view)
        if held is not None:
            reads = self._touched(held, view, piece, write=False)
            return Spot(held, address(view, piece), view.strides[1], view.strides[2]), reads
        assert self.added is not None
        slot = self.added.get(box, None)[0]
        assert slot is not None
        pixel = box.channels * view.item
        at = (piece.y0 - box.y0) * box.cols * pixel + (piece.c0 - box.c0) * view.item
        read = Access(buffer=slot, start=0, stop=box.elements * view.item, write=False)
        return Spot(slot, at, box.cols * pixel, pixel), [read]

    def _store(self, box: Box) -> None:
        out, _ = self.out.get(box, None)
        assert out is not None
        self.store_tile(self.layer.output, box, out)

"""Weights on their way to the array: read a little ahead of the fold that they are for."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import passes_end
from hw_gen.blocks.array import weight_vectors
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.operands import OPERAND, first_lanes, last_or, operands
from hw_gen.checks import check
from hw_gen.interfaces import READ_LATENCY, spad_read
from hw_gen.layouts import LANES, STREAM_FIELDS, engine_layout, field_shape
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, Opcode
from spec.optional import absent_fields

AHEAD = 2 * READ_LATENCY
"""Vectors that may be read and not yet be in the array: enough for one a cycle without a gap."""


def vector_tag(opcode: Opcode = Opcode.MATRIX) -> data.StructLayout:
    """What belongs to a weight vector that was asked for; `last` of its fold, which then posts if
    it `fires`."""
    return data.StructLayout(
        {
            "size": LANES,
            "zp": field_shape(opcode, "wgt_zp"),
            "unsigned": 1,
            "across": 1,
            "last": 1,
            "fires": 1,
        }
    )


class WeightFeed(wiring.Component):
    """Reads the weights of each fold, and lets them into the array as soon as its shadow is free.

    They come as vectors: the R rows of the fold, or its C columns if `transposed`. The array takes
    the first vector of a fold in the cycle in which the swap of the fold before enters it. Up to
    `AHEAD` vectors are read before, and wait in a FIFO.

    Members
    -------
    step, instr : the weight sequencer's steps, one per fold, and their instruction.
    wgt : scratchpad port.
    have : all weights of the next fold were asked for, and so its waits are met: its activations
        may be read; begin : they begin to be.
    loaded : the array has all weights of the next fold, whose swap may enter; entering : it does.
    o : ``Out(weight_vectors(config))``, to the array.
    fire : the scratchpad has delivered the last weights of a fold that posts.
    halt : read nothing more. bad : the next vector does not lie in the scratchpad.

    Timing: a vector a cycle. A fold that streams one vector takes R cycles, transposed C.
    """

    def __init__(self, config: NpuConfig, step: data.StructLayout):
        self._config = config
        without = absent_fields(config, Opcode.MATRIX) | STREAM_FIELDS
        super().__init__(
            {
                "step": In(stream.Signature(step)),
                "instr": In(engine_layout(Opcode.MATRIX, without)),
                "wgt": Out(spad_read(config, vector_tag())),
                "have": Out(1),
                "begin": In(1),
                "entering": In(1),
                "loaded": Out(1),
                "o": Out(weight_vectors(config)),
                "fire": Out(1),
                "halt": In(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        read, pop, more = (Signal(name=n) for n in ("read", "pop", "more"))
        # Folds that were asked for to the last vector and have not begun. Nothing is read for a
        # third one: its weights may be written as long as the first has not begun.
        ahead, folds = Signal(range(AHEAD + 1)), Signal(range(3))
        asked = self.step.valid & self.step.ready
        m.d.sync += [ahead.eq(ahead + read - pop), folds.eq(folds + asked - self.begin)]
        m.d.comb += [
            self.have.eq(folds != 0),
            more.eq((ahead != AHEAD) & (folds != 2)),
            self.fire.eq(self.wgt.data_valid & self.wgt.data_tag.fires),
        ]
        self._read(m, platform, read, more)
        self._feed(m, platform, pop)
        check(m, platform, ~pop | (ahead != 0), "matrix: weights that were not read")
        check(m, platform, ~self.begin | self.have, "matrix: a fold begins before its weights")
        return m

    def _read(self, m: Module, platform, read: Signal, more: Value) -> None:
        """Ask for the vectors."""
        cfg = self._config
        step, instr = self.step.payload, self.instr
        # The first vector lies where the step says, each other one beside the one before it: the
        # address is a register or the step's, and never a sum.
        vector, addr, at = Signal(LANES), Signal(CHIP_BITS), Signal(CHIP_BITS)
        begun, final = Signal(), Signal()
        rows, cols, vectors, size = (
            Signal(LANES, name=n) for n in ("rows", "cols", "vectors", "size")
        )
        across = instr.transposed if cfg.transposed_weights else Const(0, 1)
        beyond = passes_end(m, platform, "weights", addr, size, cfg.spad_bytes)
        m.d.comb += [
            rows.eq(last_or(step.at_last, instr.row_loop, instr.rows_last, instr.rows)),
            cols.eq(last_or(step.at_last, instr.col_loop, instr.cols_last, instr.cols)),
            vectors.eq(Mux(across, cols, rows)),
            size.eq(Mux(across, rows, cols)),
            addr.eq(Mux(begun, at, step.wgt)),
            self.bad.eq(self.step.valid & more & beyond),
            final.eq(vector + 1 == vectors),
            self.wgt.valid.eq(self.step.valid & more & ~self.bad & ~self.halt),
            self.wgt.addr.eq(addr),
            self.wgt.size.eq(size),
            self.wgt.tag.size.eq(size),
            self.wgt.tag.zp.eq(instr.wgt_zp),
            self.wgt.tag["unsigned"].eq(instr.wgt_unsigned),
            self.wgt.tag.across.eq(across),
            self.wgt.tag.last.eq(final),
            self.wgt.tag.fires.eq(final & step.fires[0]),
            read.eq(self.wgt.valid & self.wgt.ready),
            self.step.ready.eq(read & final),
        ]
        with m.If(read):
            m.d.sync += [
                vector.eq(Mux(final, 0, vector + 1)),
                begun.eq(~final),
                at.eq(addr + instr.wgt_row),
            ]

    def _feed(self, m: Module, platform, pop: Signal) -> None:
        """Vectors go to the array in order, past the FIFO where it is empty."""
        lanes = max(self._config.rows, self._config.cols)
        layout = data.StructLayout({"weights": OPERAND.width * lanes, "across": 1, "last": 1})
        came, head, keep = Signal(layout), Signal(layout), Signal(lanes)
        late = self.wgt.data_tag
        m.submodules.line = line = Fifo(layout, depth=AHEAD, latency=1)
        here = line.o.valid | self.wgt.data_valid
        m.d.comb += [
            keep.eq(first_lanes(late.size, lanes)),
            came.weights.eq(operands(self.wgt.data, late["unsigned"], late.zp, keep, lanes)),
            came.across.eq(late.across),
            came.last.eq(late.last),
            head.eq(Mux(line.o.valid, line.o.payload, came)),
            pop.eq(here & (~self.loaded | self.entering)),
            line.o.ready.eq(pop),
            line.i.valid.eq(self.wgt.data_valid & (line.o.valid | ~pop)),
            line.i.payload.eq(came),
        ]
        m.d.sync += self.o.valid.eq(pop)
        with m.If(pop):
            m.d.sync += [self.o.data.eq(head.weights), self.o.across.eq(head.across)]
        # The shadow weights are complete, and no swap has taken them.
        with m.If(pop & head.last):
            m.d.sync += self.loaded.eq(1)
        with m.Elif(self.entering):
            m.d.sync += self.loaded.eq(0)
        check(m, platform, ~self.entering | self.loaded, "matrix: swap without new weights")
        check(m, platform, ~line.i.valid | line.i.ready, "matrix: weights without room")

"""Weights on their way to the array: read a little ahead of the fold that they are for."""

from itertools import pairwise

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.array import weight_vectors
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.operands import OPERAND, last_or, operands
from hw_gen.checks import check
from hw_gen.interfaces import READ_LATENCY, spad_read
from hw_gen.layouts import LANES, STREAM_FIELDS, engine_layout, field_shape
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, Opcode

AHEAD = 2 * READ_LATENCY
"""Vectors that may be read and not yet be in the array: enough for one a cycle without a gap."""

_FOLD = data.StructLayout({"valid": 1, "left": range(AHEAD + 1)})


class WeightFeed(wiring.Component):
    """Reads the weights of each fold, and lets them into the array as soon as its shadow is free.

    They come as vectors: the R rows of the fold, or its C columns if `transposed`. The array takes
    the first vector of a fold in the cycle in which the swap of the fold before enters it. For that
    the vector must have been read before that swap was certain: up to `AHEAD` vectors are, and wait
    in a FIFO.

    Members
    -------
    step, instr : the weight sequencer's steps, one per fold, and their instruction.
    wgt : scratchpad port.
    swap : the first vector of a fold is issued; entering : READ_LATENCY cycles later, when its swap
        flag goes to the array.
    ready : the next fold may begin; have : its vectors were all requested.
    o : ``Out(weight_vectors(config))``, to the array.
    halt : read nothing more. bad : the next vector does not lie in the scratchpad.

    Timing: a vector a cycle. A fold that streams one vector takes R cycles, transposed C.
    """

    def __init__(self, config: NpuConfig, step: data.StructLayout):
        self._config = config
        super().__init__(
            {
                "step": In(stream.Signature(step)),
                "instr": In(engine_layout(Opcode.MATRIX, STREAM_FIELDS)),
                "wgt": Out(spad_read(config)),
                "swap": In(1),
                "entering": In(1),
                "ready": Out(1),
                "have": Out(1),
                "o": Out(weight_vectors(config)),
                "halt": In(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Folds whose vectors were all requested and that have not begun.
        first, second = (Signal(_FOLD, name=n) for n in ("first_fold", "second_fold"))
        read, final, pop, more, waiting = (
            Signal(name=n) for n in ("read", "final", "pop", "more", "waiting")
        )
        ahead = Signal(range(AHEAD + 1))
        m.d.sync += ahead.eq(ahead + read - pop)
        m.d.comb += [more.eq(ahead != AHEAD), waiting.eq(ahead != 0)]
        late = self._read(m, read, final, more & ~second.valid)
        self._feed(m, platform, late, pop)
        self._begin(m, first, second, read & final, ahead, pop)
        check(m, platform, ~pop | waiting, "matrix: weights that were not read")
        return m

    def _read(self, m: Module, read: Signal, final: Signal, more: Value):
        """Ask for the vectors; returns: what belongs to the one that now comes."""
        cfg = self._config
        step, instr = self.step.payload, self.instr
        vector, addr, offset = Signal(LANES), Signal(CHIP_BITS), Signal(CHIP_BITS)
        rows, cols, vectors, size = (
            Signal(LANES, name=n) for n in ("rows", "cols", "vectors", "size")
        )
        across = instr.transposed if cfg.transposed_weights else Const(0, 1)
        m.d.comb += [
            rows.eq(last_or(step.at_last, instr.row_loop, instr.rows_last, instr.rows)),
            cols.eq(last_or(step.at_last, instr.col_loop, instr.cols_last, instr.cols)),
            vectors.eq(Mux(across, cols, rows)),
            size.eq(Mux(across, rows, cols)),
            addr.eq(step.wgt + offset),
            self.bad.eq(self.step.valid & more & (addr + size > cfg.spad_bytes)),
            final.eq(vector + 1 == vectors),
            self.wgt.valid.eq(self.step.valid & more & ~self.bad & ~self.halt),
            self.wgt.addr.eq(addr),
            self.wgt.size.eq(size),
            read.eq(self.wgt.valid & self.wgt.ready),
            self.step.ready.eq(read & final),
        ]
        with m.If(read):
            m.d.sync += [vector.eq(vector + 1), offset.eq(offset + instr.wgt_row)]
            with m.If(final):
                m.d.sync += [vector.eq(0), offset.eq(0)]
        meta = data.StructLayout(
            {
                "size": LANES,
                "zp": field_shape(Opcode.MATRIX, "wgt_zp"),
                "unsigned": 1,
                "across": 1,
                "last": 1,
            }
        )
        stages = [Signal(meta, name=f"meta_{i}") for i in range(READ_LATENCY)]
        m.d.sync += [
            stages[0].size.eq(size),
            stages[0].zp.eq(instr.wgt_zp),
            stages[0]["unsigned"].eq(instr.wgt_unsigned),
            stages[0].across.eq(across),
            stages[0].last.eq(final),
            *(b.eq(a) for a, b in pairwise(stages)),
        ]
        return stages[-1]

    def _feed(self, m: Module, platform, late, pop: Signal) -> None:
        """Vectors go to the array in order, past the FIFO where it is empty."""
        lanes = max(self._config.rows, self._config.cols)
        layout = data.StructLayout({"weights": OPERAND.width * lanes, "across": 1, "last": 1})
        came, head, keep = Signal(layout), Signal(layout), Signal(lanes)
        loaded = Signal()
        m.submodules.line = line = Fifo(layout, depth=AHEAD, latency=1)
        here = line.o.valid | self.wgt.data_valid
        m.d.comb += [
            keep.eq((1 << late.size) - 1),
            came.weights.eq(operands(self.wgt.data, late["unsigned"], late.zp, keep, lanes)),
            came.across.eq(late.across),
            came.last.eq(late.last),
            head.eq(Mux(line.o.valid, line.o.payload, came)),
            pop.eq(here & (~loaded | self.entering)),
            line.o.ready.eq(pop),
            line.i.valid.eq(self.wgt.data_valid & (line.o.valid | ~pop)),
            line.i.payload.eq(came),
        ]
        m.d.sync += self.o.valid.eq(pop)
        with m.If(pop):
            m.d.sync += [self.o.data.eq(head.weights), self.o.across.eq(head.across)]
        # The shadow weights are complete, and no swap has taken them.
        with m.If(pop & head.last):
            m.d.sync += loaded.eq(1)
        with m.Elif(self.entering):
            m.d.sync += loaded.eq(0)
        check(m, platform, ~self.entering | loaded, "matrix: swap without new weights")
        check(m, platform, ~line.i.valid | line.i.ready, "matrix: weights without room")

    def _begin(self, m: Module, first, second, complete: Value, ahead: Value, pop) -> None:
        """Which folds are requested to the last vector, and how far that is from the array.

        A swap enters the array READ_LATENCY = 2 cycles after it is issued and must find the last
        vector there: it goes in at the latest one cycle after the issue, so when it is first or
        second in line. After a swap in the cycle before, the next fold's vectors cannot go in this
        cycle, but the last one of that swap's fold may (`tail`).
        """
        assert READ_LATENCY == 2
        just, tail = Signal(), Signal()
        moved = [Signal(_FOLD, name=f"moved_{i}") for i in range(2)]
        for old, new in ((first, moved[0]), (second, moved[1])):
            m.d.comb += [
                new.valid.eq(old.valid),
                new.left.eq(Mux(pop & (old.left != 0), old.left - 1, old.left)),
            ]
        kept = [Signal(_FOLD, name=f"kept_{i}") for i in range(2)]
        m.d.comb += [
            kept[0].eq(Mux(self.swap, moved[1], moved[0])),
            kept[1].eq(Mux(self.swap, 0, moved[1])),
            self.have.eq(first.valid),
            self.ready.eq(first.valid & (first.left <= Mux(just & ~tail, 1, 2))),
        ]
        m.d.sync += [
            first.eq(kept[0]),
            second.eq(kept[1]),
            just.eq(self.swap),
            tail.eq(moved[0].left != 0),
        ]
        for place, free in ((first, ~kept[0].valid), (second, kept[0].valid)):
            with m.If(complete & free):
                m.d.sync += [place.valid.eq(1), place.left.eq(ahead + 1 - pop)]

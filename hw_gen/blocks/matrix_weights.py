"""Weights on their way to the array: read a little ahead of the fold that they are for."""

from itertools import pairwise

from amaranth.hdl import *
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.operands import last_or, operands
from hw_gen.checks import check
from hw_gen.interfaces import READ_LATENCY, spad_read
from hw_gen.layouts import instruction_layout
from spec.config import NpuConfig
from spec.isa import Opcode

AHEAD = 2 * READ_LATENCY
"""Rows that may be read and not yet be in the array: enough for a row a cycle without a gap."""

_FOLD = data.StructLayout({"valid": 1, "left": range(AHEAD + 1)})


class WeightFeed(wiring.Component):
    """Reads the rows of each fold, and lets them into the array as soon as its shadow is free.

    The array takes the first row of a fold in the cycle in which the swap of the fold before
    enters it. For that the row must have been read before that swap was certain: up to `AHEAD`
    rows are, and wait in a FIFO.

    Members
    -------
    step, instr : the weight sequencer's steps, one per fold, and their instruction.
    wgt : scratchpad port.
    swap : the first vector of a fold is issued; entering : READ_LATENCY cycles later, when its swap
        flag goes to the array.
    ready : the next fold may begin; have : its rows were all requested.
    valid, weights : a row for the array.
    halt : read nothing more. bad : the next row does not lie in the scratchpad.

    Timing: a row a cycle. A fold of one vector and R rows takes R cycles.
    """

    def __init__(self, config: NpuConfig, step: data.StructLayout):
        self._config = config
        super().__init__(
            {
                "step": In(stream.Signature(step)),
                "instr": In(instruction_layout(Opcode.MATRIX)),
                "wgt": Out(spad_read(config)),
                "swap": In(1),
                "entering": In(1),
                "ready": Out(1),
                "have": Out(1),
                "valid": Out(1),
                "weights": Out(9 * config.cols),
                "halt": In(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Folds whose rows were all requested and that have not begun.
        first, second = (Signal(_FOLD, name=n) for n in ("first_fold", "second_fold"))
        read, last_row, pop, more, waiting = (
            Signal(name=n) for n in ("read", "last_row", "pop", "more", "waiting")
        )
        rows_read = Signal(range(AHEAD + 1))
        m.d.sync += rows_read.eq(rows_read + read - pop)
        m.d.comb += [more.eq(rows_read != AHEAD), waiting.eq(rows_read != 0)]
        late = self._read(m, read, last_row, more & ~second.valid)
        self._feed(m, platform, late, pop)
        self._begin(m, first, second, read & last_row, rows_read, pop)
        check(m, platform, ~pop | waiting, "matrix: a weight row that was not read")
        return m

    def _read(self, m: Module, read: Signal, last_row: Signal, more: Value):
        """Ask for the rows; returns: what belongs to the row that now comes."""
        cfg = self._config
        step, instr = self.step.payload, self.instr
        row, addr, offset = Signal(8), Signal(24), Signal(24)
        rows, cols = Signal(8), Signal(8)
        m.d.comb += [
            rows.eq(last_or(step.at_last, instr.row_loop, instr.rows_last, instr.rows)),
            cols.eq(last_or(step.at_last, instr.col_loop, instr.cols_last, instr.cols)),
            addr.eq(step.wgt + offset),
            self.bad.eq(self.step.valid & more & (addr + cols > cfg.spad_bytes)),
            last_row.eq(row + 1 == rows),
            self.wgt.valid.eq(self.step.valid & more & ~self.bad & ~self.halt),
            self.wgt.addr.eq(addr),
            self.wgt.size.eq(cols),
            read.eq(self.wgt.valid & self.wgt.ready),
            self.step.ready.eq(read & last_row),
        ]
        with m.If(read):
            m.d.sync += [row.eq(row + 1), offset.eq(offset + instr.wgt_row)]
            with m.If(last_row):
                m.d.sync += [row.eq(0), offset.eq(0)]
        meta = data.StructLayout({"cols": 8, "zp": signed(10), "unsigned": 1, "last": 1})
        stages = [Signal(meta, name=f"meta_{i}") for i in range(READ_LATENCY)]
        m.d.sync += [
            stages[0].cols.eq(cols),
            stages[0].zp.eq(instr.wgt_zp),
            stages[0]["unsigned"].eq(instr.wgt_unsigned),
            stages[0].last.eq(last_row),
            *(b.eq(a) for a, b in pairwise(stages)),
        ]
        return stages[-1]

    def _feed(self, m: Module, platform, late, pop: Signal) -> None:
        """Rows go to the array in order, past the FIFO where it is empty."""
        cfg = self._config
        layout = data.StructLayout({"weights": 9 * cfg.cols, "last": 1})
        came, head, keep = Signal(layout), Signal(layout), Signal(cfg.cols)
        loaded = Signal()
        m.submodules.rows = rows = fifo.SyncFIFO(width=layout.size, depth=AHEAD)
        here = rows.r_rdy | self.wgt.data_valid
        m.d.comb += [
            keep.eq((1 << late.cols) - 1),
            came.weights.eq(operands(self.wgt.data, late["unsigned"], late.zp, keep, cfg.cols)),
            came.last.eq(late.last),
            head.eq(Mux(rows.r_rdy, rows.r_data, came)),
            pop.eq(here & (~loaded | self.entering)),
            rows.r_en.eq(pop & rows.r_rdy),
            rows.w_en.eq(self.wgt.data_valid & (rows.r_rdy | ~pop)),
            rows.w_data.eq(came),
        ]
        m.d.sync += self.valid.eq(pop)
        with m.If(pop):
            m.d.sync += self.weights.eq(head.weights)
        # The shadow weights are complete, and no swap has taken them.
        with m.If(pop & head.last):
            m.d.sync += loaded.eq(1)
        with m.Elif(self.entering):
            m.d.sync += loaded.eq(0)
        check(m, platform, ~self.entering | loaded, "matrix: swap without new weights")
        check(m, platform, ~rows.w_en | rows.w_rdy, "matrix: a weight row without room")

    def _begin(self, m: Module, first, second, complete: Value, rows_read: Value, pop) -> None:
        """Which folds have all their rows requested, and how far the last rows are from the array.

        A swap enters the array READ_LATENCY = 2 cycles after it is issued and must find the last
        row there: the row goes in at the latest one cycle after the issue, so when it is first or
        second in line. After a swap in the cycle before, the next fold's rows cannot go in this
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
                m.d.sync += [place.valid.eq(1), place.left.eq(rows_read + 1 - pop)]

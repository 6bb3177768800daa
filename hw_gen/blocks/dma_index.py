"""Runs whose memory address depends on an index in the scratchpad."""

from amaranth.hdl import *
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.dma_bursts import run_layout
from hw_gen.blocks.dma_runs import RUN_BITS
from hw_gen.interfaces import spad_read
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, INDEX_BYTES

DEPTH = 4
"""Runs that wait for their index; more than the latency of a read, so that none is lost."""


class IndexStage(wiring.Component):
    """Behind `RunStage`: adds to the address of a run the index of its iteration of loop 0.

    Members
    -------
    i : ``In(stream)`` of `run_layout`; with each run ``indexed``, ``fresh`` (it is the first run of
        its iteration: the index at scratchpad byte ``at`` is to be read).
    o : ``Out(stream)`` of `run_layout`.
    spad : reads of indices. halt : read nothing more. empty : no run is held.

    Timing: runs without an index pass in the same cycle once all before them have left; those with
    one follow each other at one a cycle, each three cycles after its index was read.
    """

    def __init__(self, config: NpuConfig, tag: data.StructLayout):
        self._run = run_layout(config, RUN_BITS, tag)
        super().__init__(
            {
                "i": In(stream.Signature(self._run)),
                "indexed": In(1),
                "fresh": In(1),
                "at": In(CHIP_BITS),
                "o": Out(stream.Signature(self._run)),
                "spad": Out(spad_read(config)),
                "halt": In(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        layout = data.StructLayout({"run": self._run, "fresh": 1})
        bits = 8 * INDEX_BYTES
        m.submodules.runs = runs = fifo.SyncFIFO(width=layout.size, depth=DEPTH)
        # Every index in here, or on its way, belongs to a run in the other queue.
        m.submodules.indices = indices = fifo.SyncFIFO(width=bits, depth=DEPTH)
        head, held = Signal(layout), Signal(signed(bits))
        offset = Signal(signed(bits))
        may, waiting, pop = Signal(), Signal(), Signal()
        m.d.comb += [
            may.eq(self.i.valid & self.indexed & runs.w_rdy & ~self.halt),
            self.spad.valid.eq(may & self.fresh),
            self.spad.addr.eq(self.at),
            self.spad.size.eq(INDEX_BYTES),
            runs.w_en.eq(may & (~self.fresh | self.spad.ready)),
            runs.w_data.eq(Cat(self.i.payload, self.fresh)),
            indices.w_en.eq(self.spad.data_valid),
            indices.w_data.eq(self.spad.data[:bits]),
            head.eq(runs.r_data),
            waiting.eq(head.fresh & ~indices.r_rdy),
            offset.eq(Mux(head.fresh, indices.r_data.as_signed(), held)),
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(Mux(runs.r_rdy, ~waiting, self.i.valid & ~self.indexed)),
            pop.eq(runs.r_rdy & ~waiting & self.o.ready),
            runs.r_en.eq(pop),
            indices.r_en.eq(pop & head.fresh),
            self.i.ready.eq(Mux(self.indexed, runs.w_en, self.o.ready & ~runs.r_rdy)),
            self.empty.eq(~runs.r_rdy),
        ]
        with m.If(runs.r_rdy):
            m.d.comb += [
                self.o.payload.eq(head.run),
                self.o.payload.addr.eq(head.run.addr + offset),
            ]
        with m.If(pop):
            m.d.sync += held.eq(offset)
        return m

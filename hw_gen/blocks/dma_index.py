"""Runs whose memory address depends on an index in the scratchpad."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import fast_sum
from hw_gen.blocks.dma_bursts import run_layout
from hw_gen.blocks.dma_runs import RUN_BITS, RunStage
from hw_gen.blocks.fifo import Fifo
from hw_gen.interfaces import READ_LATENCY, spad_read
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, INDEX_BYTES

DEPTH = READ_LATENCY + 2
"""Runs that wait for their index; enough for one a cycle."""


class IndexStage(wiring.Component):
    """Behind `RunStage`: adds to the address of a run the index of its iteration of loop 0.

    Members
    -------
    i : ``In(stream)`` of `run_layout`; with each run ``indexed``, ``fresh`` (it is the first run of
        its iteration: the index at scratchpad byte ``at`` is to be read).
    o : ``Out(stream)`` of `run_layout`.
    spad : reads of indices. halt : read nothing more. empty : no run is held.

    Timing: runs without an index pass in the same cycle once all before them have left; those with
    one follow each other at one a cycle, each READ_LATENCY + 1 cycles after its index was asked
    for, or later.
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

    def follow(self, m: Module, runs: RunStage, halt: Value) -> None:
        """What comes with each run of `runs`."""
        m.d.comb += [getattr(self, n).eq(getattr(runs, n)) for n in ("indexed", "fresh", "at")]
        m.d.comb += self.halt.eq(halt)

    def elaborate(self, platform):
        m = Module()
        layout = data.StructLayout({"run": self._run, "fresh": 1})
        bits = 8 * INDEX_BYTES
        m.submodules.runs = runs = Fifo(layout, depth=DEPTH)
        # Every index in here, or on its way, belongs to a run in the other queue.
        m.submodules.indices = indices = Fifo(signed(bits), depth=DEPTH, latency=1)
        head, held = Signal(layout), Signal(signed(bits))
        offset = Signal(signed(bits))
        may, waiting, pop = Signal(), Signal(), Signal()
        held_back = runs.level != 0
        m.d.comb += [
            may.eq(self.i.valid & self.indexed & runs.i.ready & ~self.halt),
            self.spad.valid.eq(may & self.fresh),
            self.spad.addr.eq(self.at),
            self.spad.size.eq(INDEX_BYTES),
            runs.i.valid.eq(may & (~self.fresh | self.spad.ready)),
            runs.i.payload.eq(Cat(self.i.payload, self.fresh)),
            indices.i.valid.eq(self.spad.data_valid),
            indices.i.payload.eq(self.spad.data[:bits]),
            head.eq(runs.o.payload),
            waiting.eq(head.fresh & ~indices.o.valid),
            offset.eq(Mux(head.fresh, indices.o.payload, held)),
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(Mux(held_back, runs.o.valid & ~waiting, self.i.valid & ~self.indexed)),
            pop.eq(runs.o.valid & ~waiting & self.o.ready),
            runs.o.ready.eq(pop),
            indices.o.ready.eq(pop & head.fresh),
            self.i.ready.eq(Mux(self.indexed, runs.i.valid, self.o.ready & ~held_back)),
            self.empty.eq(~held_back),
        ]
        far = Cat(offset, offset[-1].replicate(len(head.run.addr)))[: len(head.run.addr)]
        place = fast_sum(m, platform, "place", head.run.addr, far)
        with m.If(held_back):
            m.d.comb += [self.o.payload.eq(head.run), self.o.payload.addr.eq(place)]
        with m.If(pop):
            m.d.sync += held.eq(offset)
        return m

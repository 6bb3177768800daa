"""Runs whose memory address depends on an index in the scratchpad."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import fast_sum
from hw_gen.blocks.dma_bursts import run_layout
from hw_gen.blocks.dma_extent import extent_layout, leaves
from hw_gen.blocks.dma_runs import RUN_BITS, RunStage
from hw_gen.blocks.fifo import Fifo
from hw_gen.interfaces import READ_LATENCY, spad_read
from hw_gen.layouts import INDEX_BITS
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, INDEX_BYTES
from spec.memmap import Fault

DEPTH = READ_LATENCY + 2
"""Runs that wait for their index; enough for one a cycle."""


class IndexStage(wiring.Component):
    """Behind `RunStage`: adds to the address of a run the index of its iteration of loop 0.

    Members
    -------
    i : ``In(stream)`` of `run_layout`; with each run ``indexed``, ``fresh`` (it is the first run of
        its iteration: the index at scratchpad byte ``at`` is to be read), ``extent`` (where it
        lies in its region without the index).
    o : ``Out(stream)`` of `run_layout`.
    outside : a run with an index that was taken from `o` in the cycle before does not lie in its
        region (``left``: where it lies; ``fault_index``: its instruction). Nobody may act on that
        run; from then on this stays as it is.
    spad : reads of indices. halt : read nothing more. empty : no run is held, none to be checked.

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
                "extent": In(extent_layout()),
                "o": Out(stream.Signature(self._run)),
                "outside": Out(1),
                "left": Out(extent_layout()),
                "fault_index": Out(INDEX_BITS),
                "spad": Out(spad_read(config)),
                "halt": In(1),
                "empty": Out(1),
            }
        )

    def follow(self, m: Module, runs: RunStage, halt: Value) -> None:
        """What comes with each run of `runs`."""
        names = ("indexed", "fresh", "at", "extent")
        m.d.comb += [getattr(self, name).eq(getattr(runs, name)) for name in names]
        m.d.comb += [self.halt.eq(halt), runs.behind.eq(~self.empty)]

    def elaborate(self, platform):
        m = Module()
        layout = data.StructLayout({"run": self._run, "fresh": 1, "extent": extent_layout()})
        bits = 8 * INDEX_BYTES
        m.submodules.runs = runs = Fifo(layout, depth=DEPTH)
        # Every index in here, or on its way, belongs to a run in the other queue.
        m.submodules.indices = indices = Fifo(signed(bits), depth=DEPTH, latency=1)
        head, held = Signal(layout), Signal(signed(bits))
        offset = Signal(signed(bits))
        may, waiting, pop, check = Signal(), Signal(), Signal(), Signal()
        held_back = ~runs.empty
        m.d.comb += [
            may.eq(self.i.valid & self.indexed & runs.i.ready & ~self.halt),
            self.spad.valid.eq(may & self.fresh),
            self.spad.addr.eq(self.at),
            self.spad.size.eq(INDEX_BYTES),
            runs.i.valid.eq(may & (~self.fresh | self.spad.ready)),
            runs.i.payload.eq(Cat(self.i.payload, self.fresh, self.extent)),
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
            self.empty.eq(~held_back & ~check),
            # The sum is a register: what is taken is known to be outside a cycle later.
            self.outside.eq(check & leaves(self.left)),
        ]
        place = fast_sum(m, platform, "place", head.run.addr, _wide(offset, head.run.addr))
        moved = fast_sum(
            m, platform, "moved", head.extent.offset, _wide(offset, head.extent.offset)
        )
        with m.If(held_back):
            m.d.comb += [self.o.payload.eq(head.run), self.o.payload.addr.eq(place)]
        with m.If(pop):
            m.d.sync += held.eq(offset)
        with m.If(~self.outside):
            m.d.sync += check.eq(pop)
            with m.If(pop):
                m.d.sync += [
                    self.left.eq(head.extent),
                    self.left.offset.eq(moved),
                    self.fault_index.eq(head.run.tag.index),
                ]
        return m


def _wide(index: Value, address: Value) -> Value:
    """The index with the bits of an address."""
    return Cat(index, index[-1].replicate(len(address)))[: len(address)]


def refused(m: Module, status, outside, runs: RunStage, indices: IndexStage | None) -> Value:
    """Cause and instruction of the run that a stage refuses, and where it lies (`Outside`).

    Returns: one does.
    """
    m.d.comb += [
        status.cause.eq(Mux(runs.outside, Fault.OUTSIDE_REGION, Fault.CHIP_ADDRESS)),
        status.fault_index.eq(runs.fault_index),
        outside.region.eq(runs.extent.region),
        outside.offset.eq(runs.extent.offset),
    ]
    if indices is None:
        return runs.fault
    with m.If(indices.outside):
        m.d.comb += [
            status.cause.eq(Fault.OUTSIDE_REGION),
            status.fault_index.eq(indices.fault_index),
            outside.region.eq(indices.left.region),
            outside.offset.eq(indices.left.offset),
        ]
    return runs.fault | indices.outside

"""The reading half of the store engine: bursts become scratchpad reads and bus beats."""

from itertools import pairwise

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.dma_bursts import burst_layout, lane_bits
from hw_gen.blocks.fifo import Fifo
from hw_gen.interfaces import READ_LATENCY, spad_read
from spec.config import NpuConfig

CREDITS = 8
"""Beats read but not yet sent; more than the round trip of a read, so that none is lost."""


class StoreReader(wiring.Component):
    """Reads each beat's bytes in one access and puts them on their lanes.

    Members
    -------
    i : ``In(stream)`` of `burst_layout`; the last bit of its tag's ``fires`` is the READ post.
    spad : the reads. o : ``Out(stream)`` of beats: data, strobe, size (bytes), last of its burst.
    fire : the scratchpad has delivered the last byte of a step that posts.
    halt : read nothing more; the beats of bursts that were taken follow without strobes.
    took, blocked, empty : a read was taken; waits for a bank; nothing is held here.

    Timing: a beat a cycle, READ_LATENCY + 3 cycles after its burst was taken.
    """

    def __init__(self, config: NpuConfig, tag: data.StructLayout):
        self._config = config
        self._burst = burst_layout(config, tag)
        self._beat = data.StructLayout(
            {
                "data": 8 * config.bus_bytes,
                "strobe": config.bus_bytes,
                "size": range(config.bus_bytes + 1),
                "last": 1,
            }
        )
        super().__init__(
            {
                "i": In(stream.Signature(self._burst)),
                "spad": Out(spad_read(config)),
                "o": Out(stream.Signature(self._beat)),
                "fire": Out(1),
                "halt": In(1),
                "took": Out(1),
                "blocked": Out(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self._config.bus_bytes
        burst, valid = Signal(self._burst), Signal()
        m.submodules.beats = beats = Fifo(self._beat, depth=CREDITS)
        used = Signal(range(CREDITS + 1))
        unit, size = Signal(range(bus + 1)), Signal(range(bus + 1))
        last, may, step = Signal(), Signal(), Signal()
        spad = self.spad
        m.d.comb += [
            unit.eq(bus - burst.lane),
            last.eq(burst.bytes <= unit),
            size.eq(Mux(last, burst.bytes, unit)),
            may.eq(valid & (used != CREDITS)),
            spad.valid.eq(may & ~self.halt),
            spad.addr.eq(burst.chip),
            spad.size.eq(size),
            step.eq(may & (spad.ready | self.halt)),
            self.took.eq(spad.valid & spad.ready),
            self.blocked.eq(spad.valid & ~spad.ready),
            self.i.ready.eq(~valid | (step & last)),
            self.empty.eq(~valid & (used == 0)),
        ]
        connect(m, beats.o, flipped(self.o))
        m.d.sync += used.eq(used + step - (self.o.valid & self.o.ready))
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += burst.eq(self.i.payload)
        with m.Elif(step):
            m.d.sync += [
                burst.chip.eq(burst.chip + size),
                burst.bytes.eq(burst.bytes - size),
                burst.lane.eq(0),
            ]
        self._deliver(m, beats, step, burst, size, last)
        return m

    def _deliver(self, m: Module, beats, step, burst, size, last) -> None:
        """What the data needs when it comes travels beside the read, READ_LATENCY cycles."""
        layout = data.StructLayout(
            {
                "valid": 1,
                "void": 1,
                "lane": lane_bits(self._config),
                "size": size.shape(),
                "last": 1,
                "fires": 1,
            }
        )
        line = [Signal(layout, name=f"flight_{i}") for i in range(READ_LATENCY)]
        m.d.sync += [
            line[0].valid.eq(step),
            line[0].void.eq(self.halt),
            line[0].lane.eq(burst.lane),
            line[0].size.eq(Mux(self.halt, 0, size)),
            line[0].last.eq(last),
            line[0].fires.eq(last & burst.last & burst.tag.fires[-1]),
        ]
        m.d.sync += [b.eq(a) for a, b in pairwise(line)]
        done, beat = line[-1], Signal(self._beat)
        bits = 8 * self._config.bus_bytes
        m.d.comb += [
            beat.data.eq(self.spad.data[:bits] << (done.lane << 3)),
            beat.strobe.eq(((1 << done.size) - 1) << done.lane),
            beat.size.eq(done.size),
            beat.last.eq(done.last),
            beats.i.valid.eq(done.valid),
            beats.i.payload.eq(beat),
            self.fire.eq(done.valid & done.fires & ~done.void),
        ]

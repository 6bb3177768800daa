"""The reading half of the store engine: bursts become scratchpad reads and bus beats."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.dma_bursts import burst_layout, lane_bits
from hw_gen.blocks.fifo import Fifo
from hw_gen.interfaces import spad_read
from spec.config import NpuConfig

CREDITS = 8
"""Beats read but not yet sent; more than the round trip of a read, so that none is lost."""


def flight_layout(config: NpuConfig) -> data.StructLayout:
    """What the data of a beat need when they come. `void`: nothing was read, because of a halt."""
    return data.StructLayout(
        {
            "void": 1,
            "lane": lane_bits(config),
            "size": range(config.bus_bytes + 1),
            "last": 1,
            "fires": 1,
        }
    )


class StoreReader(wiring.Component):
    """Reads each beat's bytes in one access and puts them on their lanes.

    Members
    -------
    i : ``In(stream)`` of `burst_layout`; the last bit of its tag's ``fires`` is the READ post.
    spad : the reads. o : ``Out(stream)`` of beats: data, strobe, size (bytes), last of its burst.
    fire : the scratchpad has delivered the last byte of a step that posts.
    halt : read nothing more; the beats of bursts that were taken follow without strobes.
    took, blocked, empty : a read was taken; waits for a bank; nothing is held here.

    Timing: a beat a cycle, READ_LATENCY + 3 cycles after its burst was taken, or later.
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
                "spad": Out(spad_read(config, flight_layout(config), lanes=True)),
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
            spad.valid.eq(may),
            spad.addr.eq(burst.chip),
            spad.lane.eq(burst.lane),
            spad.size.eq(Mux(self.halt, 0, size)),
            step.eq(may & spad.ready),
            self.took.eq(step & ~self.halt),
            self.blocked.eq(may & ~spad.ready & ~self.halt),
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
        m.d.comb += [
            spad.tag.void.eq(self.halt),
            spad.tag.lane.eq(burst.lane),
            spad.tag.size.eq(Mux(self.halt, 0, size)),
            spad.tag.last.eq(last),
            spad.tag.fires.eq(last & burst.last & burst.tag.fires[-1]),
        ]
        self._deliver(m, beats)
        return m

    def _deliver(self, m: Module, beats) -> None:
        """Bytes come in their lanes. Others have no strobe, and may be anything."""
        done, beat = self.spad.data_tag, Signal(self._beat)
        bits = 8 * self._config.bus_bytes
        m.d.comb += [
            beat.data.eq(self.spad.data[:bits]),
            beat.strobe.eq(((1 << done.size) - 1) << done.lane),
            beat.size.eq(done.size),
            beat.last.eq(done.last),
            beats.i.valid.eq(self.spad.data_valid),
            beats.i.payload.eq(beat),
            self.fire.eq(self.spad.data_valid & done.fires & ~done.void),
        ]

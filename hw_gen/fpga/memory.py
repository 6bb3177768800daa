"""Block RAM behind an AXI4 port, and beside it a port for bytes."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.sram import Sram
from hw_gen.interfaces import axi_read, axi_write
from spec.config import NpuConfig

DECERR = 3

BytePort = wiring.Signature(
    {
        "valid": Out(1),
        "ready": In(1),
        "write": Out(1),
        "addr": Out(32),
        "w_data": Out(8),
        "r_data": In(8),
    }
)
"""Accesses to single bytes, seen by the client: accepted with valid & ready; `r_data` comes a
cycle later and stays. A byte behind the end is not written and reads as 0."""


class BlockMemory(wiring.Component):
    """Memory of `bytes` at address 0.

    Members
    -------
    read, write : ``In`` of the NPU's channels. An address at or behind the end is answered with
        DECERR, and nothing is written. loader : ``In(BytePort)``, which waits for the NPU's bursts.

    Timing: bursts one after the other, a beat a cycle within one; INCR of whole words only, as the
    NPU makes them.
    """

    def __init__(self, config: NpuConfig, bytes: int):
        assert bytes % config.bus_bytes == 0 and bytes & (bytes - 1) == 0
        self._config = config
        self._words = bytes // config.bus_bytes
        super().__init__(
            {
                "read": In(axi_read(config)),
                "write": In(axi_write(config)),
                "loader": In(BytePort),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = 8 * self._config.bus_bytes
        m.submodules.ram = ram = Sram(depth=self._words, width=width, granularity=8)
        reading = self._read(m, ram)
        writing = self._write(m, ram)
        self._bytes(m, ram, reading, writing)
        return m

    def _place(self, address: Value) -> tuple[Value, Value]:
        """(word, whether there is one) of a byte address."""
        low = (self._config.bus_bytes - 1).bit_length()
        bits = (self._words - 1).bit_length()
        return address[low : low + bits], address[low + bits :] == 0

    def _read(self, m: Module, ram: Sram) -> Value:
        """Beats wait in a queue, which has room before one is read; returns: a burst is read."""
        axi = self.read
        layout = data.StructLayout({"data": len(axi.rdata), "id": 1, "last": 1, "outside": 1})
        m.submodules.beats = beats = Fifo(layout, depth=4, latency=1)
        word = Signal(range(self._words))
        left, busy, inside = Signal(8), Signal(), Signal()
        name, asked, last = Signal(), Signal(), Signal()
        here, there = self._place(axi.araddr)
        go = Signal()
        m.d.comb += [
            axi.arready.eq(~busy),
            # One may be on its way from the memory.
            go.eq(busy & (beats.level + asked < 4)),
            beats.i.valid.eq(asked),
            beats.i.payload.data.eq(Mux(inside, ram.r_data, 0)),
            beats.i.payload.id.eq(name),
            beats.i.payload.last.eq(last),
            beats.i.payload.outside.eq(~inside),
            axi.rvalid.eq(beats.o.valid),
            beats.o.ready.eq(axi.rready),
            axi.rdata.eq(beats.o.payload.data),
            axi.rid.eq(beats.o.payload.id),
            axi.rlast.eq(beats.o.payload.last),
            axi.rresp.eq(Mux(beats.o.payload.outside, DECERR, 0)),
        ]
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += [busy.eq(1), left.eq(axi.arlen), word.eq(here)]
            m.d.sync += [name.eq(axi.arid), inside.eq(there)]
        m.d.sync += asked.eq(go)
        with m.If(go):
            m.d.comb += [ram.r_en.eq(1), ram.r_addr.eq(word)]
            m.d.sync += [word.eq(word + 1), left.eq(left - 1), last.eq(left == 0)]
            with m.If(left == 0):
                m.d.sync += busy.eq(0)
        return busy

    def _write(self, m: Module, ram: Sram) -> Value:
        """Returns: a burst is written."""
        axi = self.write
        word = Signal(range(self._words))
        busy, inside = Signal(), Signal()
        here, there = self._place(axi.awaddr)
        m.d.comb += [
            axi.awready.eq(~busy & ~axi.bvalid),
            axi.wready.eq(busy),
        ]
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += [busy.eq(1), word.eq(here), inside.eq(there), axi.bid.eq(axi.awid)]
        with m.If(axi.wvalid & axi.wready):
            m.d.comb += [
                ram.w_en.eq(Mux(inside, axi.wstrb, 0)),
                ram.w_addr.eq(word),
                ram.w_data.eq(axi.wdata),
            ]
            m.d.sync += word.eq(word + 1)
            with m.If(axi.wlast):
                m.d.sync += [busy.eq(0), axi.bvalid.eq(1), axi.bresp.eq(Mux(inside, 0, DECERR))]
        with m.If(axi.bvalid & axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        return busy

    def _bytes(self, m: Module, ram: Sram, reading: Value, writing: Value) -> None:
        """The loader's accesses, between bursts."""
        port = self.loader
        here, there = self._place(port.addr)
        lane = port.addr[: (self._config.bus_bytes - 1).bit_length()]
        chosen, inside = Signal.like(lane), Signal()
        fetched, kept = Signal(), Signal(8)
        now = Mux(inside, ram.r_data.word_select(chosen, 8), 0)
        m.d.comb += port.r_data.eq(Mux(fetched, now, kept))
        m.d.sync += fetched.eq(0)
        with m.If(fetched):
            m.d.sync += kept.eq(now)
        with m.If(port.write):
            m.d.comb += port.ready.eq(~writing)
            with m.If(port.valid & ~writing):
                m.d.comb += [
                    ram.w_en.eq(Mux(there, 1 << lane, 0)),
                    ram.w_addr.eq(here),
                    ram.w_data.eq(port.w_data.replicate(self._config.bus_bytes)),
                ]
        with m.Else():
            m.d.comb += port.ready.eq(~reading)
            with m.If(port.valid & ~reading):
                m.d.comb += [ram.r_en.eq(1), ram.r_addr.eq(here)]
                m.d.sync += [fetched.eq(1), chosen.eq(lane), inside.eq(there)]

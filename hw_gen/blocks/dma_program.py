"""Reads the program from memory ahead of the decoder, a granule at a time."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw_gen.blocks.axi_read_mux import FETCH_ID
from hw_gen.blocks.dma_bursts import BurstSplitter, lane_bits
from hw_gen.blocks.fifo import Fifo
from hw_gen.interfaces import PROGRAM_BITS, axi_read
from spec.config import NpuConfig
from spec.isa import GRANULE_BITS, GRANULE_BYTES

_AHEAD = 4
_MOST = 128


def granule_layout() -> data.StructLayout:
    """16 bytes of program; `error`: memory answered with an error."""
    return data.StructLayout({"data": GRANULE_BITS, "error": 1})


class ProgramReader(wiring.Component):
    """Fetches ``bytes`` bytes at ``address`` (both rounded down to 16) after ``start``.

    Members
    -------
    start, address, bytes : what to read; start only when `idle`.
    axi : AR and R channels, id 0; up to four bursts are requested ahead.
    o : ``Out(stream)`` of `granule_layout`. exhausted : every granule has been taken.
    flush : request nothing more and throw away what comes (after END). halt : request nothing
        more and take what was requested.
    idle : nothing is requested or held.

    Timing: a granule a cycle where the bus is at least 16 bytes wide, else one in two.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        self._depth = max(2 * config.max_burst, min(_AHEAD * config.max_burst, _MOST))
        super().__init__(
            {
                "start": In(1),
                "address": In(config.axi_addr_bits),
                "bytes": In(PROGRAM_BITS),
                "axi": Out(axi_read(config)),
                "o": Out(stream.Signature(granule_layout())),
                "exhausted": Out(1),
                "flush": In(1),
                "halt": In(1),
                "idle": Out(1),
            }
        )

    @property
    def _flush(self) -> Value:
        """`flush`, where there is anything that asks for it."""
        return self.flush if self._config.program_loops else Const(0)

    def elaborate(self, platform):
        m = Module()
        bus = 8 * self._config.bus_bytes
        m.submodules.split = split = BurstSplitter(self._config, run_bits=PROGRAM_BITS, tag=1)
        m.submodules.beats = beats = Fifo(bus + 1, depth=self._depth)
        left = Signal(PROGRAM_BITS - exact_log2(GRANULE_BYTES))
        whole = self.bytes[exact_log2(GRANULE_BYTES) :]
        pop = Signal()
        reserved = self._request(m, split, pop & beats.o.valid)
        granule = self._gearbox(m, beats, pop, left == 1)
        m.d.comb += [
            split.i.valid.eq(self.start & whole.any()),
            split.i.payload.addr.eq(Cat(Const(0, 4), self.address[exact_log2(GRANULE_BYTES) :])),
            split.i.payload.bytes.eq(Cat(Const(0, 4), whole)),
            beats.i.valid.eq(self.axi.rvalid),
            beats.i.payload.eq(Cat(self.axi.rdata, self.axi.rresp.any())),
            self.axi.rready.eq(1),  # a request is made only when its beats have room
            self.o.valid.eq(granule & (left != 0) & ~self._flush),
            self.exhausted.eq(left == 0),
            self.idle.eq(split.empty & (reserved == 0) & ~self.axi.arvalid),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += left.eq(left - 1)
        if self._config.program_loops:
            with m.If(self.flush):
                m.d.sync += left.eq(0)
        with m.If(self.start):
            m.d.sync += left.eq(whole)
        return m

    def _request(self, m: Module, split: BurstSplitter, popped: Value) -> Value:
        """Offer bursts while their beats have room; returns: beats requested and not yet used."""
        axi, burst = self.axi, split.o.payload
        lanes = lane_bits(self._config)
        reserved = Signal(range(self._depth + 1))
        wanted = Signal(range(self._config.max_burst + 1))
        go = Signal()
        m.d.comb += [
            wanted.eq(burst.len + 1),
            go.eq(
                split.o.valid
                # As if every burst were the longest one: that is known without its length.
                & (reserved <= self._depth - self._config.max_burst)
                & (~axi.arvalid | axi.arready)
                & ~(self.halt | self._flush)
            ),
            split.o.ready.eq(go),
            split.drop.eq(self._flush & ~self.start),
            axi.arid.eq(FETCH_ID),
            axi.arsize.eq(lanes),
            axi.arburst.eq(1),
        ]
        with m.If(go):
            m.d.sync += [
                axi.arvalid.eq(1),
                axi.araddr.eq(Cat(Const(0, lanes), burst.addr[lanes:])),
                axi.arlen.eq(burst.len),
            ]
        with m.Elif(axi.arready):
            m.d.sync += axi.arvalid.eq(0)
        m.d.sync += reserved.eq(reserved + Mux(go, wanted, 0) - popped)
        return reserved

    def _gearbox(self, m: Module, beats, pop: Signal, final: Value) -> Value:
        """Bus beats to granules; returns: the granule on `o` is there."""
        bus = self._config.bus_bytes
        beat, error = beats.o.payload[:-1], beats.o.payload[-1]
        taken = self.o.valid & self.o.ready
        out = self.o.payload
        m.d.comb += [beats.o.ready.eq(pop), out.error.eq(error)]
        if bus < GRANULE_BYTES:
            half, held, bad = Signal(8 * bus), Signal(), Signal()
            m.d.comb += [
                out.data.eq(Cat(half, beat)),
                out.error.eq(error | bad),
                pop.eq(taken | ~held | self._flush),
            ]
            with m.If(self.start | taken):
                m.d.sync += held.eq(0)
            with m.Elif(beats.o.valid & ~held):
                m.d.sync += [half.eq(beat), bad.eq(error), held.eq(1)]
            return held & beats.o.valid
        if bus == GRANULE_BYTES:
            m.d.comb += [out.data.eq(beat), pop.eq(taken | self._flush)]
            return beats.o.valid
        select = Signal(range(bus // GRANULE_BYTES))
        m.d.comb += [
            out.data.eq(beat.word_select(select, GRANULE_BITS)),
            pop.eq((taken & (select.all() | final)) | self._flush),
        ]
        with m.If(self.start):
            m.d.sync += select.eq(self.address[exact_log2(GRANULE_BYTES) :])
        with m.Elif(taken):
            m.d.sync += select.eq(select + 1)
        return beats.o.valid

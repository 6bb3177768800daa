"""The receiving half of the load engine: bus words and fills become on-chip writes, in order."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw_gen.blocks.choose import chosen_of
from hw_gen.blocks.dma_bursts import lane_bits
from hw_gen.blocks.load_requests import copy_layout
from hw_gen.interfaces import size_bits, spad_write, table_write
from hw_gen.layouts import INDEX_BITS
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.exhaustive import handles
from spec.isa import CHIP_BITS, Space

handles("hw_gen.blocks.load_writer", Space, Space.SPAD, Space.ACC, Space.PARAM, Space.TABLE)


class LoadWriter(wiring.Component):
    """Takes runs in program order and cuts them out of the last words of the bus.

    A run becomes pieces of at most `bus_bytes` bytes, each one write. In the scratchpad a piece
    begins where the last one ended, whatever words it lies in; in PARAM and TABLE it ends with its
    bus word; a fill of the scratchpad has pieces of `word_bytes`.

    `config.load_window` words are kept.

    Members
    -------
    i : ``In(stream)`` of `copy_layout`.
    beat : ``In(stream)`` of bus data and, on top, an error bit.
    spad, param, table : the writes.
    halt : take no more beats.
    fire : the last byte of a step that posts is in the memory.
    wrote, blocked, starved, empty : a write was taken; waits for the scratchpad; waits for a beat;
        nothing is held here or in the scratchpad's buffers.
    fault, fault_index : a beat with an error response is next, and its instruction.

    Timing: a beat and a write a cycle, a write one cycle after the last beat that it needs.
    """

    def __init__(self, config: NpuConfig, tag: data.StructLayout):
        self._config = config
        self._copy = copy_layout(config, tag)
        beat = data.StructLayout({"data": 8 * config.bus_bytes, "error": 1})
        super().__init__(
            {
                "i": In(stream.Signature(self._copy)),
                "beat": In(stream.Signature(beat)),
                "spad": Out(spad_write(config)),
                "param": Out(table_write(config)),
                "table": Out(table_write(config)),
                "halt": In(1),
                "fire": Out(1),
                "wrote": Out(1),
                "blocked": Out(1),
                "starved": Out(1),
                "empty": Out(1),
                "fault": Out(1),
                "fault_index": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        bus = config.bus_bytes
        copy, valid = Signal(self._copy), Signal()
        size, unit = Signal(size_bits(config)), Signal(size_bits(config))
        take, last, room_here = Signal(), Signal(), Signal()
        is_spad, fill = copy.tag.space == Space.SPAD, copy.tag.fill
        m.d.comb += [
            # A fill of the scratchpad is not bound to bus words: as wide as a bank at any address.
            unit.eq(Mux(is_spad, Mux(fill, config.word_bytes, bus), bus - copy.lane)),
            last.eq(copy.bytes <= unit),
            size.eq(Mux(last, copy.bytes, unit)),
        ]

        # Of the words from the piece's first one to the newest: how many, and how many it needs.
        need, have = Signal(2), Signal.like(copy.have)
        wants, pops, complete = Signal(), Signal(), Signal()
        error = self.beat.payload.error
        # Whether a piece has bytes of two words, without waiting for its size.
        low, straddles = exact_log2(bus), Signal()
        long = copy.bytes[low:].any()
        m.d.comb += straddles.eq(Mux(long, copy.lane != 0, copy.lane + copy.bytes[:low] > bus))
        m.d.comb += [
            need.eq(1 + (is_spad & straddles)),
            wants.eq(valid & ~fill & (copy.have < need)),
            have.eq(copy.have + wants),
            complete.eq(fill | (have >= need)),
            self.fault.eq(wants & self.beat.valid & error & ~self.halt),
            self.fault_index.eq(copy.tag.index),
            take.eq(
                valid & complete & room_here & ~self.halt & (~wants | (self.beat.valid & ~error))
            ),
            pops.eq(wants & (room_here | ~complete) & ~error & ~self.halt),
            self.beat.ready.eq(pops),
            self.i.ready.eq(~valid | (take & last)),
            self.starved.eq(wants & ~self.beat.valid),
        ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += copy.eq(self.i.payload)
        with m.Elif(take):
            # The next piece begins one word on, at the same lane; in PARAM and TABLE at lane 0.
            m.d.sync += [
                copy.chip.eq(copy.chip + size),
                copy.bytes.eq(copy.bytes - size),
                copy.lane.eq(Mux(is_spad, copy.lane, 0)),
                copy.have.eq(have - 1),
            ]
        with m.Elif(pops & self.beat.valid):
            m.d.sync += copy.have.eq(have)
        lane = Mux(is_spad, copy.lane, 0)
        cut, first = self._cut(m, platform, pops & self.beat.valid, copy.have, lane)
        held = self._write(m, platform, take, copy, cut, first, size, last)
        m.d.comb += [
            room_here.eq(~held | self.wrote),
            self.empty.eq(~valid & ~held & self.spad.empty),
        ]
        return m

    def _cut(self, m: Module, platform, popped, have, lane) -> tuple[Value, Value]:
        """The window moves with every word; returns: bytes from `lane` on of the word that lies
        `have` words before the one on the bus and of the next one, and the lane of the first.
        """
        bus, words = 8 * self._config.bus_bytes, self._config.load_window
        window = Signal(data.ArrayLayout(bus, words), reset_less=True)
        incoming = self.beat.payload.data
        with m.If(popped):
            m.d.sync += window.eq(Cat(incoming, window)[: bus * words])
        newest = [incoming, *(window[k] for k in range(words))]
        if asks_for(platform, "loops"):
            return (self._both(m, newest, have) >> (lane << 3))[:bus], Const(0, len(lane))
        if self._config.word_bytes > self._config.bus_bytes:
            return self._both(m, newest, have), lane
        return self._around(m, newest, have, lane), lane

    def _both(self, m: Module, newest: list, have: Value) -> Value:
        """Two words, one behind the other."""
        both = Signal(2 * len(newest[0]), name="both_words")
        with m.Switch(have):
            for k, word in enumerate(newest):
                with m.Case(k):
                    m.d.comb += both.eq(Cat(word, newest[k - 1] if k else word))
        return both

    def _around(self, m: Module, newest: list, have: Value, lane: Value) -> Value:
        """The same where both do not fit in the data of a write: each lane has its byte of the one
        of them that is wanted."""
        bytes_ = Signal(8 * self._config.bus_bytes, name="bytes_of_words")
        for place in range(self._config.bus_bytes):
            back = Signal.like(have, name=f"back_{place}")
            each = [word.word_select(place, 8) for word in newest]
            # The last lane is always of the first word.
            second = place < lane if place < self._config.bus_bytes - 1 else Const(0, 1)
            m.d.comb += [
                back.eq(have - second),
                bytes_.word_select(place, 8).eq(
                    chosen_of([back == k for k in range(len(each))], each)
                ),
            ]
        return bytes_

    def _write(self, m: Module, platform, take, copy, cut, first, size, last) -> Value:
        """One register of write data; returns: it is full."""
        bus, word = self._config.bus_bytes, self._config.word_bytes
        held, space, fires = Signal(), Signal(Space), Signal()
        addr, length = Signal(CHIP_BITS), Signal(size_bits(self._config))
        bytes_, strobe, lane = Signal(8 * word), Signal(bus), Signal.like(self.spad.lane)
        with m.If(take):
            m.d.sync += [
                space.eq(copy.tag.space),
                addr.eq(copy.chip),
                length.eq(size),
                lane.eq(first),
                strobe.eq(((1 << size) - 1) << copy.lane),
                fires.eq(last & copy.tag.fires.any()),
                bytes_.eq(Mux(copy.tag.fill, copy.tag.value.replicate(word), cut)),
            ]
        with m.If(take):
            m.d.sync += held.eq(1)
        with m.Elif(self.wrote):
            m.d.sync += held.eq(0)
        spad, lanes = self.spad, lane_bits(self._config)
        landed = spad.empty
        if asks_for(platform, "for_fpga"):
            # The way from the buffers is long. What is asked for now is not in them yet.
            landed = Signal(name="all_landed")
            m.d.sync += landed.eq(spad.empty & ~spad.valid)
        m.d.comb += [
            spad.valid.eq(held & (space == Space.SPAD)),
            spad.addr.eq(addr),
            spad.size.eq(length),
            spad.lane.eq(lane),
            spad.data.eq(bytes_),
            spad.mark.eq(fires),
            # Posts stay in order: what was written before a step that posts has landed.
            self.wrote.eq(held & Mux(space == Space.SPAD, spad.ready, ~fires | landed)),
            self.blocked.eq(held & ~self.wrote),
            self.fire.eq(spad.landed | (self.wrote & fires & (space != Space.SPAD))),
        ]
        for port, which in ((self.param, Space.PARAM), (self.table, Space.TABLE)):
            m.d.comb += [
                port.valid.eq(held & (space == which)),
                port.addr.eq(Cat(Const(0, lanes), addr[lanes:])),
                port.data.eq(bytes_[: 8 * bus]),
                port.strobe.eq(strobe),
            ]
        return held

"""The receiving half of the load engine: bus beats and fills become on-chip writes, in order."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.dma_bursts import CHIP_BITS, burst_layout, lane_bits
from hw_gen.interfaces import size_bits, spad_write, table_write
from hw_gen.layouts import INDEX_BITS
from spec.config import NpuConfig
from spec.isa import Space


class LoadWriter(wiring.Component):
    """Takes bursts in program order; a beat (or a word of a fill) becomes one write.

    Members
    -------
    i : ``In(stream)`` of `burst_layout`.
    beat : ``In(stream)`` of bus data and, on top, an error bit.
    spad, param, table : the writes.
    halt : take no more beats.
    fire : the last byte of a step that posts was taken by the memory.
    wrote, blocked, starved, empty : a write was taken; waits for the scratchpad; waits for a beat;
        nothing is held here.
    fault, fault_index : a beat with an error response is next, and its instruction.

    Timing: a write a cycle, one cycle after its beat.
    """

    def __init__(self, config: NpuConfig, tag: data.StructLayout):
        self._config = config
        self._burst = burst_layout(config, tag)
        beat = data.StructLayout({"data": 8 * config.bus_bytes, "error": 1})
        super().__init__(
            {
                "i": In(stream.Signature(self._burst)),
                "beat": In(stream.Signature(beat)),
                "spad": Out(spad_write(config)),
                "param": Out(table_write(config, CHIP_BITS)),
                "table": Out(table_write(config, CHIP_BITS)),
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
        burst, valid = Signal(self._burst), Signal()
        lanes = lane_bits(self._config)
        have, take, last, room_here = Signal(), Signal(), Signal(), Signal()
        unit = Signal(size_bits(self._config))
        size = Signal(size_bits(self._config))
        lane = Signal(lanes)
        is_spad = Signal()
        error = self.beat.valid & self.beat.payload.error & ~burst.tag.fill
        m.d.comb += [
            is_spad.eq(burst.tag.space == Space.SPAD),
            # A fill of the scratchpad is not bound to bus lanes: a whole word at any address.
            lane.eq(Mux(burst.tag.fill & is_spad, 0, burst.lane)),
            unit.eq(
                Mux(burst.tag.fill & is_spad, self._config.word_bytes, self._config.bus_bytes)
                - lane
            ),
            last.eq(burst.bytes <= unit),
            size.eq(Mux(last, burst.bytes, unit)),
            have.eq(valid & (burst.tag.fill | self.beat.valid) & ~self.halt),
            self.fault.eq(have & error),
            self.fault_index.eq(burst.tag.index),
            take.eq(have & ~error & room_here),
            self.beat.ready.eq(take & ~burst.tag.fill),
            self.i.ready.eq(~valid | (take & last)),
            self.starved.eq(valid & ~burst.tag.fill & ~self.beat.valid),
        ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += burst.eq(self.i.payload)
        with m.Elif(take):
            m.d.sync += [
                burst.chip.eq(burst.chip + size),
                burst.bytes.eq(burst.bytes - size),
                burst.lane.eq(0),
            ]
        held = self._write(m, take, burst, lane, size, last, is_spad)
        m.d.comb += [room_here.eq(~held | self.wrote), self.empty.eq(~valid & ~held)]
        return m

    def _write(self, m: Module, take, burst, lane, size, last, is_spad) -> Value:
        """One register of write data; returns: it is full."""
        bus, word = self._config.bus_bytes, self._config.word_bytes
        held, space, fires = Signal(), Signal(Space), Signal()
        addr, length = Signal(CHIP_BITS), Signal(size_bits(self._config))
        bytes_, strobe = Signal(8 * word), Signal(bus)
        with m.If(take):
            m.d.sync += [
                space.eq(burst.tag.space),
                addr.eq(burst.chip),
                length.eq(size),
                strobe.eq(((1 << size) - 1) << lane),
                fires.eq(last & burst.last & burst.tag.fires.any()),
            ]
            with m.If(burst.tag.fill):
                m.d.sync += bytes_.eq(burst.tag.value.replicate(word))
            with m.Else():
                shift = Mux(is_spad, lane, 0) << 3
                m.d.sync += bytes_.eq(self.beat.payload.data >> shift)
        with m.If(take):
            m.d.sync += held.eq(1)
        with m.Elif(self.wrote):
            m.d.sync += held.eq(0)
        spad = self.spad
        m.d.comb += [
            spad.valid.eq(held & (space == Space.SPAD)),
            spad.addr.eq(addr),
            spad.size.eq(length),
            spad.data.eq(bytes_),
            self.wrote.eq(held & (spad.ready | (space != Space.SPAD))),
            self.blocked.eq(held & ~self.wrote),
            self.fire.eq(self.wrote & fires),
        ]
        for port, which in ((self.param, Space.PARAM), (self.table, Space.TABLE)):
            m.d.comb += [
                port.valid.eq(held & (space == which)),
                port.addr.eq(Cat(Const(0, lane.shape().width), addr[lane.shape().width :])),
                port.data.eq(bytes_[: 8 * bus]),
                port.strobe.eq(strobe),
            ]
        return held

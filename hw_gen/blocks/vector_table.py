"""TABLE of the vector engine: every lane looks up an int8 or interpolates between two int16."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.sram import Sram
from hw_gen.interfaces import table_write
from spec.config import NpuConfig
from spec.exhaustive import exhaustive
from spec.isa import Table

_ENTRY = 16
_BYTE = 8
_FRACTION = 7
"""Bits of an int16 between two entries."""


class VectorTable(wiring.Component):
    """`table_entries` int16 per lane, those of even and of odd numbers in a memory each, so that an
    entry and its successor are read together. Int8 entries are the bytes from 0 on.

    Members
    -------
    valid, kind, value : look up (`spec.isa.Table`); `cols` int32 lanes.
    o : the results, a cycle later; the values themselves where `kind` is OFF.
    write : ``In(table_write)``, byte addresses from 0.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        word = 32 * config.cols
        super().__init__(
            {
                "valid": In(1),
                "kind": In(Table),
                "value": In(word),
                "o": Out(word),
                "write": In(table_write(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        kind = Signal(Table, name="late_kind")
        with m.If(self.valid):
            m.d.sync += kind.eq(self.kind)
        for c in range(self._config.cols):
            lane = slice(32 * c, 32 * c + 32)
            m.d.comb += self.o[lane].eq(self._lane(m, c, self.value[lane].as_signed(), kind))
        return m

    def _lane(self, m: Module, c: int, value: Value, late_kind: Value) -> Value:
        cfg = self._config
        wide = self.kind == Table.I16
        entry, byte = Signal(9, name=f"entry_{c}"), Signal(8, name=f"byte_{c}")
        m.d.comb += [
            byte.eq(value[:_BYTE] ^ 0x80),
            entry.eq(Mux(wide, value[_FRACTION:_ENTRY] ^ 0x100, byte[1:])),
        ]
        looked = self.valid & (self.kind != Table.OFF)
        row_entries = cfg.bus_bytes // 4
        bits = (row_entries - 1).bit_length()
        found = []
        for k in (0, 1):
            half = Signal(9, name=f"half_{c}_{k}")
            place = Signal(range(row_entries), name=f"place_{c}_{k}")
            m.submodules[f"ram_{c}_{k}"] = ram = self._ram(m, k)
            m.d.comb += [
                half.eq(entry >> 1 if k else (entry + 1) >> 1),
                ram.r_en.eq(looked & (wide | (entry[0] == k))),
                ram.r_addr.eq(half >> bits),
            ]
            with m.If(looked):
                m.d.sync += place.eq(half)
            found.append(ram.r_data.word_select(place, _ENTRY))
        odd, high = Signal(name=f"odd_{c}"), Signal(name=f"high_{c}")
        fraction = Signal(_FRACTION, name=f"fraction_{c}")
        passed = Signal(signed(32), name=f"passed_{c}")
        with m.If(looked):
            m.d.sync += [odd.eq(entry[0]), high.eq(byte[0]), fraction.eq(value)]
        with m.Elif(self.valid):
            m.d.sync += passed.eq(value)
        base, following = Signal(_ENTRY, name=f"base_{c}"), Signal(_ENTRY, name=f"following_{c}")
        out = Signal(signed(32), name=f"out_{c}")
        m.d.comb += [
            base.eq(Mux(odd, found[1], found[0])),
            following.eq(Mux(odd, found[0], found[1])),
        ]
        step = following.as_signed() - base.as_signed()
        results = exhaustive(
            "hw_gen.blocks.vector_table",
            Table,
            {
                Table.OFF: passed,
                Table.I8: base.word_select(high, _BYTE).as_signed(),
                Table.I16: (base.as_signed() << _FRACTION) + step * fraction,
            },
        )
        with m.Switch(late_kind):
            for kind, result in results.items():
                with m.Case(kind):
                    m.d.comb += out.eq(result)
        return out

    def _ram(self, m: Module, odd: int) -> Sram:
        """The entries of even or odd numbers; a row has those of a bus word."""
        cfg = self._config
        bus = cfg.bus_bytes
        ram = Sram(depth=-(-cfg.table_bytes // bus), width=4 * bus, granularity=_BYTE)
        strobe = Mux(self.write.valid, self.write.strobe, 0)
        pairs = range(odd, bus // 2, 2)
        m.d.comb += [
            ram.w_addr.eq(self.write.addr >> (bus - 1).bit_length()),
            ram.w_data.eq(Cat(self.write.data[_ENTRY * k : _ENTRY * k + _ENTRY] for k in pairs)),
            ram.w_en.eq(Cat(strobe[2 * k : 2 * k + 2] for k in pairs)),
        ]
        return ram

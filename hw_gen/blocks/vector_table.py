"""TABLE of the vector engine: every lane looks up an int8 or interpolates between two int16."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.sram import Sram
from hw_gen.checks import check
from hw_gen.interfaces import table_write
from spec.config import NpuConfig
from spec.exhaustive import handles
from spec.isa import TABLE_SHIFT, Table

handles("hw_gen.blocks.vector_table", Table, Table.OFF, Table.I8, Table.I16, Table.I16_I8)

_ENTRY = 16
_BYTE = 8
_FRACTION = 7
"""Bits of an int16 between two entries."""


def interval(config: NpuConfig) -> int:
    """Cycles from a lookup to the next: two lanes, if there are two, have a table in turn."""
    return min(2, config.lane_count)


class VectorTable(wiring.Component):
    """`table_entries` int16 for each pair of lanes, those of even and of odd numbers in a memory
    each, so that an entry and its successor are read together. Int8 entries are the bytes from 0.

    Members
    -------
    valid, wide, short, value : look up, `wide` between int16, `short` without the result's
        TABLE_SHIFT lower bits; an int32 of each lane.
    o : the results, `LATENCY` cycles later. Lookups follow each other every `interval` cycles.
    write : ``In(table_write)``, byte addresses from 0.

    Stages: read; difference of two entries; its product with the fraction; sum. The second lane of
    a pair goes through them a cycle behind the first; a lane alone waits for none.
    """

    LATENCY = 5

    def __init__(self, config: NpuConfig):
        self._config = config
        word = 32 * config.lane_count
        super().__init__(
            {
                "valid": In(1),
                "wide": In(1),
                "short": In(1),
                "value": In(word),
                "o": Out(word),
                "write": In(table_write(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes, second = self._config.lane_count, Signal()
        if interval(self._config) > 1:
            m.d.sync += second.eq(self.valid)
        check(m, platform, ~(self.valid & second), "vector table: lookups in successive cycles")
        wide = self._stages(m, "wide", self.wide, second)
        short = self._stages(m, "short", self.short, second)
        for c in range(0, lanes, 2):
            pair = [self.value[32 * k : 32 * k + _ENTRY] for k in (c, c + 1)]
            waiting = Signal(_ENTRY, name=f"waiting_{c}", reset_less=True)
            m.d.sync += waiting.eq(pair[1])
            value = Mux(second, waiting, pair[0])
            out = self._lane(m, c, value, self.valid | second, wide, short[3])
            before = Signal(signed(32), name=f"before_{c}", reset_less=True)
            m.d.sync += before.eq(out)
            m.d.comb += self.o[32 * c : 32 * c + 64].eq(Cat(before, out))
        return m

    def _stages(self, m: Module, name: str, given: Value, second: Value) -> list[Signal]:
        """A flag of a lookup, and that in the stages behind; the second lane has the first's."""
        flags = [Signal(name=f"{name}_0")]
        for s in (1, 2, 3):
            flags.append(Signal(name=f"{name}_{s}", reset_less=True))
            m.d.sync += flags[s].eq(flags[s - 1])
        m.d.comb += flags[0].eq(Mux(second, flags[1], given))
        return flags

    def _lane(
        self, m: Module, c: int, value: Value, valid: Value, wide: list, short: Value
    ) -> Value:
        def reg(name: str, shape) -> Signal:
            return Signal(shape, name=f"{name}_{c}", reset_less=True)

        if not self._config.table_int16:
            return self._narrow(m, c, value, valid, reg)
        fraction = [reg(f"fraction_{s}", _FRACTION) for s in (1, 2)]
        base = [reg(f"base_{s}", signed(_ENTRY)) for s in (2, 3)]
        step, product = reg("step", signed(_ENTRY + 1)), reg("product", signed(_ENTRY + 8))
        entry, following, byte = self._read(m, c, value, valid, wide[0], reg)
        out, total = reg("out", signed(32)), Signal(signed(_ENTRY + _FRACTION), name=f"total_{c}")
        m.d.comb += total.eq((base[1] << _FRACTION) + product)
        m.d.sync += [
            fraction[0].eq(value),
            fraction[1].eq(fraction[0]),
            base[0].eq(Mux(wide[1], entry, byte)),
            step.eq(following - entry),
            base[1].eq(base[0]),
            product.eq(step * fraction[1]),
            out.eq(Mux(wide[3], Mux(short, total >> TABLE_SHIFT, total), base[1])),
        ]
        return out

    def _narrow(self, m: Module, c: int, value: Value, valid: Value, reg) -> Value:
        """Where there are no tables of int16: the byte alone, as many cycles later."""
        *_, byte = self._read(m, c, value, valid, Const(0, 1), reg)
        later = [reg(f"byte_{s}", signed(_BYTE)) for s in (2, 3)]
        out = reg("out", signed(32))
        m.d.sync += [later[0].eq(byte), later[1].eq(later[0]), out.eq(later[1])]
        return out

    def _read(
        self, m: Module, c: int, value: Value, valid: Value, wide: Value, reg
    ) -> tuple[Signal, Signal, Value]:
        """The entry of `value`, its successor, and the byte of `value`, a cycle later."""
        cfg = self._config
        number, byte = Signal(9, name=f"number_{c}"), Signal(8, name=f"byte_{c}")
        m.d.comb += [
            byte.eq(value[:_BYTE] ^ 0x80),
            number.eq(Mux(wide, value[_FRACTION:_ENTRY] ^ 0x100, byte[1:])),
        ]
        row_entries = cfg.bus_bytes // 4
        bits = (row_entries - 1).bit_length()
        odd, high = reg("odd", 1), reg("high", 1)
        m.d.sync += [odd.eq(number[0]), high.eq(byte[0])]
        found = []
        for k in (0, 1):
            half = Signal(9, name=f"half_{c}_{k}")
            place = reg(f"place_{k}", range(row_entries))
            m.submodules[f"ram_{c}_{k}"] = ram = self._ram(m, k)
            m.d.comb += [
                half.eq(number >> 1 if k else (number + 1) >> 1),
                ram.r_en.eq(valid & (wide | (number[0] == k))),
                ram.r_addr.eq(half >> bits),
            ]
            m.d.sync += place.eq(half)
            words = [ram.r_data[_ENTRY * i : _ENTRY * (i + 1)] for i in range(row_entries)]
            found.append(Array(words)[place])
        entry = Signal(signed(_ENTRY), name=f"entry_{c}")
        following = Signal(signed(_ENTRY), name=f"following_{c}")
        m.d.comb += [
            entry.eq(Mux(odd, found[1], found[0])),
            following.eq(Mux(odd, found[0], found[1])),
        ]
        return entry, following, Mux(high, entry[_BYTE:], entry[:_BYTE]).as_signed()

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

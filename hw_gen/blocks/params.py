"""Parameter memory: bias, multiplier and shift of every lane in one read."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.sram import Sram
from hw_gen.interfaces import table_write
from spec.config import NpuConfig


class ParamMemory(wiring.Component):
    """`param_entries` entries of `param_entry_bytes`, written a bus word at a time.

    Two copies give two reads a cycle: the early one for bias and the RESCALE of A, the late one
    for the RESCALE of the result, `cols` x (int32, int32, int8) each.

    Members
    -------
    write : ``In(table_write)``, byte addresses from 0.
    addr[i], en[i] : entry to read; data[i] a cycle later.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "write": In(table_write(config)),
                "en": In(1).array(2),
                "addr": In(config.param_addr_bits).array(2),
                "data": Out(8 * config.param_entry_bytes).array(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        words = cfg.param_entry_bytes // cfg.bus_bytes
        entry, word = self._locate(m, words)
        for copy in range(2):
            for w in range(words):
                m.submodules[f"copy_{copy}_word_{w}"] = ram = Sram(
                    depth=cfg.param_entries, width=8 * cfg.bus_bytes, granularity=8
                )
                low = 8 * cfg.bus_bytes * w
                m.d.comb += [
                    ram.r_en.eq(self.en[copy]),
                    ram.r_addr.eq(self.addr[copy]),
                    self.data[copy][low : low + 8 * cfg.bus_bytes].eq(ram.r_data),
                    ram.w_addr.eq(entry),
                    ram.w_data.eq(self.write.data),
                    ram.w_en.eq(Mux(self.write.valid & (word == w), self.write.strobe, 0)),
                ]
        return m

    def _locate(self, m: Module, words: int) -> tuple[Signal, Signal]:
        """Entry and word of the write address: division by a constant through its reciprocal."""
        cfg = self._config
        total = cfg.param_entries * words
        index = Signal(range(total))
        m.d.comb += index.eq(self.write.addr >> (cfg.bus_bytes.bit_length() - 1))
        shift = 2 * total.bit_length()
        reciprocal = -(-(1 << shift) // words)
        entry, word = Signal(cfg.param_addr_bits), Signal(range(words + 1))
        m.d.comb += [
            entry.eq((index * reciprocal) >> shift),
            word.eq(index - entry * words),
        ]
        return entry, word

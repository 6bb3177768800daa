"""Parameter memory: bias, multiplier and shift of every lane."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.sram import Sram
from hw_gen.blocks.vector_context import part_shape
from hw_gen.interfaces import table_write
from hw_gen.layouts import field_shape
from hw_gen.platform import asks_for
from spec.config import PARAM_PARTS, NpuConfig
from spec.isa import Opcode

_BYTE = 8


class ParamMemory(wiring.Component):
    """`param_entries` entries of `param_entry_bytes`, written a bus word at a time.

    Biases and scales are read apart, each of another entry: a memory has the words with biases,
    another those with multipliers and shifts, `cols` x (int32, int32, int8) together.

    Members
    -------
    write : ``In(table_write)``, byte addresses from 0; on an FPGA written two cycles later.
    bias_addr, bias_en; scale_addr, scale_en : entry to read; `lane` has it a cycle later.
    bias_part, scale_part : which part of it, where vectors pass the lanes in parts.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        parts = {"bias_part": In(part_shape(config)), "scale_part": In(part_shape(config))}
        super().__init__(
            {
                **(parts if config.vector_parts > 1 else {}),
                "write": In(table_write(config)),
                "bias_en": In(1),
                "bias_addr": In(config.param_addr_bits),
                "scale_en": In(1),
                "scale_addr": In(config.param_addr_bits),
                "bias": Out(32 * config.lane_count),
                "multiplier": Out(32 * config.lane_count),
                "shift": Out(_BYTE * config.lane_count),
            }
        )

    def lane(self, c: int) -> tuple[Value, Value, Value]:
        """Bias, multiplier and shift of lane `c`."""
        width = field_shape(Opcode.VECTOR, "a_shift").width
        return (
            self.bias.word_select(c, 32).as_signed(),
            self.multiplier.word_select(c, 32).as_signed(),
            self.shift.word_select(c, _BYTE)[:width],
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        words = cfg.param_entry_bytes // cfg.bus_bytes
        far = asks_for(platform, "for_fpga")
        write = self._last(m, self.write) if far else self.write
        entry, word = self._locate(m, write.addr, words)
        if far:
            last_entry, last_word = Signal.like(entry), Signal.like(word)
            m.d.sync += [last_entry.eq(entry), last_word.eq(word)]
            entry, word, write = last_entry, last_word, self._last(m, write)
        for names, read, address, use in (
            (("bias",), self.bias_en, self.bias_addr, "bias"),
            (("multiplier", "shift"), self.scale_en, self.scale_addr, "scale"),
        ):
            low = cfg.param_offset(names[0])
            high = cfg.param_offset(names[-1]) + cfg.cols * PARAM_PARTS[names[-1]]
            held = Signal(_BYTE * cfg.param_entry_bytes, name=f"entry_{names[0]}")
            for w in range(low // cfg.bus_bytes, -(-high // cfg.bus_bytes)):
                m.submodules[f"{names[0]}_word_{w}"] = ram = Sram(
                    depth=cfg.param_entries, width=_BYTE * cfg.bus_bytes, granularity=_BYTE
                )
                at = _BYTE * cfg.bus_bytes * w
                m.d.comb += [
                    ram.r_en.eq(read),
                    ram.r_addr.eq(address),
                    held[at : at + _BYTE * cfg.bus_bytes].eq(ram.r_data),
                    ram.w_addr.eq(entry),
                    ram.w_data.eq(write.data),
                    ram.w_en.eq(Mux(write.valid & (word == w), write.strobe, 0)),
                ]
            part: Value = Const(0, 1)
            if cfg.vector_parts > 1:
                part = Signal(part_shape(cfg), name=f"{use}_part_held", reset_less=True)
                m.d.sync += part.eq(getattr(self, f"{use}_part"))
            for name in names:
                values, lanes = held[_BYTE * cfg.param_offset(name) :], getattr(self, name)
                m.d.comb += lanes.eq(
                    values.word_select(part, len(lanes)) if cfg.vector_parts > 1 else values
                )
        return m

    def _last(self, m: Module, write):
        """What was written in the cycle before: to divide takes long on an FPGA."""
        last = table_write(self._config).create(path=("last",))
        m.d.sync += [getattr(last, x).eq(getattr(write, x)) for x in last.signature.members]
        return last

    def _locate(self, m: Module, addr: Value, words: int) -> tuple[Signal, Signal]:
        """Entry and word of the write address: division by a constant through its reciprocal."""
        cfg = self._config
        total = cfg.param_entries * words
        index = Signal(range(total))
        m.d.comb += index.eq(addr >> (cfg.bus_bytes.bit_length() - 1))
        shift = 2 * total.bit_length()
        reciprocal = -(-(1 << shift) // words)
        entry, word = Signal(cfg.param_addr_bits), Signal(range(words + 1))
        m.d.comb += [
            entry.eq((index * reciprocal) >> shift),
            word.eq(index - entry * words),
        ]
        return entry, word

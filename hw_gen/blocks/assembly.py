"""Where the granules of an instruction come together."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.repeat import MAX_GRANULES
from hw_gen.blocks.sram import Sram
from hw_gen.platform import asks_for
from spec.isa import GRANULE_BITS

_BITS = MAX_GRANULES * GRANULE_BITS


class Assembly(wiring.Component):
    """One instruction that is complete, and the next one, of which granules come.

    They are the output of a memory and its two words, which take turns. An FPGA has two sets of
    registers in their place: each bit of a small memory is a table there, and a register costs
    none.

    Members
    -------
    w_en : one bit a granule. w_data : a granule.
    r_en : what was written is complete; it is `r_data` from the next cycle on.
    """

    def __init__(self):
        super().__init__(
            {
                "w_en": In(MAX_GRANULES),
                "w_data": In(GRANULE_BITS),
                "r_en": In(1),
                "r_data": Out(_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if asks_for(platform, "for_fpga"):
            self._registers(m)
        else:
            self._memory(m)
        return m

    def _memory(self, m: Module) -> None:
        m.submodules.words = words = Sram(depth=2, width=_BITS, granularity=GRANULE_BITS)
        turn = Signal()
        m.d.comb += [
            words.w_en.eq(self.w_en),
            words.w_addr.eq(turn),
            words.w_data.eq(self.w_data.replicate(MAX_GRANULES)),
            words.r_en.eq(self.r_en),
            words.r_addr.eq(turn),
            self.r_data.eq(words.r_data),
        ]
        with m.If(self.r_en):
            m.d.sync += turn.eq(~turn)

    def _registers(self, m: Module) -> None:
        came = Signal(_BITS, reset_less=True)
        complete = Signal(_BITS, reset_less=True)
        for number, enable in enumerate(self.w_en):
            with m.If(enable):
                m.d.sync += came.word_select(number, GRANULE_BITS).eq(self.w_data)
        with m.If(self.r_en):
            m.d.sync += complete.eq(came)
        m.d.comb += self.r_data.eq(complete)

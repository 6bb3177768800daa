"""The systolic array as a black box: `rtl/systola_array.sv` holds it as loops."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.accumulator import acc_tag_layout
from spec.config import NpuConfig


class SystolicArray(wiring.Component):
    """Wrapper of the SystemVerilog module; see there for the timing.

    Members
    -------
    clear : reset (an instance is not reached by `ResetInserter`).
    act : `rows` operands of 9 bits; swap, tag : beside them.
    wgt_valid, wgt_across, wgt : a row of weights of 9 bits in lanes 0…cols-1 or, across, a column
        in lanes 0…rows-1; the other lanes are not looked at.
    sums : `cols` int32; tag_o : their tag, a cycle earlier.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "act": In(9 * config.rows),
                "swap": In(1),
                "clear": In(1),
                "tag": In(acc_tag_layout(config)),
                "wgt_valid": In(1),
                "wgt_across": In(1),
                "wgt": In(9 * max(config.rows, config.cols)),
                "sums": Out(32 * config.cols),
                "tag_o": Out(acc_tag_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        tag_o = Signal(acc_tag_layout(self._config).size)
        m.submodules.array = Instance(
            "systola_array",
            p_ROWS=self._config.rows,
            p_COLS=self._config.cols,
            p_TAG_BITS=len(tag_o),
            p_ACROSS=int(self._config.transposed_weights),
            i_clk=ClockSignal(),
            i_rst=ResetSignal() | self.clear,
            i_act=self.act,
            i_swap=self.swap,
            i_tag_i=self.tag.as_value(),
            i_wgt_valid=self.wgt_valid,
            i_wgt_across=self.wgt_across,
            i_wgt=self.wgt,
            o_sums=self.sums,
            o_tag_o=tag_o,
        )
        m.d.comb += self.tag_o.eq(tag_o)
        return m

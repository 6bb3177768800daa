"""The systolic array: processing elements, or for simulation loops that do the same."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.array_element import ArrayShape
from hw_gen.blocks.array_elements import ArrayElements
from hw_gen.blocks.operands import OPERAND
from hw_gen.layouts import acc_tag_layout
from hw_gen.platform import asks_for
from spec.config import NpuConfig


def array_shape(config: NpuConfig) -> ArrayShape:
    """The array of a configuration."""
    return ArrayShape(
        rows=config.rows,
        cols=config.cols,
        across=config.transposed_weights,
        weight_rows=config.weight_rows,
    )


def weight_vectors(config: NpuConfig) -> wiring.Signature:
    """Weights on their way into the array: while ``valid``, `weight_rows` vectors side by side in
    `data`, each with a row in lanes 0…cols-1 or, ``across``, a column in lanes 0…rows-1. The other
    lanes are not looked at. A vector that the fold does not have is zeros.
    """
    width = OPERAND.width * max(config.rows, config.cols) * config.weight_rows
    return wiring.Signature({"valid": Out(1), "across": Out(1), "data": Out(width)})


class SystolicArray(wiring.Component):
    """Wrapper of both forms; `rtl/systola_array.sv` says the timing. Proofs hold them equal.

    Members
    -------
    clear : reset (an instance is not reached by `ResetInserter`).
    act : `rows` operands; swap, tag : beside them.
    weights : ``In(weight_vectors(config))``.
    sums : `cols` int32; tag_o : their tag, two cycles earlier.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "act": In(OPERAND.width * config.rows),
                "swap": In(1),
                "clear": In(1),
                "tag": In(acc_tag_layout(config)),
                "weights": In(weight_vectors(config)),
                "sums": Out(32 * config.cols),
                "tag_o": Out(acc_tag_layout(config)),
            }
        )

    def elaborate(self, platform):
        loops = asks_for(platform, "loops")
        return self._loops() if loops else self._elements()

    def _elements(self):
        m = Module()
        m.submodules.elements = elements = ArrayElements(
            array_shape(self._config), tag_bits=acc_tag_layout(self._config).size
        )
        # The reset goes down the rows as what is in them does: no flip-flop drives them all. It
        # comes long before the first activations of a run, and takes away all that is on its way.
        clear = Signal.like(elements.clear, reset_less=True)
        m.d.sync += clear.eq(Cat(ResetSignal() | self.clear, clear))
        m.d.comb += [
            elements.clear.eq(clear),
            elements.act.eq(self.act),
            elements.swap.eq(self.swap),
            elements.tag_i.eq(self.tag),
            elements.wgt_valid.eq(self.weights.valid),
            elements.wgt_across.eq(self.weights.across),
            elements.wgt.eq(self.weights.data),
            self.sums.eq(elements.sums),
            self.tag_o.eq(elements.tag_o),
        ]
        return m

    def _loops(self):
        m = Module()
        tag_o = Signal(acc_tag_layout(self._config).size)
        many = self._config.weight_rows
        m.submodules.array = Instance(
            "systola_array",
            p_ROWS=self._config.rows,
            p_COLS=self._config.cols,
            p_TAG_BITS=len(tag_o),
            p_ACROSS=int(self._config.transposed_weights),
            **({"p_WEIGHT_ROWS": many} if many > 1 else {}),
            i_clk=ClockSignal(),
            i_rst=ResetSignal() | self.clear,
            i_act=self.act,
            i_swap=self.swap,
            i_tag_i=self.tag.as_value(),
            i_wgt_valid=self.weights.valid,
            i_wgt_across=self.weights.across,
            i_wgt=self.weights.data,
            o_sums=self.sums,
            o_tag_o=tag_o,
        )
        m.d.comb += self.tag_o.eq(tag_o)
        return m

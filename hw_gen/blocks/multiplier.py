"""A multiplier as a black box: `rtl/systola_multiplier.sv` holds it as a tree of adders."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.platform import RtlPlatform


class Multiplier(wiring.Component):
    """The product of two signed numbers of `width` bits (even), a cycle later, one each cycle.

    The register lies behind a tree of carry-save adders. The carries of the product are added
    behind it, in the cycle in which `product` is used.
    """

    def __init__(self, width: int):
        self._width = width
        super().__init__(
            {
                "a": In(signed(width)),
                "b": In(signed(width)),
                "product": Out(signed(2 * width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if isinstance(platform, RtlPlatform):
            m.submodules.tree = Instance(
                "systola_multiplier",
                p_WIDTH=self._width,
                i_clk=ClockSignal(),
                i_a=self.a,
                i_b=self.b,
                o_product=self.product,
            )
        else:
            m.d.sync += self.product.eq(self.a * self.b)
        return m

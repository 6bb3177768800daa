"""Registers of which every user has its own, where one register would drive too much."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.platform import asks_for


class _Copy(wiring.Component):
    """`o` is `i` a cycle later. A module of its own: synthesis does not unite it with its like."""

    def __init__(self, bits: int):
        super().__init__({"i": In(bits), "o": Out(bits)})

    def elaborate(self, platform):
        m = Module()
        held = Signal.like(self.o, name="held", reset_less=True)
        m.d.sync += held.eq(self.i)
        m.d.comb += self.o.eq(held)
        return m


class Copies:
    """The flags that each of many equal parts takes from registers.

    A register that chooses every bit of every lane drives hundreds of gates by a tree of buffers,
    which costs more of a cycle than what it chooses. Simulators and FPGAs get one register.
    """

    def __init__(self, m: Module, platform, name: str, value: Value, count: int):
        """`count` registers of what `value` is a cycle before."""
        value = Value.cast(value)
        one = asks_for(platform, "plain_sums")
        self._copies = []
        for i in range(1 if one else count):
            m.submodules[f"{name}_{i}"] = copy = _Copy(len(value))
            m.d.comb += copy.i.eq(value)
            self._copies.append(copy.o)

    def __getitem__(self, part: int) -> Value:
        """The register of a part."""
        return self._copies[part % len(self._copies)]

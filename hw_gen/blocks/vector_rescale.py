"""RESCALE of a vector lane: a product, shifted right and rounded."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.multiplier import Multiplier
from hw_gen.layouts import field_shape
from hw_gen.platform import asks_for
from spec.isa import Opcode

SHIFT = field_shape(Opcode.VECTOR, "a_shift")


class LaneRescale(wiring.Component):
    """(x * by + 2^(shift-1)) >> shift, low 32 bits; without rounding where the shift is 0.

    Members
    -------
    x, by, shift : int32, int32, 0…63.
    o : the result, four cycles later; a new one each cycle.

    Stages: operands; product as sum and carries; their sum, shifted; rounding.
    """

    def __init__(self):
        super().__init__(
            {"x": In(signed(32)), "by": In(signed(32)), "shift": In(SHIFT), "o": Out(signed(32))}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.multiplier = multiplier = Multiplier(32)
        x, by = (Signal(signed(32), name=n, reset_less=True) for n in ("x_1", "by_1"))
        shift = [Signal(SHIFT, name=f"shift_{i}", reset_less=True) for i in (1, 2)]
        halves = Signal(33, reset_less=True)
        result = Signal(signed(32), reset_less=True)
        m.d.comb += [multiplier.a.eq(x), multiplier.b.eq(by), self.o.eq(result)]
        m.d.sync += [
            x.eq(self.x),
            by.eq(self.by),
            shift[0].eq(self.shift),
            shift[1].eq(shift[0]),
            halves.eq(self._halves(platform, multiplier.product, shift[1])),
            result.eq(halves[1:] + halves[0]),
        ]
        return m

    def _halves(self, platform, product: Value, shift: Value) -> Value:
        """Twice the shifted product. For simulators in 64 bits, a machine's word."""
        if not asks_for(platform, "loops"):
            return shift_right(product, shift)
        return Mux(shift == 0, Cat(Const(0, 1), product)[:33], (product >> (shift - 1)[:6])[:33])


def shift_right(product: Value, shift: Value) -> Value:
    """product >> shift, with the bit below: 33 bits of twice that. The longest distance first, so
    that only bits are moved that the result may have.
    """
    kept, value = 33, Cat(Const(0, 1), product).as_signed()
    for level in reversed(range(SHIFT.width)):
        distance = 1 << level
        needed = kept + distance - 1
        value = Mux(shift[level], value >> distance, value)[:needed].as_signed()
    return value.as_unsigned()

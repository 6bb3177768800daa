"""Adders that are faster than what synthesis makes of a sum."""

from amaranth.hdl import *

_PART = 11


def carry_select(m: Module, name: str, a: Value, b: Value, carry: Value | int = 0) -> Signal:
    """a + b + carry as wide as `a`: each part is added without and with a carry, which chooses."""
    width = len(a)
    out = Signal(signed(width), name=name)
    carry = Value.cast(carry)
    for low in range(0, width, _PART):
        x, y = a[low : low + _PART], b[low : low + _PART]
        part = Signal(len(x) + 1, name=f"{name}_{low}")
        if low == 0:
            m.d.comb += part.eq(x + y + carry[0])
        else:
            m.d.comb += part.eq(Mux(carry, x + y + 1, x + y))
        m.d.comb += out[low : low + len(x)].eq(part)
        carry = part[-1]
    return out

"""What a vector lane computes from its two operands, and how results are combined."""

from amaranth.hdl import *

from spec.isa import Alu, Reduce

IDENTITY = {Reduce.SUM: 0, Reduce.MAX: -(1 << 31), Reduce.MIN: (1 << 31) - 1}
"""What a reduction begins with."""


def alu(m: Module, name: str, kind: Value, a: Value, b: Value) -> Signal:
    """v of the int32 operands A and B."""
    v = Signal(signed(32), name=f"alu_{name}")
    by = b[:5]
    # One shifter to the right for all: a bit below for rounding, one above for the sign.
    right = Signal(signed(34), name=f"right_{name}")
    sign = a[31] & (kind != Alu.LSR)
    m.d.comb += right.eq(Cat(Const(0, 1), a[:32], sign).as_signed() >> by)
    with m.Switch(kind):
        with m.Case(Alu.ADD):
            m.d.comb += v.eq(a + b)
        with m.Case(Alu.SUB):
            m.d.comb += v.eq(a - b)
        with m.Case(Alu.MIN):
            m.d.comb += v.eq(Mux(a < b, a, b))
        with m.Case(Alu.MAX):
            m.d.comb += v.eq(Mux(a > b, a, b))
        with m.Case(Alu.ASR, Alu.LSR):
            m.d.comb += v.eq(right[1:33])
        with m.Case(Alu.ASR_ROUND):
            m.d.comb += v.eq(right[1:33] + right[0])
        with m.Case(Alu.LSL):
            m.d.comb += v.eq((a << by)[:32])
        with m.Case(Alu.AND):
            m.d.comb += v.eq(a & b)
        with m.Case(Alu.OR):
            m.d.comb += v.eq(a | b)
        with m.Case(Alu.XOR):
            m.d.comb += v.eq(a ^ b)
        with m.Case(Alu.EQ):
            m.d.comb += v.eq(a == b)
        with m.Case(Alu.GT):
            m.d.comb += v.eq(a > b)
        with m.Case(Alu.GE):
            m.d.comb += v.eq(a >= b)
        with m.Case(Alu.CLZ):
            m.d.comb += v.eq(_leading_zeros(a[:32]))
        with m.Case(Alu.ABS):
            m.d.comb += v.eq(Mux(a < 0, -a, a))
        with m.Default():
            m.d.comb += v.eq(a)
    return v


def _leading_zeros(value: Value) -> Value:
    """Zeros above the highest 1: by halves."""
    none, zeros, rest = value == 0, [], value
    for bits in (16, 8, 4, 2, 1):
        top = rest[bits:]
        empty = top == 0
        rest = Mux(empty, rest[:bits], top)
        zeros.append(empty)
    return Mux(none, 32, Cat(*reversed(zeros)))


def combine(kind: Value, a: Value, b: Value) -> Value:
    """Two results of a reduction become one."""
    larger = a > b
    return Mux(
        kind == Reduce.SUM, (a + b)[:32].as_signed(), Mux(larger == (kind == Reduce.MAX), a, b)
    )


def across(m: Module, kind: Value, lanes: list[Signal]) -> Value:
    """The lanes combined in a tree."""
    level, values = 0, list(lanes)
    while len(values) > 1:
        following = []
        for i in range(0, len(values) - 1, 2):
            node = Signal(signed(32), name=f"across_{level}_{i // 2}")
            m.d.comb += node.eq(combine(kind, values[i], values[i + 1]))
            following.append(node)
        values = following + values[len(values) & ~1 :]
        level += 1
    return values[0]

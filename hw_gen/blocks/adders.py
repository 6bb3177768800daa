"""Adders that are faster than what synthesis makes of a sum."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw_gen.platform import asks_for

_PART = 11


def fast_sum(m: Module, platform, name: str, a: Value, b: Value, carry: Value | int = 0) -> Signal:
    """a + b + carry, as wide and as signed as `a`.

    Each part of 11 bits is added without and with a carry, which chooses (carry select). Above the
    sign of a narrower signed `b`, bits of `a` change only where the carry differs from that sign
    (`_stepped`). Synthesis for small area turns a plain sum, and also a tree of prefixes, into a
    chain through all bits. For simulators and FPGAs it is a plain sum.
    """
    width = len(a)
    a, b, carry = Value.cast(a), Value.cast(b), Value.cast(carry)
    assert len(carry) == 1
    out = Signal(Shape(width, a.shape().signed), name=name)
    if asks_for(platform, "plain_sums"):
        m.d.comb += out.eq(a + b + carry)
        return out
    if b.shape().signed and len(b) < width:
        low = len(b)
        short = fast_sum(m, platform, f"{name}_short", Cat(a[:low], Const(0, 1)), b[:low], carry)
        m.d.comb += out.eq(Cat(short[:low], _stepped(a[low:], short[low], b[-1])))
        return out
    b = Cat(b, Const(0, max(0, width - len(b))))[:width]
    for low in range(0, width, _PART):
        x, y = a[low : min(low + _PART, width)], b[low : min(low + _PART, width)]
        without = Signal(len(x) + 1, name=f"{name}_{low}")
        if low == 0:
            m.d.comb += [without.eq(x + y + carry), out[: len(x)].eq(without)]
            carry = without[-1]
            continue
        carried = Signal(len(x) + 1, name=f"{name}_{low}_carried")
        m.d.comb += [
            without.eq(x + y),
            carried.eq(x + y + 1),
            out[low : low + len(x)].eq(Mux(carry, carried, without)),
        ]
        # Two gates from carry to carry.
        carry = without[-1] | (carried[-1] & carry)
    return out


def _stepped(value: Value, up: Value, down: Value) -> Value:
    """value + up - down, as wide as `value`."""
    # A bit changes if all below it let a carry through: ones on the way up, zeros on the way down.
    reached: list[Value] = [up ^ down]
    through: Value = Const(1, 1)
    for bit in value[:-1]:
        through = through & (bit ^ down)
        reached.append(through & (up ^ down))
    return value ^ Cat(*reached)


def fast_difference(m: Module, platform, name: str, a: Value, b: Value) -> Signal:
    """a - b, as wide and as signed as `a`; see `fast_sum`."""
    return fast_sum(m, platform, name, a, ~b, 1)


def sum_less_one(m: Module, platform, name: str, a: Value, b: Value) -> Signal:
    """a + b - 1, as wide as `a`: where what begins at `a` and has `b` bytes ends."""
    b = Cat(b, Const(0, len(a)))[: len(a)]
    # Each bit of the sum of a, b and ones, and the carry out of it.
    return fast_sum(m, platform, name, ~(a ^ b), Cat(Const(0, 1), a | b)[: len(a)])


def sum_exceeds(m: Module, platform, name: str, a: Value, b: Value, limit: Value) -> Value:
    """Whether a + b > limit, all unsigned; `limit` has a bit more than the wider of the others."""
    width = len(limit)
    assert width > max(len(a), len(b))
    a, b = (Cat(x, Const(0, width))[:width] for x in (a, b))
    if asks_for(platform, "plain_sums"):
        return a + b > limit
    # The carry of a + b + (2^width - 1 - limit) says it: three numbers become two first.
    sums, carries = a ^ b ^ ~limit, (a & b) | ((a | b) & ~limit)
    total = fast_sum(m, platform, name, Cat(sums, Const(0, 1)), Cat(Const(0, 1), carries))
    return total[width]


def two_of(numbers: list[Value], width: int) -> list[Value]:
    """Two numbers of `width` bits whose sum is that of all of them, modulo 2^width."""
    numbers = [Cat(Value.cast(n), Const(0, width))[:width] for n in numbers]
    while len(numbers) > 2:
        a, b, c, *rest = numbers
        carries = Cat(Const(0, 1), (a & b) | (c & (a ^ b)))[:width]
        numbers = [*rest, a ^ b ^ c, carries]
    return numbers


def passes_end(m: Module, platform, name: str, addr: Value, size: Value, end: int) -> Value:
    """Whether addr + size > end, all unsigned; `end` is a power of two below 2^len(addr).

    Only an access that begins in the last 2^len(size) bytes needs a sum, of few bits.
    """
    if asks_for(platform, "plain_sums") and not asks_for(platform, "for_fpga"):
        return addr + size > end
    top, low = exact_log2(end), len(size)
    assert top < len(addr)
    if low >= top:
        return sum_exceeds(m, platform, name, addr, size, Const(end, len(addr) + 1))
    near = addr[low:top].all() & ~addr[top:].any()
    over = sum_exceeds(m, platform, name, addr[:low], size, Const(1 << low, low + 1))
    at_end = (addr[top:] == 1) & ~addr[:top].any() & ~size.any()
    return (near & over) | (addr[top:].any() & ~at_end)


class Increment(wiring.Component):
    """`o` is `i` + 1. A module of its own: synthesis of the module around it would add the signal
    that takes the sum, which comes late, in place of the 1.
    """

    def __init__(self, width: int):
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(fast_sum(m, platform, "total", self.i, Const(0, 1), 1))
        return m

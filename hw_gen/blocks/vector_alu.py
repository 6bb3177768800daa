"""What a vector lane computes from its two operands, and how results are combined."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import fast_sum
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.exhaustive import exhaustive
from spec.isa import Alu, DType, Reduce
from spec.optional import SHIFTS

_HERE = "hw_gen.blocks.vector_alu"
IDENTITY = exhaustive(
    _HERE,
    Reduce,
    {Reduce.SUM: 0, Reduce.MAX: DType.I32.low, Reduce.MIN: DType.I32.high},
    without=[Reduce.NONE],
)
"""What a reduction begins with."""


@dataclass(frozen=True)
class _Operands:
    """int32 operands A and B, and what several functions have in common: their sum (ADD) or
    difference, comparisons, the one of them that MIN or MAX takes (`extreme`), and A shifted by the
    low bits of B, to the left for LSL. `rounded`: the same, and 1 more if the bit below is set; for
    ABS the magnitude of A.
    """

    a: Value
    b: Value
    total: Value
    less: Value
    equal: Value
    differ: Value
    extreme: Value
    shifted: Value
    rounded: Value


FUNCTIONS: dict[Alu, Callable[[_Operands], Value]] = exhaustive(
    _HERE,
    Alu,
    {
        Alu.PASS: lambda x: x.a,
        Alu.ADD: lambda x: x.total,
        Alu.SUB: lambda x: x.total,
        Alu.MIN: lambda x: x.extreme,
        Alu.MAX: lambda x: x.extreme,
        Alu.ASR: lambda x: x.shifted,
        Alu.ASR_ROUND: lambda x: x.rounded,
        Alu.LSL: lambda x: x.shifted[::-1],
        Alu.LSR: lambda x: x.shifted,
        Alu.AND: lambda x: x.a & x.b,
        Alu.OR: lambda x: x.a | x.b,
        Alu.XOR: lambda x: x.differ,
        Alu.EQ: lambda x: x.equal,
        Alu.GT: lambda x: ~(x.less | x.equal),
        Alu.GE: lambda x: ~x.less,
        Alu.CLZ: lambda x: _leading_zeros(x.a[:32]),
        Alu.ABS: lambda x: x.rounded,
    },
)
"""v of the operands; its low 32 bits count."""


def early_flags(kind: Value) -> Value:
    """What is known of a function of the ALU before its operands are there: it takes their
    difference, and not their sum; a shift keeps the sign of A; it is MIN; it is ABS; A comes with
    its bits in reverse, so that a shift to the right is one to the left.
    """
    left = kind == Alu.LSL
    arithmetic = (kind != Alu.LSR) & ~left
    return Cat(kind != Alu.ADD, arithmetic, kind == Alu.MIN, kind == Alu.ABS, left)


def alu(
    config: NpuConfig,
    m: Module,
    platform,
    name: str,
    kind: Value,
    early: Value,
    a: Value,
    b: Value,
) -> Signal:
    """v of the int32 operands A and B, by the functions that the configuration has.

    early : `early_flags(kind)`, from registers. Where that says so, A comes with its bits in
    reverse.
    """
    v = Signal(signed(32), name=f"alu_{name}")
    minus, arithmetic, least, magnitude, _ = early
    # One shifter to the right for all, LSL too; a bit below for rounding, one above for the sign.
    # -A is ~A and 1 more: a shift by nothing that is rounded.
    right = Signal(signed(34), name=f"right_{name}")
    sign, negate = a[31] & arithmetic, a[31] & magnitude
    wide = Cat(negate, a[:32] ^ negate.replicate(32), sign).as_signed()
    m.d.comb += right.eq(wide >> Mux(magnitude, 0, b[:5]) if config.shifts else wide)
    less, equal = Signal(name=f"less_{name}"), Signal(name=f"equal_{name}")
    differ = Signal(32, name=f"differ_{name}")
    second = b[:32] ^ minus.replicate(32)
    total = fast_sum(m, platform, f"total_{name}", a[:32], second, minus)
    m.d.comb += [
        # By the signs, or, where they are the same, by that of the difference.
        less.eq(Mux(differ[31], a[31], total[31])),
        differ.eq(a ^ b),
        equal.eq(differ == 0),
    ]
    rounded = fast_sum(m, platform, f"rounded_{name}", right[1:33], Const(0, 32), right[0])
    extreme = Mux(less == least, a, b)
    operands = _Operands(a, b, total, less, equal, differ, extreme, right[1:33], rounded)
    with m.Switch(kind):
        for member, function in FUNCTIONS.items():
            if member in SHIFTS and not config.shifts:
                continue
            with m.Case(member):
                if member is Alu.CLZ and asks_for(platform, "loops"):
                    _first_one(m, a, v)
                else:
                    m.d.comb += v.eq(function(operands))
    return v


def _first_one(m: Module, a: Value, v: Signal) -> None:
    """`_leading_zeros` as a choice, which a simulator evaluates only where it is wanted."""
    m.d.comb += v.eq(32)
    with m.Switch(a[:32]):
        for zeros in range(32):
            with m.Case("0" * zeros + "1" + "-" * (31 - zeros)):
                m.d.comb += v.eq(zeros)


def _leading_zeros(value: Value) -> Value:
    """Zeros above the highest 1: by halves."""
    none, zeros, rest = value == 0, [], value
    for bits in (16, 8, 4, 2, 1):
        top = rest[bits:]
        empty = top == 0
        rest = Mux(empty, rest[:bits], top)
        zeros.append(empty)
    return Mux(none, 32, Cat(*reversed(zeros)))


COMBINING = 2
"""Bits of `combining`."""


def combining(kind: Value) -> Value:
    """What a reduction does with two results: whether it compares them, which of them it takes
    then (1: the smaller one). Otherwise it adds."""
    return Cat(kind != Reduce.SUM, kind == Reduce.MIN)


def combine(m: Module, platform, name: str, how: Value, a: Value, b: Value) -> Value:
    """Two results of a reduction become one. how : `combining` of it, from registers."""
    compares, least = how[0], how[1]
    second = b[:32] ^ compares.replicate(32)
    total = fast_sum(m, platform, f"combined_{name}", a, second, compares)
    less = Mux(a[31] ^ b[31], a[31], total[31])
    return Mux(compares, Mux(less == least, a, b), total)


class LaneTree(wiring.Component):
    """All lanes combined, a level of the tree a cycle.

    Members
    -------
    how : `combining` of the reduction. value : `lanes` int32.
    o : their combination, as many cycles later as there are levels; a new one each cycle.
    valid, first : where vectors come `in_parts`: one does, the first one of its vector. o is then a
    cycle later, of all parts up to this one.
    """

    def __init__(self, lanes: int, *, in_parts: bool = False):
        self._lanes = lanes
        self._in_parts = in_parts
        parts = {"valid": In(1), "first": In(1)}
        members = {"how": In(COMBINING), "value": In(32 * lanes), "o": Out(signed(32))}
        super().__init__({**members, **(parts if in_parts else {})})

    def elaborate(self, platform):
        m = Module()
        how: Value = self.how
        values: list = [self.value[32 * c : 32 * c + 32].as_signed() for c in range(self._lanes)]
        level = 0
        while len(values) > 1:
            following = []
            for i in range(0, len(values), 2):
                node = Signal(signed(32), name=f"node_{level}_{i // 2}", reset_less=True)
                pair = values[i : i + 2]
                if len(pair) == 2:
                    result = combine(m, platform, f"{level}_{i // 2}", how, *pair)
                    m.d.sync += node.eq(result)
                else:
                    m.d.sync += node.eq(pair[0])
                following.append(node)
            later = Signal.like(self.how, name=f"how_{level}", reset_less=True)
            m.d.sync += later.eq(how)
            how, values, level = later, following, level + 1
        if self._in_parts:
            self._accumulate(m, platform, how, values[0], level)
        else:
            m.d.comb += self.o.eq(values[0])
        return m

    def _accumulate(self, m: Module, platform, how: Value, value: Value, levels: int) -> None:
        """The parts of a vector, one after the other."""
        flags: Value = Cat(self.valid, self.first)
        for level in range(levels):
            later = Signal(2, name=f"flags_{level}", reset_less=True)
            m.d.sync += later.eq(flags)
            flags = later
        valid, first = flags[0], flags[1]
        total = Signal(signed(32), reset_less=True)
        with m.If(valid):
            m.d.sync += total.eq(
                Mux(first, value, combine(m, platform, "parts", how, value, total))
            )
        m.d.comb += self.o.eq(total)

"""One processing element of the systolic array."""

from dataclasses import dataclass

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.operands import OPERAND


def sum_bits(products: int) -> int:
    """Width of the sum of so many products of two operands, whatever they are."""
    return (products << 2 * (OPERAND.width - 1)).bit_length() + 1


@dataclass(frozen=True, kw_only=True)
class ElementKind:
    """What an element needs where it stands.

    products: terms of its sum, itself included. right: it has a neighbour there. passes: weights
    go on from it. across: weights come from the left too.
    """

    products: int
    right: bool
    passes: bool
    across: bool

    @property
    def sums(self) -> tuple[int, int]:
        """Widths of the sum from above (0: there is none), and of its own."""
        return (sum_bits(self.products - 1) if self.products > 1 else 0, sum_bits(self.products))

    @property
    def ports(self) -> wiring.Signature:
        """Of the element; see `ProcessingElement`."""
        sum_in, sum_out = self.sums
        members = {
            "act": In(OPERAND),
            "swap": In(1),
            "down_i": In(1),
            "above": In(OPERAND),
            "sum_o": Out(signed(sum_out)),
        }
        if sum_in:
            members["sum_i"] = In(signed(sum_in))
        if self.right:
            members |= {"act_o": Out(OPERAND), "swap_o": Out(1)}
        if self.across:
            members |= {"across_i": In(1), "left": In(OPERAND)}
        if self.passes:
            members |= {"down_o": Out(1), "passing": Out(OPERAND)}
            if self.across:
                members["across_o"] = Out(1)
        return wiring.Signature(members)

    @property
    def name(self) -> str:
        """Of the Verilog module."""
        parts = [*map(str, self.sums)]
        flags = {"right": self.right, "passes": self.passes, "across": self.across}
        return "_".join(["systola_element", *parts, *(name for name, on in flags.items() if on)])


@dataclass(frozen=True, kw_only=True)
class ArrayShape:
    """Rows and columns of an array; `across`: weights may enter column by column.

    weight_rows: how many rows of weights, or such columns, enter in a cycle.
    """

    rows: int
    cols: int
    across: bool
    weight_rows: int = 1

    def kind(self, row: int, col: int) -> ElementKind:
        """What the element there needs."""
        right = col + 1 < self.cols
        passes = row + self.weight_rows < self.rows
        passes |= self.across and col + self.weight_rows < self.cols
        return ElementKind(products=row + 1, right=right, passes=passes, across=self.across)

    def lanes(self, vector: int) -> int:
        """Lanes of weight vector number `vector` of a cycle that any element takes."""
        return max(self.cols, self.rows if self.across and vector < self.cols else 0)

    def kinds(self) -> dict[str, ElementKind]:
        """Every kind of element, by the name of its module."""
        kinds = [self.kind(r, c) for r in range(self.rows) for c in range(self.cols)]
        return {kind.name: kind for kind in kinds}


class ProcessingElement(wiring.Component):
    """A weight-stationary element with a shadow weight.

    Members
    -------
    act, swap : an operand, and whether the shadow weight becomes current for it and those after.
    sum_i : the products above. sum_o : these and its own, a cycle later.
    act_o, swap_o : for the right neighbour.
    down_i, above, across_i, left : a weight that comes from above or from the left. The first one
        after a swap stays; without one the element has a weight of 0.
    down_o, across_o, passing : a weight that goes on as it came.
    """

    def __init__(self, kind: ElementKind):
        self._kind = kind
        super().__init__(kind.ports)

    def elaborate(self, platform):
        m = Module()
        kind = self._kind
        current, shadow = (Signal(OPERAND, name=n, reset_less=True) for n in ("current", "shadow"))
        loaded, free, take, comes = (Signal(name=n) for n in ("loaded", "free", "take", "comes"))
        weight, using = Signal(OPERAND), Signal(OPERAND)
        across = self.across_i if kind.across else Const(0, 1)
        m.d.comb += [
            comes.eq(self.down_i | across),
            weight.eq(Mux(across, self.left, self.above) if kind.across else self.above),
            free.eq(~loaded | self.swap),
            take.eq(comes & free),
            using.eq(Mux(self.swap, Mux(loaded, shadow, 0), current)),
        ]
        m.d.sync += [
            loaded.eq(~free | take),
            current.eq(using),
        ]
        with m.If(take):
            m.d.sync += shadow.eq(weight)
        total = self._register(m, self.sum_o)
        above = self.sum_i if kind.sums[0] else Const(0, 1)
        m.d.sync += total.eq(above + self.act * using)
        if kind.right:
            m.d.sync += [
                self._register(m, self.act_o).eq(self.act),
                self.swap_o.eq(self.swap),
            ]
        if kind.passes:
            passing = self._register(m, self.passing)
            with m.If(comes):
                m.d.sync += passing.eq(weight)
            m.d.sync += self.down_o.eq(self.down_i & ~take)
            if kind.across:
                m.d.sync += self.across_o.eq(across & ~take)
        return m

    def _register(self, m: Module, port: Signal) -> Signal:
        """A register without a reset behind an output: data that flags say whether to look at."""
        held = Signal.like(port, name=f"{port.name}_q", reset_less=True)
        m.d.comb += port.eq(held)
        return held

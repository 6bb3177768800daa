"""The systolic array as processing elements, with the delays at its edges."""

from itertools import pairwise

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.array_element import ArrayShape, ProcessingElement
from hw_gen.blocks.operands import OPERAND
from hw_gen.platform import RtlPlatform


class ArrayElements(wiring.Component):
    """What `rtl/systola_array.sv` describes as loops; see there for members and timing.

    Parameters
    ----------
    tag_bits : of the tag beside each vector.

    Members besides those of the loops
    ----------------------------------
    clear : the reset of each row of elements.

    For Verilog each element is an instance of the module of its kind, so that a kind is written
    and synthesized once.
    """

    def __init__(self, shape: ArrayShape, *, tag_bits: int):
        self._shape = shape
        self._lanes = max(shape.rows, shape.cols)
        super().__init__(
            {
                "clear": In(shape.rows),
                "act": In(OPERAND.width * shape.rows),
                "swap": In(1),
                "tag_i": In(tag_bits),
                "wgt_valid": In(1),
                "wgt_across": In(1),
                "wgt": In(OPERAND.width * self._lanes),
                "sums": Out(32 * shape.cols),
                "tag_o": Out(tag_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        elements = [
            [self._element(m, platform, r, c) for c in range(self._shape.cols)]
            for r in range(self._shape.rows)
        ]
        self._activations(m, elements)
        self._weights(m, elements)
        self._sums(m, elements)
        m.d.sync += self.tag_o.eq(
            self._delayed(m, "tag", self.tag_i, self._shape.rows + self._shape.cols - 3)
        )
        return m

    def _element(self, m: Module, platform, row: int, col: int):
        """The element there, or what has its ports."""
        kind, name = self._shape.kind(row, col), f"element_{row}_{col}"
        if not isinstance(platform, RtlPlatform):
            element = ProcessingElement(kind)
            m.submodules[name] = ResetInserter(self.clear[row])(element)
            return element
        ports = kind.ports.create(path=(name,))
        wires = {
            f"{'i' if member.flow is In else 'o'}_{port}": getattr(ports, port)
            for port, member in kind.ports.members.items()
        }
        m.submodules[name] = Instance(
            kind.name, i_clk=ClockSignal(), i_rst=self.clear[row], **wires
        )
        return ports

    def _delayed(
        self, m: Module, name: str, value: Value, cycles: int, *, reset: bool = True
    ) -> Value:
        """`value` so many cycles ago."""
        for i in range(cycles):
            held = Signal(value.shape(), name=f"{name}_{i}", reset_less=not reset)
            m.d.sync += held.eq(value)
            value = held
        return value

    def _activations(self, m: Module, elements: list[list]) -> None:
        """Row r gets its operand, and the swap beside it, after r cycles."""
        swap: Value = self.swap
        for r, row in enumerate(elements):
            if r:
                swap = self._delayed(m, f"swap_{r}", swap, 1)
            act = self.act.word_select(r, OPERAND.width).as_signed()
            m.d.comb += [
                row[0].act.eq(self._delayed(m, f"act_{r}", act, r, reset=False)),
                row[0].swap.eq(swap),
            ]
            for left, right in pairwise(row):
                m.d.comb += [right.act.eq(left.act_o), right.swap.eq(left.swap_o)]

    def _weights(self, m: Module, elements: list[list]) -> None:
        """Lane i of a vector enters column i from above, or row i from the left, i cycles later."""
        lanes = [
            self._delayed(
                m,
                f"wgt_{n}",
                self.wgt.word_select(n, OPERAND.width).as_signed(),
                n,
                reset=False,
            )
            for n in range(self._lanes if self._shape.across else self._shape.cols)
        ]
        down: Value = self.wgt_valid & ~self.wgt_across
        for c in range(self._shape.cols):
            if c:
                down = self._delayed(m, f"down_{c}", down, 1)
            m.d.comb += [elements[0][c].down_i.eq(down), elements[0][c].above.eq(lanes[c])]
        for above, row in pairwise(elements):
            for upper, lower in zip(above, row, strict=True):
                m.d.comb += [lower.down_i.eq(upper.down_o), lower.above.eq(upper.passing)]
        if not self._shape.across:
            return
        across: Value = self.wgt_valid & self.wgt_across
        for r, row in enumerate(elements):
            if r:
                across = self._delayed(m, f"across_{r}", across, 1)
            m.d.comb += [row[0].across_i.eq(across), row[0].left.eq(lanes[r])]
            for left, right in pairwise(row):
                m.d.comb += [right.across_i.eq(left.across_o), right.left.eq(left.passing)]

    def _sums(self, m: Module, elements: list[list]) -> None:
        """Column c waits for the last one; all leave through registers."""
        for above, row in pairwise(elements):
            for upper, lower in zip(above, row, strict=True):
                m.d.comb += lower.sum_i.eq(upper.sum_o)
        for c, element in enumerate(elements[-1]):
            value = self._delayed(m, f"sum_{c}", element.sum_o, self._shape.cols - c, reset=False)
            m.d.comb += self.sums.word_select(c, 32).eq(value.as_signed())

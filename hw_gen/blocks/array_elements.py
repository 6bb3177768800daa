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
                "wgt": In(OPERAND.width * self._lanes * shape.weight_rows),
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
        """Lane i of vector v enters column i of row v from above, or row i of column v from the
        left, i + v cycles later: when the swap beside it would be there."""
        shape = self._shape
        last = shape.cols + shape.weight_rows - 2
        down = self._flags(m, "down", self.wgt_valid & ~self.wgt_across, last)
        lanes = [
            [self._lane(m, vector, n) for n in range(shape.lanes(vector))]
            for vector in range(shape.weight_rows)
        ]
        for vector, values in enumerate(lanes):
            for c, element in enumerate(elements[vector]):
                m.d.comb += [element.down_i.eq(down[c + vector]), element.above.eq(values[c])]
        passing = {
            (r, c): self._late(m, f"{r}_{c}", element.passing, reset=False)
            for r, row in enumerate(elements)
            for c, element in enumerate(row)
            if shape.kind(r, c).passes
        }
        for r, row in enumerate(elements[: -shape.weight_rows]):
            for c, upper in enumerate(row):
                lower = elements[r + shape.weight_rows][c]
                flag = self._late(m, f"down_{r}_{c}", upper.down_o)
                m.d.comb += [lower.down_i.eq(flag), lower.above.eq(passing[r, c])]
        if not shape.across:
            return
        last = shape.rows + min(shape.weight_rows, shape.cols) - 2
        across = self._flags(m, "across", self.wgt_valid & self.wgt_across, last)
        for r, row in enumerate(elements):
            for vector, element in enumerate(row[: shape.weight_rows]):
                m.d.comb += [
                    element.across_i.eq(across[r + vector]),
                    element.left.eq(lanes[vector][r]),
                ]
            for c, (left, right) in enumerate(zip(row, row[shape.weight_rows :], strict=False)):
                flag = self._late(m, f"across_{r}_{c}", left.across_o)
                m.d.comb += [right.across_i.eq(flag), right.left.eq(passing[r, c])]

    def _lane(self, m: Module, vector: int, lane: int) -> Value:
        """A lane of a vector, late by the sum of both."""
        name = f"wgt_{lane}" if vector == 0 else f"wgt{vector}_{lane}"
        place = vector * self._lanes + lane
        value = self.wgt.word_select(place, OPERAND.width).as_signed()
        return self._delayed(m, name, value, lane + vector, reset=False)

    def _flags(self, m: Module, name: str, flag: Value, last: int) -> list[Value]:
        """`flag` after 0 to `last` cycles."""
        flags = [flag]
        for i in range(1, last + 1):
            flags.append(self._delayed(m, f"{name}_{i}", flags[-1], 1))
        return flags

    def _late(self, m: Module, name: str, value: Value, *, reset: bool = True) -> Value:
        """What goes on from an element, when it may be where it goes.

        Weights skip `weight_rows` rows, and may not be there before the swap that makes room for
        them. That is `weight_rows` behind, less the cycle that the next weights enter later.
        """
        cycles = max(0, self._shape.weight_rows - 2)
        return self._delayed(m, f"late_{name}", value, cycles, reset=reset)

    def _sums(self, m: Module, elements: list[list]) -> None:
        """Column c waits for the last one; all leave through registers."""
        for above, row in pairwise(elements):
            for upper, lower in zip(above, row, strict=True):
                m.d.comb += lower.sum_i.eq(upper.sum_o)
        for c, element in enumerate(elements[-1]):
            value = self._delayed(m, f"sum_{c}", element.sum_o, self._shape.cols - c, reset=False)
            m.d.comb += self.sums.word_select(c, 32).eq(value.as_signed())

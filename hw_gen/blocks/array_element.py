"""Processing elements of the systolic array, in the tiles that add up in one cycle."""

from dataclasses import dataclass
from itertools import product

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.operands import OPERAND
from spec.config import TILE

REACH = 32
"""Rows, or columns, that a weight reaches in one cycle."""


def sum_bits(products: int) -> int:
    """Width of the sum of so many products of two operands, whatever they are."""
    return (products << 2 * (OPERAND.width - 1)).bit_length() + 1


@dataclass(frozen=True, kw_only=True)
class TileKind:
    """What a tile needs where it stands.

    rows, cols: its elements. products: terms of its sums, its own included. right, below: it has a
    neighbour there. across: weights come from the left too.
    """

    rows: int
    cols: int
    products: int
    right: bool
    below: bool
    across: bool

    @property
    def sums(self) -> tuple[int, int]:
        """Widths of a sum from above (0: there is none), and of its own."""
        above = self.products - self.rows
        return (sum_bits(above) if above else 0, sum_bits(self.products))

    @property
    def ports(self) -> wiring.Signature:
        """Of the tile; see `ProcessingTile`."""
        width, elements = OPERAND.width, self.rows * self.cols
        sum_in, sum_out = self.sums
        members = {
            "act": In(width * self.rows),
            "swap": In(1),
            "down_i": In(self.rows),
            "above": In(width * elements),
            "sum_o": Out(sum_out * self.cols),
        }
        if sum_in:
            members["sum_i"] = In(sum_in * self.cols)
        if self.right:
            members |= {"act_o": Out(width * self.rows), "swap_o": Out(1)}
            members["down_o"] = Out(self.rows)
        if self.across:
            members |= {"across_i": In(self.cols), "left": In(width * elements)}
            if self.below:
                members["across_o"] = Out(self.cols)
        return wiring.Signature(members)

    @property
    def name(self) -> str:
        """Of the Verilog module."""
        parts = [f"{self.rows}x{self.cols}", *map(str, self.sums)]
        flags = {"right": self.right, "across": self.across, "below": self.across and self.below}
        return "_".join(["systola_tile", *parts, *(name for name, on in flags.items() if on)])


@dataclass(frozen=True, kw_only=True)
class ArrayShape:
    """Rows and columns of an array; `across`: weights may enter column by column.

    weight_rows: how many rows of weights, or such columns, enter in a cycle.
    """

    rows: int
    cols: int
    across: bool
    weight_rows: int = 1

    @property
    def stages(self) -> tuple[int, int]:
        """Tiles below each other and side by side: the cycles that the array takes each way."""
        return -(-self.rows // TILE), -(-self.cols // TILE)

    def kind(self, stage: int, tile: int) -> TileKind:
        """What the tile there needs, `stage` from above and `tile` from the left."""
        row, col = stage * TILE, tile * TILE
        rows, cols = min(TILE, self.rows - row), min(TILE, self.cols - col)
        return TileKind(
            rows=rows,
            cols=cols,
            products=row + rows,
            right=col + cols < self.cols,
            below=row + rows < self.rows,
            across=self.across,
        )

    def kinds(self) -> dict[str, TileKind]:
        """Every kind of tile, by the name of its module."""
        stages, tiles = self.stages
        kinds = [self.kind(s, t) for s, t in product(range(stages), range(tiles))]
        return {kind.name: kind for kind in kinds}

    def late(self, place: int) -> int:
        """Cycles that the weights of row (or column) `place` wait before they enter.

        They may not be there before the swap that makes room for them, which takes a cycle a tile
        from the first weights on; the weights of `place` enter `place` // `weight_rows` behind
        those. And they must be there before the swap after theirs: a cycle a tile at most.
        """
        return max(place // TILE - place // self.weight_rows, place // REACH)

    @property
    def groups(self) -> int:
        """Vectors enter in so many cycles at most, `weight_rows` in each."""
        return -(-max(self.rows, self.cols if self.across else 0) // self.weight_rows)

    def latest(self, vector: int, lane: int) -> int:
        """After how many cycles lane `lane` of vector `vector` of a cycle is wanted last: by the
        rows of column `lane`, or by the columns of row `lane`. 0 if it never is."""
        ways = [(self.rows, self.cols)] + ([(self.cols, self.rows)] if self.across else [])
        cycles = (
            lane // TILE + self.late(place)
            for places, lanes in ways
            if lane < lanes
            for place in range(vector, places, self.weight_rows)
        )
        return max(cycles, default=0)


class ProcessingTile(wiring.Component):
    """Weight-stationary elements with shadow weights, whose products are added in one cycle.

    Words have a field for each row, column, or element (row by row), the first in the lowest bits.

    Members
    -------
    act : an operand for each row.
    swap : whether the shadow weights become current for the operands of the next cycle and after.
    sum_i : the sums above, one for each column. sum_o : these and the column's products, a cycle
        later.
    down_i : which rows take a weight from `above`. across_i : which columns take one from `left`.
        An element that has taken none since the last swap has a weight of 0.
    act_o, swap_o, down_o : for the right neighbour. across_o : for the one below.
    """

    def __init__(self, kind: TileKind):
        self._kind = kind
        super().__init__(kind.ports)

    def elaborate(self, platform):
        m = Module()
        kind, width = self._kind, OPERAND.width
        across = self.across_i if kind.across else Const(0, kind.cols)
        weights = {}
        for r, c in product(range(kind.rows), range(kind.cols)):
            place = r * kind.cols + c
            weight = self.above.word_select(place, width)
            if kind.across:
                weight = Mux(across[c], self.left.word_select(place, width), weight)
            take = self.down_i[r] | across[c]
            weights[r, c] = self._element(m, f"{r}_{c}", take, weight)
        sum_in, sum_out = kind.sums
        for c in range(kind.cols):
            total = self.sum_i.word_select(c, sum_in).as_signed() if sum_in else Const(0, 1)
            for r in range(kind.rows):
                total += self.act.word_select(r, width).as_signed() * weights[r, c]
            held = Signal(signed(sum_out), name=f"sum_{c}", reset_less=True)
            m.d.sync += held.eq(total)
            m.d.comb += self.sum_o.word_select(c, sum_out).eq(held)
        if kind.right:
            acts = Signal.like(self.act, name="acts", reset_less=True)
            m.d.sync += [acts.eq(self.act), self.swap_o.eq(self.swap), self.down_o.eq(self.down_i)]
            m.d.comb += self.act_o.eq(acts)
        if kind.across and kind.below:
            m.d.sync += self.across_o.eq(across)
        return m

    def _element(self, m: Module, name: str, take: Value, weight: Value) -> Value:
        """The weight that an element multiplies with."""
        current = Signal(OPERAND, name=f"current_{name}", reset_less=True)
        shadow = Signal(OPERAND, name=f"shadow_{name}", reset_less=True)
        loaded = Signal(name=f"loaded_{name}")
        m.d.sync += loaded.eq(take | loaded & ~self.swap)
        with m.If(self.swap):
            m.d.sync += current.eq(Mux(loaded, shadow, 0))
        with m.If(take):
            m.d.sync += shadow.eq(weight)
        return current

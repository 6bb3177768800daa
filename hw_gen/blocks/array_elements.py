"""The systolic array as tiles of processing elements, with the delays at its edges."""

from itertools import pairwise

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.array_element import ArrayShape, ProcessingTile
from hw_gen.blocks.operands import OPERAND
from hw_gen.platform import RtlPlatform
from spec.config import TILE, cycles_through


class ArrayElements(wiring.Component):
    """What `rtl/systola_array.sv` describes as loops; see there for members and timing.

    Parameters
    ----------
    tag_bits : of the tag beside each vector.

    Members besides those of the loops
    ----------------------------------
    clear : the reset of each row of tiles.

    For Verilog each tile is an instance of the module of its kind, so that a kind is written and
    synthesized once.
    """

    def __init__(self, shape: ArrayShape, *, tag_bits: int):
        self._shape = shape
        self._lanes = max(shape.rows, shape.cols)
        self._through = cycles_through(shape.rows, shape.cols)
        super().__init__(
            {
                "clear": In(shape.stages[0]),
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
        stages, tiles = self._shape.stages
        grid = [[self._tile(m, platform, s, t) for t in range(tiles)] for s in range(stages)]
        self._activations(m, grid)
        self._weights(m, grid)
        self._sums(m, grid)
        m.d.sync += self.tag_o.eq(self._late(m, "tag", self.tag_i, self._through - 3)[-1])
        return m

    def _tile(self, m: Module, platform, stage: int, tile: int):
        """The tile there, or what has its ports."""
        kind, name = self._shape.kind(stage, tile), f"tile_{stage}_{tile}"
        if not isinstance(platform, RtlPlatform):
            there = ProcessingTile(kind)
            m.submodules[name] = ResetInserter(self.clear[stage])(there)
            return there
        ports = kind.ports.create(path=(name,))
        wires = {
            f"{'i' if member.flow is In else 'o'}_{port}": getattr(ports, port)
            for port, member in kind.ports.members.items()
        }
        m.submodules[name] = Instance(
            kind.name, i_clk=ClockSignal(), i_rst=self.clear[stage], **wires
        )
        return ports

    def _late(
        self, m: Module, name: str, value: Value, cycles: int, *, reset: bool = True
    ) -> list[Value]:
        """`value` after 0 to `cycles` cycles."""
        held = [value]
        for i in range(cycles):
            stage = Signal(value.shape(), name=f"{name}_{i}", reset_less=not reset)
            m.d.sync += stage.eq(held[-1])
            held.append(stage)
        return held

    def _activations(self, m: Module, grid: list[list]) -> None:
        """A row gets the swap a cycle later for each tile above, and its operand one after that."""
        width, stages = OPERAND.width, len(grid)
        swaps = self._late(m, "swap", self.swap, stages - 1)
        for s, row in enumerate(grid):
            acts = [
                self._late(m, f"act_{r}", self.act.word_select(r, width), s + 1, reset=False)[-1]
                for r in self._rows(s)
            ]
            m.d.comb += [row[0].act.eq(Cat(acts)), row[0].swap.eq(swaps[s])]
            for left, right in pairwise(row):
                m.d.comb += [right.act.eq(left.act_o), right.swap.eq(left.swap_o)]

    def _rows(self, stage: int) -> range:
        return range(stage * TILE, min(self._shape.rows, (stage + 1) * TILE))

    def _cols(self, tile: int) -> range:
        return range(tile * TILE, min(self._shape.cols, (tile + 1) * TILE))

    def _weights(self, m: Module, grid: list[list]) -> None:
        """The first vectors after a swap are for the first rows, or columns, and so on.

        A vector is seen by all the rows that it may be for, in each column as late as the swap
        beside it would be there, and a bit for each row, which goes from tile to tile to the
        right, says whether to take it. Likewise from the left, with a bit for each column.
        """
        shape, many = self._shape, self._shape.weight_rows
        turn = Signal(shape.groups, init=1)
        now = Signal(shape.groups)
        m.d.comb += now.eq(Mux(self.swap, 1, turn))
        m.d.sync += turn.eq(Mux(self.wgt_valid, now << 1, now))
        with m.If(self.clear[0]):
            m.d.sync += turn.eq(1)
        lanes = self._lanes_of_vectors(m)
        down = self._selections(m, "down", now, self.wgt_valid & ~self.wgt_across, shape.rows)
        across = self._selections(m, "across", now, self.wgt_valid & self.wgt_across, shape.cols)
        for s, row in enumerate(grid):
            for t, tile in enumerate(row):
                places = [(r, c) for r in self._rows(s) for c in self._cols(t)]
                above = [lanes[r % many, c][t + shape.late(r)] for r, c in places]
                coming = row[t - 1].down_o if t else Cat(down[r] for r in self._rows(s))
                m.d.comb += [tile.above.eq(Cat(above)), tile.down_i.eq(coming)]
                if shape.across:
                    left = [lanes[c % many, r][s + shape.late(c)] for r, c in places]
                    coming = grid[s - 1][t].across_o if s else Cat(across[c] for c in self._cols(t))
                    m.d.comb += [tile.left.eq(Cat(left)), tile.across_i.eq(coming)]

    def _lanes_of_vectors(self, m: Module) -> dict[tuple[int, int], list[Value]]:
        """Each lane of each vector of a cycle, after 0 to as many cycles as it is wanted."""
        found = {}
        for vector in range(self._shape.weight_rows):
            for lane in range(self._lanes):
                value = self.wgt.word_select(vector * self._lanes + lane, OPERAND.width)
                name, latest = f"wgt{vector or ''}_{lane}", self._shape.latest(vector, lane)
                found[vector, lane] = self._late(m, name, value, latest, reset=False)
        return found

    def _selections(
        self, m: Module, name: str, now: Value, comes: Value, places: int
    ) -> list[Value]:
        """For each row, or column, whether its weights enter it."""
        shape = self._shape
        return [
            self._late(m, f"{name}_{n}", comes & now[n // shape.weight_rows], shape.late(n))[-1]
            for n in range(places if name == "down" or shape.across else 0)
        ]

    def _sums(self, m: Module, grid: list[list]) -> None:
        """A column waits for the last one; all leave through registers."""
        for above, row in pairwise(grid):
            for upper, lower in zip(above, row, strict=True):
                m.d.comb += lower.sum_i.eq(upper.sum_o)
        width = self._shape.kind(len(grid) - 1, 0).sums[1]
        for t, tile in enumerate(grid[-1]):
            for i, c in enumerate(self._cols(t)):
                value = tile.sum_o.word_select(i, width).as_signed()
                cycles = len(grid[0]) - t
                late = self._late(m, f"sum_{c}", value, cycles, reset=False)[-1]
                m.d.comb += self.sums.word_select(c, 32).eq(late)

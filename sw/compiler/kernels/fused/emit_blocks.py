"""Schedule of a FusedLayer whose rows pass in blocks of columns.

What a block needs is loaded while the block before it is computed. Blocks of the right operand stay
as long as there is room, so that the next rows find them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.fused.blocks import RowBlocks
from sw.compiler.kernels.fused.emit_tiles import TileEmitter
from sw.compiler.kernels.fused.layer import FusedStep
from sw.compiler.kernels.fused.rotation import Held
from sw.compiler.kernels.fused.tiles import FusedPlan, Ranges, fused_tiles
from sw.compiler.kernels.nests import Row


@dataclass(frozen=True, slots=True)
class _Visit:
    """A block in a phase. `tile`: its ranges; `first`, `last`: of the blocks of its phase."""

    phase: int
    tile: Ranges
    block: int
    first: bool
    last: bool


class BlockEmitter(TileEmitter):
    """Emits a layer whose rows pass in blocks."""

    def __init__(self, rows: RowBlocks, plan: FusedPlan, context: EmitContext) -> None:
        super().__init__(rows.layer, plan, context)
        self.blocks = rows
        last = len(self.layer.shape) - 1
        self.wide = [register.spans[last] for register in self.layer.registers]

    def run(self) -> None:
        """Emit the whole layer."""
        visits = list(self._visits())
        for visit, after in zip(visits, [*visits[1:], None], strict=True):
            if visit is visits[0]:
                self._fetch(visit)
            if after is not None:
                self._fetch(after)
            self._visit(visit)

    def _visits(self) -> Iterator[_Visit]:
        """The blocks of all rows in the order in which they are computed."""
        count = self.plan.blocks
        tiles = list(fused_tiles(self.layer, self.plan))
        order = self.blocks.order(count)
        for at in range(0, len(tiles), count):
            for i, (phase, block) in enumerate(order):
                place = i % count
                tile = tiles[at + block]
                yield _Visit(phase, tile, block, place == 0, place == count - 1)

    def _sources(self, visit: _Visit) -> list[int]:
        """The sources that the steps of a block read, and those of its rows."""
        phase = self.blocks.phases[visit.phase]
        count = len(self.layer.sources)
        return [i for i in range(count) if not self.wide[i] or phase.reads(i)]

    def _fetch(self, visit: _Visit) -> None:
        """Load what the steps of a block need and is not on chip."""
        assert self.product is not None and self.layer.product is not None
        if self.blocks.phases[visit.phase].reads(self.layer.product.register):
            self.product.load(visit.tile)
        for i in self._sources(visit):
            if i not in self.plan.held:
                place, fresh = self.rotations[i].take(self._key(i, visit.tile), set())
                if fresh:
                    self._load_source(i, visit.tile, place)

    def _place(self, register: int, tile: Ranges) -> Held:
        """Where a register lies."""
        if register in self.plan.held:
            return self._on_chip(register, tile)
        rotation, key = self.rotations[register], self._key(register, tile)
        if register < len(self.layer.sources):
            return rotation.held[key]
        return rotation.take(key, set())[0]

    def _visit(self, visit: _Visit) -> None:
        """Compute a block; with the last one of a phase, what is known of its rows then."""
        phase, tile = self.blocks.phases[visit.phase], visit.tile
        if visit.first and visit.phase == 0:
            self._steps(self.blocks.first, visit)
        self._product(visit)
        self._steps(phase.columns, visit)
        for result in phase.results:
            if result.register not in self.plan.held:
                self._store(result, tile, self._place(result.register, tile))
        if not visit.last:
            return
        for step in phase.joins:
            self._join(step, tile)
        self._steps(phase.rows, visit)
        if visit.phase == len(self.blocks.phases) - 1:
            for result in self.layer.results:
                if not self.wide[result.register] and result.register not in self.plan.held:
                    self._store(result, tile, self._place(result.register, tile))

    def _product(self, visit: _Visit) -> None:
        """Compute the product of a block, if it does not lie in the accumulator still."""
        assert self.product is not None and self.layer.product is not None
        register = self.layer.product.register
        phase, rotation = self.blocks.phases[visit.phase], self.rotations[register]
        if phase.reads(register):
            place, fresh = rotation.take(self._key(register, visit.tile), set())
            if fresh:
                self.product.matrix(visit.tile, place.at)

    def _steps(self, steps: tuple[FusedStep, ...], visit: _Visit) -> None:
        """Append steps on a block, or on its rows."""
        tile = visit.tile
        for step in steps:
            self._use_table(step)
            a, out = self._place(step.a, tile), self._place(step.out, tile)
            b = None if step.b is None else self._place(step.b, tile)
            if step.out in self.blocks.partial:
                out = self._partial(step.out, visit.block, tile)
            self._vector(step, self._rows(step, tile), (a, b, out), f"{step} {tile}")
        register = self.layer.product.register if self.layer.product else -1
        if any(step.out == register for step in steps):
            # A step has written over the product.
            self.rotations[register].forget(self._key(register, tile))

    def _partial(self, register: int, block: int, tile: Ranges) -> Held:
        """Where the results of a block lie in a register of partial results."""
        place = self._place(register, tile)
        size = self._nbytes(register, tile)
        return Held(place.buffer, place.at + block * size, size)

    def _nbytes(self, register: int, tile: Ranges) -> int:
        return self.layer.registers[register].nbytes(tuple(b - a for a, b in tile))

    def _join(self, step: FusedStep, tile: Ranges) -> None:
        """Append the reduction of the partial results of all blocks."""
        self._use_table(step)
        held, count = self.layer.registers[step.a], self.plan.blocks
        size = self._nbytes(step.a, tile)
        place = self._place(step.a, tile)
        rows = [Row(count, size, 0, 0, True)]
        elements = size // held.kind.bytes
        if elements > 1:
            out = self.layer.registers[step.out].kind.bytes
            rows.append(Row(elements, held.kind.bytes, 0, out, False))
        a = Held(place.buffer, place.at, count * size)
        self._vector(step, rows, (a, None, self._place(step.out, tile)), f"{step} {tile}")

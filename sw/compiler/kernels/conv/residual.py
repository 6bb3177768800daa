"""Residual tiles of a convolution: loaded ahead into rotating slots, or read on chip in place.

A residual of one channel is the same for all column blocks.
"""

from collections.abc import Hashable, Sequence

from sw.compiler.kernels.boxes import Box, address
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.conv.geometry import ConvGeometry
from sw.compiler.kernels.conv.plan import ConvPlan
from sw.compiler.kernels.conv.steps import ConvStep, Unit
from sw.compiler.kernels.emitter import LayerEmitter, Spot, touch
from sw.compiler.kernels.views import View
from sw.compiler.program.virtual import Access, Place


class ResidualTiles(LayerEmitter):
    """The residuals of a tile's column blocks; those of an N tile together where that is better."""

    def __init__(
        self,
        geo: ConvGeometry,
        view: View,
        plan: ConvPlan,
        context: EmitContext,
    ) -> None:
        super().__init__(geo.layer.name, context)
        self.geo, self.view, self.plan = geo, view, plan
        self.held = context.held(view)
        self.single = view.shape[3] == 1
        self.joint = plan.joint or self.single
        self.rotating = self.slots("residual", Place.SPAD, plan.res_slots, plan.res_bytes)
        self.todo: list[tuple[Hashable, Box]] = []

    def start(self, units: Sequence[Unit]) -> None:
        """Load the first tiles; `units` are all that close column blocks, in order."""
        if self.held is not None:
            return
        for unit in units:
            if not self.joint or unit.block == unit.step.first:
                self.todo.append((self._key(unit), self._loaded(unit)))
        for _ in range(self.plan.res_slots):
            self._next()

    def _next(self) -> None:
        if self.todo:
            key, box = self.todo.pop(0)
            slot, _ = self.rotating.get(key, None)
            assert slot is not None
            self.load_box(self.view, box, slot, f"residual y{box.y0} x{box.x0} c{box.c0}")

    def spot(self, unit: Unit) -> tuple[Spot, Access]:
        """Where the residual of a unit lies, and the access of the VECTOR that reads it."""
        item = self.view.item
        if self.held is not None:
            box = self._loaded(unit, whole=False)
            read = touch(self.held, self.view, box, write=False)
            _, line, pixel = self.view.strides
            return Spot(self.held, address(self.view, box), line, pixel), read
        slot, fresh = self.rotating.get(self._key(unit), None)
        assert slot is not None and not fresh
        box = self._loaded(unit)
        pixel = box.channels * item
        at = unit.in_tile * self.config.cols * item if self.joint and not self.single else 0
        read = Access(buffer=slot, start=0, stop=box.elements * item, write=False)
        return Spot(slot, at, box.cols * pixel, pixel), read

    def done(self, unit: Unit) -> None:
        """The unit has been finished: load what comes next into its slot."""
        if self.held is None and (not self.joint or unit.block + unit.count == unit.step.stop):
            self._next()

    def _key(self, unit: Unit) -> Hashable:
        return unit.step.tile, unit.step.n_tile, 0 if self.joint else unit.block

    def _box(self, step: ConvStep, first: int, stop: int) -> Box:
        """Pixels of the tile, channels of column blocks first…stop."""
        cols, tile = self.config.cols, step.tile
        return Box(
            batch=tile.batch,
            y0=tile.y0,
            y1=tile.y1,
            x0=tile.x0,
            x1=tile.x1,
            c0=0 if self.single else first * cols,
            c1=1 if self.single else min(stop * cols, self.geo.oc),
        )

    def _loaded(self, unit: Unit, whole: bool = True) -> Box:
        """What is loaded together for a unit: the N tile's blocks where they are joint.

        `whole`: not only what this unit reads.
        """
        if self.joint and whole:
            return self._box(unit.step, unit.step.first, unit.step.stop)
        return self._box(unit.step, unit.block, unit.block + unit.count)

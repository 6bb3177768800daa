"""The order of work in a convolution: steps, and the column blocks (units) of each.

A step is one (tile, column group, part of the reduction): what one set of loaded buffers serves.
The first step may be ramped: computed in growing pieces of its channels, so that the matrix engine
starts when the first piece has arrived.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from spec.config import NpuConfig
from sw.compiler.geometry import ConvGeometry, Part, Tile
from sw.compiler.tiling_conv import ConvPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Column blocks `first`…`stop` of `tile` over `part`; `pieces` are the parts of that part."""

    tile: Tile
    group: int
    first: int
    stop: int
    part: Part
    opens: bool
    closes: bool
    pieces: tuple[Part, ...]

    @property
    def blocks(self) -> range:
        return range(self.first, self.stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One MATRIX instruction: `block` over `piece`, accumulating at vector `acc`.

    `opens`: it overwrites the accumulator. `closes`: the column block is complete after it.
    `count`: so many column blocks from `block` on, one after another, also in the accumulator.
    """

    step: Step
    block: int
    piece: Part
    acc: int
    opens: bool
    closes: bool
    count: int = 1

    @property
    def in_group(self) -> int:
        return self.block - self.step.first


def steps(geo: ConvGeometry, plan: ConvPlan, config: NpuConfig) -> list[Step]:
    """Every step in execution order; the parts of an accumulation are neighbours."""
    out = [
        _step(geo, plan, config, tile, group, part)
        for tile, group in _order(geo, plan, config)
        for part in range(len(plan.parts))
    ]
    if plan.ramp:
        out[0] = replace(out[0], pieces=_pieces(out[0].part, plan.ramp, config.rows))
    return out


def _order(geo: ConvGeometry, plan: ConvPlan, config: NpuConfig) -> Iterator[tuple[Tile, int]]:
    tiles = list(geo.tiles(plan.th, plan.tw))
    groups = range(-(-geo.oc // (plan.group * config.cols)))
    if plan.tiles_outer:
        yield from ((tile, group) for tile in tiles for group in groups)
        return
    # Run-time weights differ from image to image: finish one before the next.
    images: dict[int, list[Tile]] = {}
    for tile in tiles:
        key = tile.batch if geo.layer.weight_view is not None else 0
        images.setdefault(key, []).append(tile)
    for image in images.values():
        yield from ((tile, group) for group in groups for tile in image)


def _step(
    geo: ConvGeometry, plan: ConvPlan, config: NpuConfig, tile: Tile, group: int, part: int
) -> Step:
    blocks = -(-geo.oc // config.cols)
    return Step(
        tile=tile,
        group=group,
        first=group * plan.group,
        stop=min((group + 1) * plan.group, blocks),
        part=plan.parts[part],
        opens=part == 0,
        closes=part == len(plan.parts) - 1,
        pieces=(plan.parts[part],),
    )


def _pieces(part: Part, cuts: tuple[int, ...], rows: int) -> tuple[Part, ...]:
    edges = [part.c0, *(part.c0 + n * rows for n in cuts), part.c1]
    return tuple(replace(part, c0=a, c1=b) for a, b in pairwise(edges) if a < b)


class Accumulators:
    """Hands out accumulator places.

    Neighbouring blocks lie in different halves, so that VECTOR empties one while MATRIX fills the
    other. Where a group accumulates over several parts or pieces, all its blocks live at once; with
    several parts, groups take turns in the quarters of the accumulator.
    """

    def __init__(self, plan: ConvPlan, config: NpuConfig, channels: int) -> None:
        self.plan, self.half = plan, config.acc_half
        self.whole = channels // config.cols
        self.next_half = self.start = 0
        self.bank = 1
        self.merged_half = 0

    def units(self, step: Step) -> Iterator[Unit]:
        """The MATRIX instructions of a step, in order."""
        count = len(step.blocks)
        if step.opens:
            self.start, self.next_half = self.next_half, (self.next_half + count) % 2
            self.bank ^= 1
        if self.plan.merged:
            yield from self._merged(step)
            return
        several_parts = len(self.plan.parts) > 1 and count > 1
        together = several_parts or len(step.pieces) > 1
        quarter = self.half // 2 if several_parts and self.bank else 0
        for piece in step.pieces:
            for i, block in enumerate(step.blocks):
                place = quarter + i // 2 * step.tile.vectors if together else 0
                yield Unit(
                    step=step,
                    block=block,
                    piece=piece,
                    acc=(self.start + i) % 2 * self.half + place,
                    opens=step.opens and piece == step.pieces[0],
                    closes=step.closes and piece == step.pieces[-1],
                )

    def _merged(self, step: Step) -> Iterator[Unit]:
        """All column blocks of full width at once, and a narrow one by itself."""
        full = min(step.stop, self.whole)
        for first, stop in ((step.first, full), (full, step.stop)):
            if first < stop:
                yield Unit(
                    step=step,
                    block=first,
                    piece=step.part,
                    acc=self.merged_half * self.half,
                    opens=True,
                    closes=True,
                    count=stop - first,
                )
                self.merged_half ^= 1

"""The order of work in a convolution: steps, and the column blocks (units) of each.

A step is one (tile, column group, part of the reduction): what one set of loaded buffers serves.
The first step may be ramped: computed in growing pieces of its channels, so that the matrix engine
starts when the first piece has arrived.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypedDict

from spec.config import NpuConfig
from sw.compiler.kernels.boxes import Tile
from sw.compiler.kernels.conv.geometry import ConvGeometry, Part
from sw.compiler.kernels.conv.plan import ConvPlan
from sw.compiler.kernels.places import Places, together


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Column blocks `first`…`stop` of `tile` over `part`; `pieces` are the parts of that part.

    `starts`: its loads are waited for slice by slice. `ends`: no step follows.
    """

    tile: Tile
    group: int
    first: int
    stop: int
    part: Part
    opens: bool
    closes: bool
    pieces: tuple[Part, ...]
    starts: bool = False
    ends: bool = False

    @property
    def blocks(self) -> range:
        return range(self.first, self.stop)


class Slice(TypedDict):
    """Which steps of an instruction: see `Access`."""

    level: int
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One MATRIX instruction: `count` column blocks from `block` on, over `piece`.

    They accumulate at vector `acc` and every `acc_step` on. `opens`: it overwrites the accumulator.
    `closes`: the column blocks are complete after it.
    """

    step: Step
    block: int
    count: int
    piece: Part
    acc: int
    acc_step: int
    opens: bool
    closes: bool

    @property
    def in_group(self) -> int:
        return self.block - self.step.first

    def slice(self, index: int) -> Slice:
        """The iterations of its instructions that work on column block number `index`."""
        return {"level": int(self.count > 1), "iteration": index}

    def __str__(self) -> str:
        return f"block {self.block}" + (f"+{self.count}" if self.count > 1 else "")


def steps(geo: ConvGeometry, plan: ConvPlan, config: NpuConfig) -> list[Step]:
    """Every step in execution order; the parts of an accumulation are neighbours."""
    out = [
        _step(geo, plan, config, tile, group, part)
        for tile, group in _order(geo, plan, config)
        for part in range(len(plan.parts))
    ]
    if plan.ramp:
        out[0] = replace(out[0], pieces=_pieces(out[0].part, plan.ramp, config.rows))
    out[:2] = [replace(step, starts=True) for step in out[:2]]
    out[-1] = replace(out[-1], ends=True)
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
        key = tile.batch if geo.layer.weights_by_image else 0
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
    """Cuts steps into units and hands out accumulator places."""

    def __init__(self, geo: ConvGeometry, plan: ConvPlan, config: NpuConfig) -> None:
        self.plan = plan
        self.places = Places.of(
            plan.th * plan.tw,
            together(plan.parts, plan.ramp, plan.group),
            config,
            plan.shared,
        )
        self.narrow = geo.oc // config.cols if geo.oc % config.cols else -1
        self.start = self.next = 0

    def units(self, step: Step) -> Iterator[Unit]:
        """The MATRIX instructions of a step, in order."""
        if step.opens:
            self.start, self.next = self.next, self.next + len(step.blocks)
        for piece in step.pieces:
            for block, count in self._cuts(step):
                yield Unit(
                    step=step,
                    block=block,
                    count=count,
                    piece=piece,
                    acc=self.places.vector(self.start + block - step.first),
                    acc_step=self.places.step,
                    opens=step.opens and piece == step.pieces[0],
                    closes=step.closes and piece == step.pieces[-1],
                )

    def _cuts(self, step: Step) -> Iterator[tuple[int, int]]:
        """(first block, blocks) of each unit.

        Alone are: the first block where its loads come slice by slice, the last one of the layer,
        whose epilogue is sliced, and a narrower one.
        """
        block, lanes = step.first, self.places.lanes
        span = min(self.plan.span, self.places.span)
        while block < step.stop:
            most = min(span, self.places.room(self.start + block - step.first))
            if step.starts and block == step.first and lanes > 1:
                most = 1
            stop = step.stop
            if block < self.narrow < stop:
                stop = self.narrow
            elif step.ends and lanes > 1:
                stop = max(block + 1, stop - 1)
            count = min(most, stop - block)
            yield block, count
            block += count

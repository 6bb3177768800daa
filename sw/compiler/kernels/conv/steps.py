"""The order of work in a convolution: steps, and the column blocks (units) of each.

A step is one tile of M, N and K: what one set of loaded buffers serves. The first step may have a
prologue: it is computed in growing pieces of its channels, so that the matrix engine
starts when the first piece has arrived.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypedDict

from spec.config import NpuConfig
from sw.compiler.kernels.boxes import Tile
from sw.compiler.kernels.conv.geometry import ConvGeometry, KTile
from sw.compiler.kernels.conv.plan import ConvPlan
from sw.compiler.kernels.places import Places, together


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvStep:
    """Column blocks `first`…`stop` of `tile` over `k_tile`; `pieces` of that, in order.

    `starts`: its loads are waited for slice by slice. `ends`: no step follows.
    """

    tile: Tile
    n_tile: int
    first: int
    stop: int
    k_tile: KTile
    opens: bool
    closes: bool
    pieces: tuple[KTile, ...]
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

    step: ConvStep
    block: int
    count: int
    piece: KTile
    acc: int
    acc_step: int
    opens: bool
    closes: bool

    @property
    def in_tile(self) -> int:
        return self.block - self.step.first

    def slice(self, index: int) -> Slice:
        """The iterations of its instructions that work on column block number `index`."""
        return {"level": int(self.count > 1), "iteration": index}

    def __str__(self) -> str:
        return f"block {self.block}" + (f"+{self.count}" if self.count > 1 else "")


def steps(geo: ConvGeometry, plan: ConvPlan, config: NpuConfig) -> list[ConvStep]:
    """Every step in execution order; the K tiles of an accumulation are neighbours."""
    out = [
        _step(geo, plan, config, tile, n_tile, k_tile)
        for tile, n_tile in _order(geo, plan, config)
        for k_tile in range(len(plan.k_tiles))
    ]
    if plan.prologue:
        out[0] = replace(out[0], pieces=_pieces(out[0].k_tile, plan.prologue, config.rows))
    # The second step's loads are under way while the first is computed: slices still pay.
    out[:2] = [replace(step, starts=True) for step in out[:2]]
    out[-1] = replace(out[-1], ends=True)
    return out


def _order(geo: ConvGeometry, plan: ConvPlan, config: NpuConfig) -> Iterator[tuple[Tile, int]]:
    tiles = list(geo.tiles(plan.th, plan.tw))
    n_tiles = range(-(-geo.oc // (plan.tile_n * config.cols)))
    if plan.tiles_outer:
        yield from ((tile, n_tile) for tile in tiles for n_tile in n_tiles)
        return
    # Run-time weights differ from image to image: finish one before the next.
    images: dict[int, list[Tile]] = {}
    for tile in tiles:
        key = tile.batch if geo.layer.weights_by_image else 0
        images.setdefault(key, []).append(tile)
    for image in images.values():
        yield from ((tile, n_tile) for n_tile in n_tiles for tile in image)


def _step(
    geo: ConvGeometry, plan: ConvPlan, config: NpuConfig, tile: Tile, n_tile: int, k_tile: int
) -> ConvStep:
    blocks = -(-geo.oc // config.cols)
    return ConvStep(
        tile=tile,
        n_tile=n_tile,
        first=n_tile * plan.tile_n,
        stop=min((n_tile + 1) * plan.tile_n, blocks),
        k_tile=plan.k_tiles[k_tile],
        opens=k_tile == 0,
        closes=k_tile == len(plan.k_tiles) - 1,
        pieces=(plan.k_tiles[k_tile],),
    )


def _pieces(k_tile: KTile, cuts: tuple[int, ...], rows: int) -> tuple[KTile, ...]:
    edges = [k_tile.c0, *(k_tile.c0 + n * rows for n in cuts), k_tile.c1]
    return tuple(replace(k_tile, c0=a, c1=b) for a, b in pairwise(edges) if a < b)


class Accumulators:
    """Cuts steps into units and hands out accumulator places."""

    def __init__(self, geo: ConvGeometry, plan: ConvPlan, config: NpuConfig) -> None:
        self.plan = plan
        needed = together(plan.k_tiles, plan.prologue, plan.tile_n)
        vectors = plan.th * plan.tw
        places = Places.of(vectors, needed, config, plan.shared, plan.lower_half)
        self.places = places.in_step(needed) if geo.batched else places
        # Blocks that alternate between halves leave every other bank to somebody else.
        self.first = config.acc_bank if plan.other_banks and self.places.skips(config) else 0
        # The last column block, if it is narrower: blocks of one instruction have one width.
        self.narrow = geo.oc // config.cols if geo.oc % config.cols else -1
        self.start = self.next = 0

    def units(self, step: ConvStep) -> Iterator[Unit]:
        """The MATRIX instructions of a step, in order."""
        if step.opens:
            # A tile keeps its places over all K tiles; the next one takes the places behind them.
            self.start, self.next = self.next, self.next + len(step.blocks)
        for piece in step.pieces:
            for block, count in self._cuts(step):
                yield Unit(
                    step=step,
                    block=block,
                    count=count,
                    piece=piece,
                    acc=self.first + self.places.vector(self.start + block - step.first),
                    acc_step=self.places.step,
                    opens=step.opens and piece == step.pieces[0],
                    closes=step.closes and piece == step.pieces[-1],
                )

    def _cuts(self, step: ConvStep) -> Iterator[tuple[int, int]]:
        """(first block, blocks) of each unit.

        Alone are: the first block where its loads come slice by slice, the last one of the layer,
        whose epilogue is sliced, and a narrower one.
        """
        block, lanes = step.first, self.places.lanes
        unroll = min(self.plan.unroll, self.places.unroll)
        while block < step.stop:
            most = min(unroll, self.places.room(self.start + block - step.first))
            # One lane means that tiles are tiny, and that loading weights bounds the layer: slices
            # of a block would gain nothing there.
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

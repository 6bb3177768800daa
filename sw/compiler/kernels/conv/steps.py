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
from sw.compiler.kernels.conv.geometry import (
    MIN_SLICED,
    ConvGeometry,
    KTile,
    Packing,
    equal_parts,
)
from sw.compiler.kernels.conv.plan import ConvPlan
from sw.compiler.kernels.epilogue import epilogue_cycles
from sw.compiler.kernels.places import Places, together
from sw.compiler.machine.costs import weight_cycles

SLOW = 4
"""Folds from which on an epilogue may fall behind the array in two banks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvStep:
    """Column blocks `first`…`stop` of `tile` over `k_tile`; `pieces` of that, in order.

    `begins`: it is the first one. `starts`: its loads are waited for slice by slice. `ends`: no
    step follows. `last`: nor does another tile or N tile. `first_parts`: equal parts of its rows,
    or columns of packed windows, in which the first activations are loaded and waited for.
    """

    tile: Tile
    n_tile: int
    first: int
    stop: int
    k_tile: KTile
    opens: bool
    closes: bool
    pieces: tuple[KTile, ...]
    begins: bool = False
    starts: bool = False
    ends: bool = False
    last: bool = False
    first_parts: int = 1

    @property
    def blocks(self) -> range:
        return range(self.first, self.stop)

    def is_short(self, piece: KTile, rows: int) -> bool:
        """Whether a piece has no more channels than the array has rows, and another one follows
        that adds to its sums.
        """
        return piece != self.pieces[-1] and piece.channels <= rows


class Slice(TypedDict):
    """Which steps of an instruction: see `Access`."""

    level: int
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One MATRIX instruction: `count` column blocks from `block` on, over `piece`.

    They accumulate at vector `acc` and every `acc_step` on. `opens`: it overwrites the accumulator.
    `closes`: the column blocks are complete after it.

    `parts`: equal parts of the tile's rows, or with `by_columns` of its columns, one after another;
    then it is a single block. Their sums begin `part_step` vectors apart, in different banks where
    they are `spread`, so that the epilogue of a part runs under the next part.

    `by_folds`: a fold of all blocks before the next one. They lie in different banks, none of which
    the array is in for long: an epilogue behind it never waits for a whole block.
    """

    step: ConvStep
    block: int
    count: int
    piece: KTile
    acc: int
    acc_step: int
    opens: bool
    closes: bool
    parts: int = 1
    part_step: int = 0
    spread: bool = False
    by_columns: bool = False
    by_folds: bool = False

    @property
    def in_tile(self) -> int:
        return self.block - self.step.first

    def slice(self, index: int) -> Slice:
        """The iterations of its VECTORs that work on column block number `index`."""
        return {"level": int(self.count > 1), "iteration": index}

    def product_slice(self, index: int) -> Slice:
        """The same of its MATRIX."""
        return {"level": 0, "iteration": 0} if self.by_folds else self.slice(index)

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
    out[0] = replace(out[0], begins=True, first_parts=_first_parts(out[0], geo, plan, config))
    many = len(plan.k_tiles)
    out[-many:] = [replace(step, last=True) for step in out[-many:]]
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


def _first_parts(step: ConvStep, geo: ConvGeometry, plan: ConvPlan, config: NpuConfig) -> int:
    """Into how many parts the first load is cut. Blocks of channels are waited for as they are."""
    by_rows = geo.layer.is_pointwise and step.pieces[0].channels <= config.rows
    if plan.held_in or geo.stacked > 1 or step.tile.vectors < MIN_SLICED:
        return 1
    if geo.packing is Packing.WINDOWS:
        parts = equal_parts(step.tile.cols)
    else:
        parts = equal_parts(step.tile.rows) if geo.packing is Packing.NONE and by_rows else 1
    # Each part takes the weights of all folds again.
    least = weight_cycles(config, geo.layer.transposed)
    return parts if step.tile.vectors // parts >= least else 1


def _pieces(k_tile: KTile, cuts: tuple[int, ...], rows: int) -> tuple[KTile, ...]:
    edges = [k_tile.c0, *(k_tile.c0 + n * rows for n in cuts), k_tile.c1]
    return tuple(replace(k_tile, c0=a, c1=b) for a, b in pairwise(edges) if a < b)


class _Spread(TypedDict):
    """Of a `Unit` whose rows' parts lie in different banks."""

    acc: int
    parts: int
    part_step: int
    spread: bool


class Accumulators:
    """Cuts steps into units and hands out accumulator places."""

    def __init__(self, geo: ConvGeometry, plan: ConvPlan, config: NpuConfig) -> None:
        self.plan, self.rows, self.stacked = plan, config.rows, geo.stacked > 1
        self.by_columns = geo.packing is Packing.WINDOWS
        self.kernel_cols, layer = geo.kernel[1], geo.layer
        self.finish = epilogue_cycles(layer.epilogue, layer.residual, config, geo.oc)
        self.fold_load = config.rows * config.cols / config.bus_bytes
        self.least_part = weight_cycles(config, geo.layer.transposed)
        self.spread: _Spread | None = None
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
            self._spread(step)
        for piece in step.pieces:
            for block, count in self._cuts(step, piece):
                unit = Unit(
                    step=step,
                    block=block,
                    count=count,
                    piece=piece,
                    acc=self.first + self.places.vector(self.start + block - step.first),
                    acc_step=self.places.step,
                    opens=step.opens and piece == step.pieces[0],
                    closes=step.closes and piece == step.pieces[-1],
                )
                unit = replace(unit, by_folds=self._by_folds(unit))
                begins = step.first_parts > 1 and piece == step.pieces[0] and block == step.first
                if self.spread is not None and block == step.stop - 1:
                    unit = replace(unit, **self.spread)
                elif begins:
                    parts, columns = step.first_parts, self.by_columns
                    size = step.tile.cols if columns else step.tile.vectors
                    unit = replace(unit, parts=parts, part_step=size // parts, by_columns=columns)
                yield unit

    def _by_folds(self, unit: Unit) -> bool:
        """Whether a unit is one of `Unit.by_folds`: where an epilogue may have fallen behind."""
        step, piece, lanes = unit.step, unit.piece, self.places.lanes
        folds = self._folds(piece)
        # An epilogue that takes most of the time is never far behind, and keeps its banks: of two
        # the array is in one, half of the time.
        least = max(2, self.finish) if lanes > 2 else max(SLOW, 2 * self.finish)
        if unit.count == 1 or lanes == 1 or folds < least:
            return False
        # The weights of all blocks are waited for together. Where they come in half of the time
        # that computing takes, that matters once.
        ahead = step.tile.vectors >= 2 * self.fold_load
        return not (step.begins and unit.block <= step.first + 1) if ahead else not step.starts

    def _folds(self, piece: KTile) -> int:
        """Folds of a column block."""
        return -(-piece.channels // self.rows) * piece.kernel_rows * self.kernel_cols

    def _spread(self, step: ConvStep) -> None:
        """Let the epilogue of the layer's last block begin with parts of its rows, where it can."""
        tile, lanes = step.tile, self.places.lanes
        parts = min(equal_parts(tile.rows), lanes)
        self.spread = None
        # A reader on chip hides most of it, and the banks of an epilogue before would be busier.
        if not step.last or self.plan.held_out or self.stacked:
            return
        if parts == 1 or tile.rows % parts or tile.vectors < MIN_SLICED:
            return
        # Each part takes the weights of all folds again, and hides them less well where it is
        # short. What ends sooner is the epilogue of the parts before the last.
        part = tile.vectors // parts
        waits = max(0, 2 * self.least_part - part) * sum(map(self._folds, step.pieces))
        if part < self.least_part or waits > self.finish * (tile.vectors - part):
            return
        if self.by_columns and step.first_parts > 1 and len(step.blocks) == 1:
            return
        # The block before lies in the bank that comes last: until then its epilogue is over.
        before = self.start + len(step.blocks) - 2
        shift = (lanes - 1 - before) % lanes if len(step.blocks) > 1 else 0
        # The first row of places that holds no other block. The unit before is finished behind the
        # MATRIX of this one.
        row = -(-(before + shift + 1) // lanes)
        unit = min(self.plan.unroll, self.places.unroll)
        oldest = max(0, min(self.start, before + 1 - unit) + shift)
        if (row + 1) * lanes - oldest > self.places.count:
            return
        self.start, self.next = self.start + shift, self.next + shift
        self.spread = _Spread(
            acc=self.first + self.places.vector(row * lanes),
            parts=parts,
            part_step=self.places.lane + tile.vectors // parts,
            spread=True,
        )

    def _cuts(self, step: ConvStep, piece: KTile) -> Iterator[tuple[int, int]]:
        """(first block, blocks) of each unit.

        Alone are: the first block where its loads come slice by slice, the last one of the layer,
        whose epilogue is sliced, and a narrower one. A short piece is one instruction for all
        others: it has no epilogue that could overlap with it.
        """
        block, lanes = step.first, self.places.lanes
        unroll, short = min(self.plan.unroll, self.places.unroll), step.is_short(piece, self.rows)
        unroll = max(unroll, lanes) if short else unroll
        while block < step.stop:
            most = min(unroll, self.places.room(self.start + block - step.first))
            # One lane means that tiles are tiny, and that loading weights bounds the layer: slices
            # of a block would gain nothing there.
            sliced = piece == step.pieces[0] or not short
            if step.starts and block == step.first and lanes > 1 and sliced:
                most = 1
            stop = step.stop
            if block < self.narrow < stop:
                stop = self.narrow
            elif self.spread is not None or (step.ends and lanes > 1 and not short):
                stop = max(block + 1, stop - 1)
            count = min(most, stop - block)
            yield block, count
            block += count

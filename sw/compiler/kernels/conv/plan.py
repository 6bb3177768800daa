"""Tile search for convolutions and matrix products on the cost model in `cost.py`.

Plans within 1% of the fastest are ranked by bytes moved.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from spec.config import NpuConfig
from sw.compiler.errors import CompileError, LegalityError
from sw.compiler.kernels.budget import MemoryBudget, Overlap, followed_tile
from sw.compiler.kernels.buffers import Buffers
from sw.compiler.kernels.conv.cost import ConvCost, Cut, CutCost, Reuse
from sw.compiler.kernels.conv.geometry import (
    ConvGeometry,
    KTile,
    Packing,
    geometry,
    packings,
    stacks,
)
from sw.compiler.kernels.conv.layer import ConvLayer
from sw.compiler.kernels.places import Places, together

Sizes = tuple[int, int, int, int]
"""Bytes of a buffer for activations, weights, results and residuals."""

CLOSE = 1.01
"""Plans that take up to so many times the cycles of the fastest are ranked by bytes moved."""

NEAR, MOST_NEAR = 1.05, 12
"""The same where plans are compared by the timeline of the whole program, and how many are."""

LEAST_SLOTS = 16
"""Results of an instruction are at most a 16th of the scratchpad."""

LEAST_UNITS = 16
"""Instructions that a layer is cut into, if it has as many column blocks."""

MAX_SLICES = 48
"""Slices of one load that are waited for singly: keeps semaphore counts far from their maximum."""

MOST_BLOCKS = 4 * MAX_SLICES
"""Column blocks of a step. All of them may post that their weights are there before the step's
first MATRIX takes a post, and a counter may have 8 bits."""

MOST_K_TILES = 16
"""Parts of the reduction that are tried where fewer fit, but load something twice."""

MOST_SMALL_K_TILES = 40
"""The same where weights are loaded as fast as the array takes them."""

WORTH_SMALL = 0.97
"""Share of the cycles from which on they pay: each tile is another instruction."""

EVEN_TURNS = 4
"""Buffers of results, instead of three, where that many fit and there are several samples: most
samples have an even number of instructions, so that all begin with the same buffer."""

PROLOGUES = ((1,), (1, 2), (1, 4), (1, 2, 4))
"""Cuts of the first step that are tried, in channel blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvPlan(Buffers):
    """How a layer is cut. Output tiles of th x tw (the tile's M); `tile_n` column blocks share
    loaded weights, up to `unroll` of them are one instruction.

    `k_tiles` cut the reduction; `prologue` the first step, in channel blocks, so that computing
    starts before all of it is loaded. `tiles_outer`: all column blocks before the next tile.
    `blocked`: activations lie in blocks of `rows` channels. `packing`, `stacked`: see `geometry`.
    `joint`: the results of `tile_n` blocks are stored together, in full pixels.
    `abreast`: computed weights lie on chip row by row, whole column blocks of a tile side by side.
    `held_in`, `held_out`: the input lies, or the result stays, on chip. `held_wgt`: so do the
    weights, all of them, and the first layer that has them loads them.
    `shared`: the depthwise engine works beside it, in every other bank of the accumulator.
    `other_banks`: in those that a depthwise engine would have. `lower_half`: in the lower half.
    """

    th: int
    tw: int
    tile_n: int
    unroll: int
    k_tiles: tuple[KTile, ...]
    prologue: tuple[int, ...] = ()
    tiles_outer: bool
    blocked: bool
    packing: Packing
    stacked: int = 1
    joint: bool
    abreast: bool = False
    held_in: bool
    held_out: bool
    held_wgt: bool = False
    shared: bool
    other_banks: bool = False
    lower_half: bool = False
    cycles: int = 0
    traffic: int = 0

    def __str__(self) -> str:
        return (
            f"tile {self.th}x{self.tw} tile_n {self.tile_n} unroll {self.unroll} "
            f"k_tiles {len(self.k_tiles)} "
            f"{f'prologue {list(self.prologue)} ' if self.prologue else ''}"
            f"{'tiles' if self.tiles_outer else 'tile_n'} outer"
            f"{' blocked' if self.blocked else ''}{' joint' if self.joint else ''}"
            f"{' abreast' if self.abreast else ''}"
            f"{f' {self.packing.value}' if self.packing is not Packing.NONE else ''}"
            f"{f' {self.stacked} samples' if self.stacked > 1 else ''}"
            f"{' shared' if self.shared else ''}"
            f"{' from chip' if self.held_in else ''}{' stays' if self.held_out else ''}"
            f"{' weights on chip' if self.held_wgt else ''}; "
            f"{self.buffers_text}; {self.cycles} cycles {self.traffic} bytes"
        )


class _Search:
    """The candidates of one layer that take at most `limit` cycles.

    `limit` falls with every candidate to `close` times its cycles, so that most others need not be
    looked at closely.
    `fits`: whether any fits in the budget; `once`: and loads everything once.
    """

    def __init__(
        self,
        geo: ConvGeometry,
        config: NpuConfig,
        budget: MemoryBudget,
        limit: float,
        close: float = CLOSE,
    ) -> None:
        self.close = close
        self.geo, self.config, self.budget = geo, config, budget
        self.cost = ConvCost(geo, config, budget)
        self.shared = budget.shares_acc
        self.followed = budget.overlap is Overlap.TILES
        self.whole = budget.streams(geo.output, config) or geo.stacked > 1
        self.blocks = self.cost.blocks
        self.limit, self.fits, self.once, self.small = limit, False, False, False

    def plans(self) -> Iterator[ConvPlan]:
        """Candidates with as few tiles of the reduction as fit at all, and with some more where
        those load something twice, or where the bus and the array are equally busy.
        """
        # One half of the accumulator is emptied while the other is filled. Beside a depthwise
        # layer, which has every other bank, one bank is filled and one emptied.
        most = self.config.acc_bank if self.shared else self.config.acc_half
        widths = _steps(self.geo.ow, most)
        if self.whole:
            # The depthwise engine follows by channels: it needs whole images of each, as tiles of
            # several samples do.
            widths = [self.geo.ow]
        if self.geo.stacked > 1 and self.geo.oh * self.geo.ow > most:
            return
        for k_tiles in self._uniform():
            # Narrow tiles only where wide ones do not fit: they read their halo more often, but
            # for windows, whose columns share nothing.
            cut = len(widths) if self.geo.packing is Packing.WINDOWS else 3
            for some in (widths[:cut], widths[cut:]):
                for tw in some:
                    yield from self._with_width(tw, k_tiles)
                if self._enough(len(k_tiles)):
                    return
                if self.fits:
                    break

    def _enough(self, k_tiles: int) -> bool:
        """Whether more tiles of the reduction are not worth a look."""
        if self.cost.few or self.geo.stacked > 1:
            if self.once and not self.small:
                self.small, self.limit = True, WORTH_SMALL * self.limit
            # Weights take as long to load as they take in the array: whatever part of them is
            # loaded before the array can begin with it is lost, so parts should be small.
            return self.fits and k_tiles >= MOST_SMALL_K_TILES
        return self.once or (self.fits and k_tiles >= MOST_K_TILES)

    def _uniform(self) -> Iterator[tuple[KTile, ...]]:
        """The reduction whole, then in more and more equal tiles."""
        whole = self.geo.packing is not Packing.NONE
        k_blocks = 1 if whole else -(-self.geo.c // self.config.rows)
        k_blocks *= self.geo.kernel[0]
        pieces, tried = 1, 0
        # Weights on chip lie there in one piece.
        k_blocks = 1 if self.cost.held_wgt else k_blocks
        while pieces <= k_blocks:
            k_tiles = self._k_tiles(pieces)
            if len(k_tiles) != tried:
                yield k_tiles
            # Rounding to whole blocks gives some counts twice.
            tried = len(k_tiles)
            # Counts grow by a quarter: long reductions would make the search long for little.
            pieces = max(pieces + 1, int(pieces * 1.25))

    def _prologues(
        self, k_tiles: tuple[KTile, ...], tile_n: int, vectors: int
    ) -> list[tuple[int, ...]]:
        """Cuts of the first step, if it can be cut: its column blocks accumulate side by side."""
        blocks = k_tiles[0].channels // self.config.rows
        # All blocks of the step hold their sums until the last piece: half of them in each half.
        room = self.config.acc_bank if self.followed else self.config.acc_half
        fits = -(-tile_n // 2) * vectors <= room
        # Later steps begin with a whole part of the reduction. Where weights take as long to load
        # as they take in the array, that is lost whenever it is: at the first step or at a later.
        late = self.cost.few and len(k_tiles) > 1
        if not self.cost.blocked or not fits or late:
            return [()]
        # The last cuts keep every piece so short that it can be waited for slice by slice.
        return [
            (),
            *(
                (*cuts, *range(cuts[-1] + MAX_SLICES, blocks, MAX_SLICES))
                for cuts in PROLOGUES
                if cuts[-1] < blocks
            ),
        ]

    def _k_tiles(self, pieces: int) -> tuple[KTile, ...]:
        """The reduction in about `pieces` tiles: whole array blocks, then kernel rows."""
        kh, rows, c = self.geo.kernel[0], self.config.rows, self.geo.c
        blocks = -(-c // rows)
        by_c = 1 if self.geo.packing is not Packing.NONE else min(pieces, blocks)
        # Cuts across channels first: they leave the rows that a tile reads as they are.
        by_k = min(-(-pieces // by_c), kh)
        step_c = -(-blocks // by_c) * rows
        step_k = -(-kh // by_k)
        return tuple(
            KTile(kh0=k, kh1=min(k + step_k, kh), c0=c0, c1=min(c0 + step_c, c))
            for c0 in range(0, c, step_c)
            for k in range(0, kh, step_k)
        )

    def _with_width(self, tw: int, k_tiles: tuple[KTile, ...]) -> Iterator[ConvPlan]:
        most = self.config.acc_bank if self.shared else self.config.acc_half
        if self.followed:
            vectors = self.geo.n * self.geo.oh * self.geo.ow
            most = min(most, followed_tile(vectors, self.budget.tiles, self.config))
        limit = max(1, most // tw)
        n_tiles = [self.blocks] if self.cost.held_wgt else _n_tiles(self.blocks)
        for th in [self.geo.oh] if self.whole else _steps(self.geo.oh, limit):
            for tile_n in n_tiles:
                single = th >= self.geo.oh and tw >= self.geo.ow and self.geo.n == 1
                if self._tile_n_fits(tile_n, th * tw, len(k_tiles), single):
                    yield from self._with_tile_n(th, tw, tile_n, k_tiles)

    def _tile_n_fits(self, tile_n: int, vectors: int, k_tiles: int, single: bool) -> bool:
        """Whether accumulators and parameters of `tile_n` blocks fit; `single`: none follow."""
        if tile_n > MOST_BLOCKS and not self.cost.held_wgt:
            return False
        if k_tiles > 1 and tile_n > 1:
            # Blocks that accumulate piecemeal live at once, and the next tile's begin before
            # this one's epilogue is done.
            room = self.config.acc_bank if self.followed else self.config.acc_half
            room //= 1 if single and tile_n == self.blocks else 2
            if -(-tile_n // 2) * vectors > room:
                return False
        # Entries of the next column blocks are loaded while these are in use.
        needed = tile_n * len(self.geo.layer.epilogue.param_passes)
        entries = self.budget.param_entries(self.config, product=True)
        return needed <= (entries if tile_n == self.blocks else entries // 2)

    def _unroll(self, vectors: int, tiles: int, tile_n: int, needed: int) -> int:
        """Column blocks of an instruction: few instructions, but several, so that they overlap."""
        if self.geo.stacked > 1:
            # The loop over samples takes the place of that over column blocks.
            return 1
        lower = self.budget.lower_half
        places = Places.of(vectors, needed, self.config, self.shared, lower)
        places = places.in_step(needed) if self.geo.batched else places
        most = min(tile_n, places.unroll)
        if places.lanes == 1:
            return most
        block = vectors * self.config.cols * self.geo.output.item
        slot = self.config.spad_bytes // LEAST_SLOTS // block
        return max(1, min(most, slot, tiles * self.blocks // LEAST_UNITS))

    def _with_tile_n(
        self, th: int, tw: int, tile_n: int, k_tiles: tuple[KTile, ...]
    ) -> Iterator[ConvPlan]:
        """Candidates of one tile: its buffers, and how many of each."""
        geo, cost = self.geo, self.cost
        tiles = geo.n * cost.rows_of(th, k_tiles).tiles * cost.cols_of(tw).tiles
        unroll = self._unroll(th * tw, tiles, tile_n, together(k_tiles, (), tile_n))
        cut = Cut(cost.rows_of(th, k_tiles), cost.cols_of(tw), tile_n, unroll, k_tiles)
        sizes = self._sizes(th, tw, cut)
        if sum(sizes) > self.budget.buffer_bytes:
            return
        self.fits = True
        found = cost.of(cut)
        # `least` is a lower bound for any buffers: nothing of this cut can still be close.
        if found.least > self.limit:
            return
        starts = [(r, cost.start(found, r)) for r in self._prologues(k_tiles, tile_n, th * tw)]
        for slots, tiles_outer, reuse in self._buffers(found, sizes):
            self.once = self.once or reuse.is_ideal
            for prologue, start in starts:
                cycles, traffic = cost.buffered(found, reuse, start)
                if cycles > self.limit:
                    continue
                self.limit = min(self.limit, self.close * cycles)
                yield self._plan(th, tw, cut, prologue, tiles_outer, slots, sizes, cycles, traffic)

    def _sizes(self, th: int, tw: int, cut: Cut) -> Sizes:
        """Bytes of the buffers for activations, weights, results and residuals: whole words."""
        geo, cost, config = self.geo, self.cost, self.config
        ys, xs, word = cut.ys, cut.xs, config.word_bytes
        act = max(m * xs.most[0] * geo.stored(p) for m, p in zip(ys.most, cut.k_tiles, strict=True))
        wgt = max(p.channels * p.kernel_rows for p in cut.k_tiles)
        wide = min((cut.tile_n if cost.joint else cut.unroll) * config.cols, geo.oc)
        added = 0 if cost.added is None else min(wide, cost.added.shape[3]) * cost.added.item
        sizes = (
            act,
            cut.tile_n * wgt * geo.kernel[1] * cost.width,
            th * tw * wide * geo.output.item,
            th * tw * added,
        )
        act, wgt, out, res = (-(-size // word) * word for size in sizes)
        # Tensors on chip need no buffers; a tile that reads nothing but padding still has one.
        return (
            0 if cost.held_in else max(word, act),
            0 if cost.held_wgt else wgt,
            0 if cost.held_out else out,
            res,
        )

    def _buffers(
        self, found: CutCost, sizes: Sizes
    ) -> Iterator[tuple[tuple[int, int, int], bool, Reuse]]:
        """(buffers of activations, weights and results; order; what they save), where they fit.

        As many as there are keys load everything once, two overlap loading and computing, one does
        not even that.
        """
        act, wgt, out, res = sizes
        many = len(found.cut.k_tiles)
        act_keys, wgt_keys = found.tiles * many, found.n_tiles * many * self.cost.images
        seen: set[Reuse] = set()
        for act_slots in [0] if self.cost.held_in else sorted({act_keys, min(2, act_keys), 1}):
            for wgt_slots, tiles_outer in itertools.product(
                [0] if self.cost.held_wgt else sorted({wgt_keys, min(2, wgt_keys), 1}),
                (True, False),
            ):
                if self.followed and not tiles_outer:
                    continue
                free = self.budget.buffer_bytes - act_slots * act - wgt_slots * wgt
                turns = min(3, free // (out + res)) if out + res else 0
                if free < 0 or (turns < 1 and out + res):
                    continue
                # More buffers that save nothing are not worth a look.
                reuse = self.cost.reuse(found, tiles_outer, (act_slots, wgt_slots, turns))
                if reuse not in seen:
                    seen.add(reuse)
                    if self.geo.batched and turns == 3 and free >= EVEN_TURNS * (out + res):
                        turns = EVEN_TURNS
                    yield (act_slots, wgt_slots, turns), tiles_outer, reuse

    def _plan(
        self,
        th: int,
        tw: int,
        cut: Cut,
        prologue: tuple[int, ...],
        tiles_outer: bool,
        slots: tuple[int, int, int],
        sizes: Sizes,
        cycles: int,
        traffic: int,
    ) -> ConvPlan:
        act, wgt, out, res = sizes
        act_slots, wgt_slots, turns = slots
        return ConvPlan(
            th=th,
            tw=tw,
            tile_n=cut.tile_n,
            unroll=cut.unroll,
            k_tiles=cut.k_tiles,
            prologue=prologue,
            tiles_outer=tiles_outer,
            blocked=self.cost.blocked,
            packing=self.geo.packing,
            stacked=self.geo.stacked,
            joint=self.cost.joint,
            abreast=self.cost.abreast and cut.tile_n > 1,
            held_in=self.cost.held_in,
            held_out=self.cost.held_out,
            held_wgt=self.cost.held_wgt,
            shared=self.shared,
            other_banks=self.budget.other_banks,
            lower_half=self.budget.lower_half,
            act_slots=act_slots,
            wgt_slots=wgt_slots,
            out_slots=turns if out else 0,
            res_slots=turns if res else 0,
            act_bytes=act,
            wgt_bytes=wgt,
            out_bytes=out,
            res_bytes=res,
            cycles=cycles,
            traffic=traffic,
        )


def _steps(size: int, limit: int) -> list[int]:
    """At most 12 tile sizes up to `limit` that cut `size` nearly equally, largest first."""
    out: list[int] = []
    pieces = -(-size // limit)
    while len(out) < 11:
        step = -(-size // pieces)
        if not out or step < out[-1]:
            out.append(step)
        if step == 1:
            return out
        pieces = pieces + 1 if len(out) < 6 else pieces * 2
    return [*out, 1]


def _n_tiles(blocks: int) -> list[int]:
    out = [blocks]
    while out[-1] > 1:
        out.append(-(-out[-1] // 2))
    return out


def plan_conv(layer: ConvLayer, config: NpuConfig, budget: MemoryBudget) -> ConvPlan:
    """The best plan that fits in `budget`; `CompileError` if not even the smallest does."""
    close = _close(layer, config, budget, CLOSE)
    # Of tiles that follow one another only the first hides the loads of weights that stay.
    return min(close, key=lambda p: (p.traffic, -p.stacked, p.cycles))


def near_conv(layer: ConvLayer, config: NpuConfig, budget: MemoryBudget) -> list[ConvPlan]:
    """The `MOST_NEAR` plans that the model finds fastest, of those within `NEAR` of the best."""
    return sorted(_close(layer, config, budget, NEAR), key=lambda p: p.cycles)[:MOST_NEAR]


def _close(
    layer: ConvLayer, config: NpuConfig, budget: MemoryBudget, close: float
) -> list[ConvPlan]:
    """Plans that take up to `close` times the cycles of the fastest: the model is not exact to a
    percent, and among plans that close, fewer bytes disturb others less.
    """
    held = layer.input.tensor in budget.held or layer.common in budget.held
    plans: list[ConvPlan] = []
    limit = math.inf
    # On chip a tensor lies as it is: packed vectors need a copy that loading makes. Weights that
    # stay there have one order for all their products.
    ways = [(packing, 1) for packing in ([Packing.NONE] if held else packings(layer, config.rows))]
    ways += [(Packing.NONE, stacked) for stacked in stacks(layer, config)]
    for packing, stacked in ways:
        search = _Search(geometry(layer, packing, stacked), config, budget, limit, close)
        plans += search.plans()
        limit = min((close * p.cycles for p in plans), default=math.inf)
    if not plans:
        raise CompileError(
            f"no tile of this layer fits in {budget.buffer_bytes} bytes of scratchpad and "
            f"{config.acc_kib} KiB of accumulator",
            node=layer.name,
            source=layer.source,
            hint="use a configuration with more memory",
        )
    fastest = min(p.cycles for p in plans)
    return [p for p in plans if p.cycles <= fastest * close]


def check_conv(layer: ConvLayer, plan: ConvPlan, config: NpuConfig) -> None:
    """A tile's sums fit in half of the accumulator, so that the other half can be emptied."""
    if plan.th * plan.tw > config.acc_half:
        raise LegalityError(
            f"tile {plan.th}x{plan.tw} exceeds an accumulator half of {config.acc_half}",
            node=layer.name,
        )

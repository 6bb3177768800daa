"""Cost model of convolutions and matrix products: cycles and bytes of a plan.

Cycles: the busiest of the matrix engine, the load engine, the store engine and the vector engine,
plus what cannot overlap (first load, last store).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from spec.config import NpuConfig
from spec.isa import Opcode
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.conv.geometry import ConvGeometry, KTile, Packing
from sw.compiler.kernels.epilogue import epilogue_cycles
from sw.compiler.machine.costs import (
    FINISH_BYTES,
    HANDOVER,
    INSTRUCTION_CYCLES,
    MATRIX_BYTES,
    MEMORY_LATENCY,
    SPLIT_RUN,
    STEP_LOAD_BYTES,
    fold_cycles,
    weight_cycles,
)


@dataclass(frozen=True, slots=True)
class Axis:
    """One output dimension cut in steps.

    `counts`: (length, tiles). Per tile of the reduction: `total` rows (columns) that all tiles
    store, `inside` those of them that come from memory, `most` of one tile. `first`: those of the
    first tile.
    """

    counts: tuple[tuple[int, int], ...]
    tiles: int
    total: tuple[int, ...]
    inside: tuple[int, ...]
    most: tuple[int, ...]
    first: int


@dataclass(frozen=True, slots=True)
class Cut:
    """How a layer is cut, whatever its buffers; names as in `ConvPlan`."""

    ys: Axis
    xs: Axis
    tile_n: int
    unroll: int
    k_tiles: tuple[KTile, ...]


@dataclass(frozen=True, slots=True)
class CutCost:
    """What a cut costs with buffers enough: bytes, and cycles of the engines.

    `act`, `wgt`: bytes of loading activations and weights once; `act_load`: its cycles. `other`:
    cycles of all other loads. `busy`: of the busiest other engine. `around`: that nothing hides.
    """

    cut: Cut
    tiles: int
    n_tiles: int
    fold: int
    act: int
    act_load: float
    wgt: int
    out: int
    added: int
    other: float
    busy: float
    around: float
    least: float


@dataclass(frozen=True, slots=True)
class Reuse:
    """What is loaded again, and what stops loading: all that the number of buffers decides.

    `act`, `wgt`: how often all is loaded. `act_stops`, `wgt_stops`: loading does not overlap
    computing; `out_stops`: storing neither.
    """

    act: int
    wgt: int
    act_stops: bool
    wgt_stops: bool
    out_stops: bool

    @property
    def is_ideal(self) -> bool:
        """Everything is loaded once, beside computing."""
        stops = self.act_stops or self.wgt_stops or self.out_stops
        return self.act == self.wgt == 1 and not stops


WASTED = 0.5
"""Part of the array's cycles that a layer pays for where low tiles take more of them."""


class ConvCost:
    """The cost of plans of one layer.

    `joint`, `blocked`, `abreast`, `held_in`, `held_out`, `held_wgt`: see `ConvPlan`. `added`: the
    residual that is loaded. `blocks`: column blocks. `images`: how many sets of weights.
    `least_fold`: the fewest cycles of a fold. `few`: loading weights into the array takes longer
    than computing. `finish`: cycles of the vector engine for a vector of sums.
    """

    def __init__(self, geo: ConvGeometry, config: NpuConfig, budget: MemoryBudget) -> None:
        self.geo, self.config = geo, config
        self.held_in = geo.input.tensor in budget.held
        self.held_out = geo.output.tensor in budget.held
        self.held_wgt = geo.layer.common in budget.held
        self.added = geo.residual
        if geo.residual is not None and geo.residual.tensor in budget.held:
            self.added = None
        self.blocks = -(-geo.oc // config.cols)
        self.least_fold = weight_cycles(config, geo.layer.transposed)
        # A fold lasts as long as the longer of its activations and the next fold's weights.
        self.few = geo.oh * geo.ow < self.least_fold
        # Partial bus words cost a cycle each: whole pixels at once make the longest runs.
        self.joint = not self.held_out and (self.few or not _aligned(geo, config))
        self.blocked = not self.held_in and _blocked(geo, config)
        self.abreast = self.few and _short_rows(geo, config)
        self.images = geo.n if geo.layer.weights_by_image else 1
        self.width = min(config.cols, geo.oc)
        self.finish = epilogue_cycles(geo.layer.epilogue, geo.layer.residual, config, geo.oc)
        self.rows_of = lru_cache(maxsize=None)(self._rows_of)
        self.cols_of = lru_cache(maxsize=None)(self._cols_of)

    def _rows_of(self, th: int, k_tiles: tuple[KTile, ...]) -> Axis:
        """The output rows in steps of `th`."""
        geo = self.geo
        if geo.layer.is_pointwise:
            # No halo: every tile reads as many rows as it writes.
            return self._axis(geo.oh, th, [[th]] * len(k_tiles), [geo.oh] * len(k_tiles))
        cuts = geo.cuts(geo.oh, th)
        stored = [[_length(geo.input_rows(*cut, p)) for cut in cuts] for p in k_tiles]
        inside = [sum(geo.memory_rows(*cut, p) for cut in cuts) for p in k_tiles]
        return self._axis(geo.oh, th, stored, inside)

    def _cols_of(self, tw: int) -> Axis:
        """The output columns in steps of `tw`."""
        geo = self.geo
        if geo.layer.is_pointwise:
            return self._axis(geo.ow, tw, [[tw]], [geo.ow])
        cuts = geo.cuts(geo.ow, tw)
        stored = [_length(geo.input_cols(*cut)) for cut in cuts]
        inside = sum(_length(geo.memory_cols(*cut)) for cut in cuts)
        return self._axis(geo.ow, tw, [stored], [inside])

    def _axis(self, size: int, step: int, spans: list[list[int]], inside: list[int]) -> Axis:
        lengths = Counter(_length(cut) for cut in self.geo.cuts(size, step))
        return Axis(
            counts=tuple(lengths.items()),
            tiles=lengths.total(),
            total=tuple(sum(s) for s in spans),
            inside=tuple(inside),
            most=tuple(max(s) for s in spans),
            first=spans[0][0],
        )

    def of(self, cut: Cut) -> CutCost:
        """The cost of a cut before its buffers are chosen."""
        geo, config, ys, xs = self.geo, self.config, cut.ys, cut.xs
        n_tiles, many, kw = -(-self.blocks // cut.tile_n), len(cut.k_tiles), geo.kernel[1]
        tiles = geo.n * ys.tiles * xs.tiles
        folds = sum(self._folds(p) for p in cut.k_tiles)
        fold = geo.n * sum(
            ny * nx * fold_cycles(h * w, config, geo.layer.transposed)
            for h, ny in ys.counts
            for w, nx in xs.counts
        )
        act, act_load = self._act(ys, xs, cut.k_tiles)
        wgt = 0 if self.held_wgt else geo.oc * geo.c * geo.kernel[0] * kw * self.images
        pixels, bus = geo.n * geo.oh * geo.ow, config.bus_bytes
        out = 0 if self.held_out else pixels * geo.oc * geo.output.item
        added = 0 if self.added is None else pixels * self.added.shape[3] * self.added.item
        units = tiles * many * n_tiles * -(-cut.tile_n // cut.unroll)
        # The program is read through the port that loads data. Of `many` tiles of a reduction only
        # the last has an epilogue.
        fetch = units * MATRIX_BYTES + units // many * FINISH_BYTES
        fetch += tiles * n_tiles * many * STEP_LOAD_BYTES
        runs = SPLIT_RUN * self._output_runs(xs, n_tiles)
        other = (fetch + added) / bus + (runs if added else 0)
        store = 0 if self.held_out else out / bus + runs
        busy = max(fold * folds * self.blocks, store, pixels * self.blocks * self.finish)
        last = ys.counts[-1][0] * xs.counts[-1][0]
        # A reader on chip begins with the first blocks: only the last one's epilogue is left over.
        # In memory the whole last tile must be finished and stored after the array has ended.
        finish = self.finish * last
        tail = finish / self.blocks + HANDOVER
        if not self.held_out:
            tail = finish + last + 3 * MEMORY_LATENCY
        around = tail + INSTRUCTION_CYCLES[Opcode.MATRIX] * units
        # Low tiles read weights for longer than they compute. Others wait for the array meanwhile,
        # also where this layer waits for something else.
        whole = geo.n * max(geo.oh * geo.ow, self.least_fold)
        around += WASTED * max(0, fold - whole) * folds * self.blocks
        return CutCost(
            cut=cut,
            tiles=tiles,
            n_tiles=n_tiles,
            fold=fold,
            act=act,
            act_load=act_load,
            wgt=wgt,
            out=out,
            added=added,
            other=other,
            busy=busy,
            around=around,
            least=max(busy, act_load + wgt / bus + other) + around,
        )

    def _folds(self, k_tile: KTile) -> int:
        """Folds of a column block in a tile of the reduction."""
        taps = k_tile.kernel_rows * self.geo.kernel[1]
        return -(-k_tile.channels // self.config.rows) * taps

    def reuse(self, cost: CutCost, tiles_outer: bool, slots: tuple[int, int, int]) -> Reuse:
        """What `slots` buffers for activations, weights and results come to."""
        act_slots, wgt_slots, out_slots = slots
        many, n_tiles, tiles = len(cost.cut.k_tiles), cost.n_tiles, cost.tiles
        loads = n_tiles * many * self.images
        # What is kept in all its buffers, or read in the order of the outer loop, is loaded once.
        keep_act = self.held_in or act_slots >= tiles * many or (tiles_outer and many == 1)
        keep_wgt = self.held_wgt or wgt_slots >= loads or (not tiles_outer and many == 1)
        return Reuse(
            act=1 if keep_act else n_tiles,
            wgt=1 if keep_wgt else tiles // self.images,
            act_stops=act_slots == 1 and tiles * many > 1,
            wgt_stops=wgt_slots == 1 and loads > 1,
            out_stops=out_slots == 1,
        )

    def buffered(self, cost: CutCost, reuse: Reuse, start: float) -> tuple[int, int]:
        """(cycles, bytes moved) of a cut with its buffers, and what its start adds to `busy`.

        Loads go on while the first tile waits. Where they take longest, the array is left with the
        folds of a last column block after them, for which it waits one by one.
        """
        bus, cut = self.config.bus_bytes, cost.cut
        act_load, wgt = cost.act_load * reuse.act, cost.wgt * reuse.wgt
        load = act_load + wgt / bus + cost.other
        block = cost.fold / cost.tiles * self._folds(cut.k_tiles[-1])
        cycles = max(cost.busy + start, load + min(start, block)) + cost.around
        # A single buffer cannot be filled while it is read: its loads add up.
        cycles += act_load if reuse.act_stops else 0
        cycles += wgt / bus if reuse.wgt_stops else 0
        cycles += cost.out / bus if reuse.out_stops else 0
        return math.ceil(cycles), cost.act * reuse.act + wgt + cost.out + cost.added

    def _act(self, ys: Axis, xs: Axis, k_tiles: Sequence[KTile]) -> tuple[int, float]:
        """(bytes, cycles of the load engine) of loading all activations once."""
        geo, bus = self.geo, self.config.bus_bytes
        if self.held_in:
            return 0, 0.0
        if geo.packing is Packing.WINDOWS:
            return self._windows(ys, xs)
        rows = zip(ys.inside, k_tiles, strict=True)
        size = geo.n * xs.inside[0] * sum(t * geo.stored(p) for t, p in rows)
        return size, size / bus + SPLIT_RUN * self._input_runs(ys, xs, k_tiles)

    def _windows(self, ys: Axis, xs: Axis) -> tuple[int, float]:
        """Overlapping runs are read once and written singly; fills need no reading."""
        geo, bus, word = self.geo, self.config.bus_bytes, self.config.word_bytes
        rows, edges = geo.n * ys.inside[0], geo.layer.pad[1] > 0
        span = min((geo.ow - 1) * geo.layer.stride[1] + geo.layer.kernel[1], geo.w)
        # A run need not begin at a bus word: one word more for each tile of columns.
        words = rows * (-(-span * geo.input.shape[3] // bus) + xs.tiles)
        writes = rows * xs.total[0] * -(-geo.pixel // bus)
        outside = geo.n * (ys.total[0] - ys.inside[0]) * xs.total[0]
        fills = outside * -(-geo.pixel // word) + 2 * edges * rows * geo.layer.pad[1]
        return words * bus, max(words, writes) + fills

    def _input_runs(self, ys: Axis, xs: Axis, k_tiles: Sequence[KTile]) -> int:
        """Runs of bytes that are loaded once through, where they do not fill whole bus words."""
        if self.blocked:
            return 0
        geo, view = self.geo, self.geo.input
        rows = geo.n * sum(ys.inside)
        if len(k_tiles) > 1 or view.strides[2] != geo.pixel:
            return rows * xs.inside[0]
        # Rows of a dense tensor that are read whole follow each other: a tile is one run.
        dense = view.strides[1] == geo.w * geo.pixel and geo.packing is Packing.NONE
        return geo.n * ys.tiles if dense and xs.tiles == 1 else rows * xs.tiles

    def _output_runs(self, xs: Axis, n_tiles: int) -> int:
        """The same for stores."""
        geo = self.geo
        if not self.joint and self.blocks > 1:
            return 0
        return geo.n * geo.oh * (xs.tiles if n_tiles == 1 else geo.ow * n_tiles)

    def start(self, cost: CutCost, prologue: Sequence[int]) -> float:
        """Cycles that the first tile adds to its computing: the first piece, or all its loads.

        Where activations are on chip, the weights come while the layer before is computed.
        """
        cut, fold, act = cost.cut, cost.fold // cost.tiles, cost.act_load / cost.tiles
        if self.held_in:
            return 0.0
        if self.held_wgt:
            # Activations alone.
            return act
        bus, rows, k_tile = self.config.bus_bytes, self.config.rows, cut.k_tiles[0]
        taps, channels = k_tile.kernel_rows * self.geo.kernel[1], k_tile.channels
        if self.geo.packing is not Packing.WINDOWS:
            act = cut.ys.first * cut.xs.first * self.geo.stored(k_tile) / bus
        first = prologue[0] * rows if prologue else channels
        act_piece = act * (rows / channels if self.blocked else 1)
        # The array starts when the first piece of activations and of weights is there.
        soonest = act_piece + first * taps * self.width / bus
        folds = self._folds(k_tile)
        last = folds - prologue[-1] * taps if prologue else folds
        fetch = cut.tile_n * ((len(prologue) + 1) * MATRIX_BYTES + FINISH_BYTES)
        fetch += (len(prologue) + 1) * STEP_LOAD_BYTES
        weights = cut.tile_n * channels * taps * self.width
        loaded = act + (weights + fetch) / bus + fold * last
        # Pieces grow, so that each is loaded while the one before it is computed.
        stalls = 0.0
        edges = [0, *prologue, channels // rows] if prologue else []
        for before, here, after in zip(edges, edges[1:], edges[2:], strict=False):
            # While one piece is computed, the rest of its weights and the next one's first load.
            blocks = (cut.tile_n - 1) * (here - before) + (after - here)
            load = blocks * rows * taps * self.width / bus + act_piece
            stalls += max(0.0, load - cut.tile_n * fold * (here - before) * taps)
        return max(soonest, loaded - cut.tile_n * fold * folds) + stalls


def _length(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]


def _aligned(geo: ConvGeometry, config: NpuConfig) -> bool:
    """Whether the results of one column block can be stored without partial bus words."""
    item, bus = geo.output.item, config.bus_bytes
    strides = (*geo.output.strides, geo.output.offset, config.cols * item)
    return geo.oc <= config.cols or all(s % bus == 0 for s in strides)


def _short_rows(geo: ConvGeometry, config: NpuConfig) -> bool:
    """Whether a row of a column block is only a part of a bus word, and lies so in memory."""
    layer = geo.layer
    computed = layer.weight_view is not None and not layer.transposed
    return computed and config.cols < min(config.bus_bytes, geo.oc)


def _blocked(geo: ConvGeometry, config: NpuConfig) -> bool:
    """Whether activations can be loaded in blocks of array rows without loss on the bus."""
    if geo.packing is not Packing.NONE:
        return False
    places = (config.rows, *geo.input.strides, geo.input.offset)
    return (
        geo.c > config.rows
        and geo.c % config.rows == 0
        and all(p % config.bus_bytes == 0 for p in places)
    )

"""Tile search for convolutions and matrix products on a simple cost model.

Cycles of a plan: the busiest of the matrix engine, the load bus, the store bus and the vector
engine, plus what cannot overlap (first load, last store). Plans within 1% of the fastest are ranked
by bytes moved.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.geometry import ConvGeometry, Part, can_pack, geometry
from sw.compiler.layers import ConvLayer

LATENCY = 100
"""Cycles from a memory request to its data that the cost model assumes."""

MATRIX_BYTES, FINISH_BYTES, LOAD_BYTES = 160, 320, 288
"""Instruction bytes per MATRIX, per finished column block (VECTOR, STORE) and per step's loads."""

RAMPS = ((1,), (1, 4), (1, 2, 4))
"""Cuts of the first step that are tried, in channel blocks."""

SPLIT_RUN = 0.75
"""Bus cycles that a run which begins or ends within a bus word costs beyond its bytes."""

UNIT_CYCLES = 4
"""Cycles that the pipelines lose per column block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvPlan:
    """How a layer is cut. Output tiles of th x tw; `group` column blocks share loaded weights.

    `parts` cut the reduction; `ramp` the first step, in channel blocks, so that computing starts
    before all of it is loaded. `tiles_outer`: all groups for a tile before the next tile. Slots are
    buffers in rotation; sizes in bytes. `blocked`: activations lie in blocks of `rows` channels.
    `packed`: see `geometry`. `joint`: a group's results are stored together, in full pixels.
    """

    th: int
    tw: int
    group: int
    parts: tuple[Part, ...]
    ramp: tuple[int, ...] = ()
    tiles_outer: bool
    blocked: bool
    packed: bool
    joint: bool
    act_slots: int
    wgt_slots: int
    out_slots: int
    act_bytes: int
    wgt_bytes: int
    out_bytes: int
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        """Scratchpad bytes of all buffers."""
        used = self.act_slots * self.act_bytes + self.wgt_slots * self.wgt_bytes
        return used + self.out_slots * self.out_bytes

    def __str__(self) -> str:
        return (
            f"tile {self.th}x{self.tw} group {self.group} parts {len(self.parts)} "
            f"{f'ramp {list(self.ramp)} ' if self.ramp else ''}"
            f"{'tiles' if self.tiles_outer else 'groups'} outer"
            f"{' blocked' if self.blocked else ''}{' packed' if self.packed else ''}"
            f"{' joint' if self.joint else ''}; "
            f"act {self.act_slots}x{self.act_bytes} wgt {self.wgt_slots}x{self.wgt_bytes} "
            f"out {self.out_slots}x{self.out_bytes}; {self.cycles} cycles {self.traffic} bytes"
        )


@dataclass(frozen=True, slots=True)
class _Axis:
    """One output dimension cut in steps: (length, tiles), inputs read per part, most per tile."""

    counts: tuple[tuple[int, int], ...]
    tiles: int
    total: tuple[int, ...]
    most: tuple[int, ...]
    first: int


class _Search:
    """The candidates of one layer; everything that does not depend on the tile is computed once."""

    def __init__(self, geo: ConvGeometry, config: NpuConfig) -> None:
        self.geo, self.config = geo, config
        self.blocks = -(-geo.oc // config.cols)
        self.item = geo.output.item
        self.joint = not _aligned(geo, config)
        self.blocked = _blocked(geo, config)
        self.images = geo.n if geo.layer.weight_view is not None else 1
        self.width = min(config.cols, geo.oc)
        self.rows_of = lru_cache(maxsize=None)(self._rows_of)
        self.cols_of = lru_cache(maxsize=None)(self._cols_of)

    def plans(self) -> Iterator[ConvPlan]:
        """Candidates with as few parts of the reduction as fit at all."""
        widths = _steps(self.geo.ow, self.config.acc_half)
        for parts in self._uniform():
            # Narrow tiles only where wide ones do not fit: they read their halo more often.
            for some in (widths[:3], widths[3:]):
                found = [p for tw in some for p in self._with_width(tw, parts)]
                if found:
                    yield from found
                    return

    def _uniform(self) -> Iterator[tuple[Part, ...]]:
        """The reduction whole, then in more and more equal parts."""
        k_blocks = 1 if self.geo.packed else -(-self.geo.c // self.config.rows)
        k_blocks *= self.geo.kernel[0]
        pieces, tried = 1, 0
        while pieces <= k_blocks:
            parts = self._parts(pieces)
            if len(parts) != tried:
                yield parts
            tried = len(parts)
            pieces = max(pieces + 1, int(pieces * 1.25))

    def _ramps(self, parts: tuple[Part, ...], group: int, vectors: int) -> list[tuple[int, ...]]:
        """Cuts of the first step, if it can be cut: its column blocks accumulate side by side."""
        blocks = self.geo.c // self.config.rows
        fits = -(-group // 2) * vectors <= self.config.acc_half
        if len(parts) > 1 or not self.blocked or not fits:
            return [()]
        return [(), *(cuts for cuts in RAMPS if cuts[-1] < blocks)]

    def _parts(self, pieces: int) -> tuple[Part, ...]:
        """The reduction in about `pieces` parts: whole array blocks, then kernel rows."""
        kh, rows, c = self.geo.kernel[0], self.config.rows, self.geo.c
        blocks = -(-c // rows)
        by_c = 1 if self.geo.packed else min(pieces, blocks)
        by_k = min(-(-pieces // by_c), kh)
        step_c = -(-blocks // by_c) * rows
        step_k = -(-kh // by_k)
        return tuple(
            Part(kh0=k, kh1=min(k + step_k, kh), c0=c0, c1=min(c0 + step_c, c))
            for c0 in range(0, c, step_c)
            for k in range(0, kh, step_k)
        )

    def _rows_of(self, th: int, parts: tuple[Part, ...]) -> _Axis:
        oh = self.geo.oh
        spans = [
            [_span(self.geo.input_rows(y, min(y + th, oh), p)) for y in range(0, oh, th)]
            for p in parts
        ]
        return _axis(oh, th, spans)

    def _cols_of(self, tw: int) -> _Axis:
        ow = self.geo.ow
        spans = [_span(self.geo.input_cols(x, min(x + tw, ow))) for x in range(0, ow, tw)]
        return _axis(ow, tw, [spans])

    def _with_width(self, tw: int, parts: tuple[Part, ...]) -> Iterator[ConvPlan]:
        limit = max(1, self.config.acc_half // tw)
        groups = _groups(self.blocks)
        for th in _steps(self.geo.oh, limit):
            for group in groups:
                single = th >= self.geo.oh and tw >= self.geo.ow and self.geo.n == 1
                if self._group_fits(group, th * tw, len(parts), single):
                    yield from self._with_group(th, tw, group, parts)

    def _group_fits(self, group: int, vectors: int, parts: int, single: bool) -> bool:
        """Whether the accumulators and parameters of a group fit; `single`: it has no successor."""
        if parts > 1 and group > 1:
            room = self.config.acc_half // (1 if single and group == self.blocks else 2)
            if -(-group // 2) * vectors > room:
                return False
        entries = self.config.param_entries
        if not self.geo.layer.epilogue.uses_params or (group == self.blocks <= entries):
            return True
        return group <= entries // 2

    def _with_group(
        self, th: int, tw: int, group: int, parts: tuple[Part, ...]
    ) -> Iterator[ConvPlan]:
        geo, config = self.geo, self.config
        ys, xs = self.rows_of(th, parts), self.cols_of(tw)
        word = config.word_bytes
        act = max(m * xs.most[0] * geo.stored(p) for m, p in zip(ys.most, parts, strict=True))
        wgt = group * max(p.channels * p.kernel_rows for p in parts) * geo.kernel[1] * self.width
        out = th * tw * self.item * (min(group * config.cols, geo.oc) if self.joint else self.width)
        act, wgt, out = (-(-max(1, b) // word) * word for b in (act, wgt, out))
        ramps = self._ramps(parts, group, th * tw)
        tiles = geo.n * ys.tiles * xs.tiles
        act_keys = tiles * len(parts)
        wgt_keys = -(-self.blocks // group) * len(parts) * self.images
        for act_slots in sorted({act_keys, min(2, act_keys), 1}):
            for wgt_slots in sorted({wgt_keys, min(2, wgt_keys), 1}):
                free = config.spad_bytes - act_slots * act - wgt_slots * wgt
                out_slots = min(3, free // out)
                if out_slots < 1:
                    continue
                for tiles_outer, ramp in itertools.product((True, False), ramps):
                    slots = (act_slots, wgt_slots, out_slots)
                    cycles, traffic = self._cost(ys, xs, group, parts, ramp, tiles_outer, slots)
                    yield ConvPlan(
                        th=th,
                        tw=tw,
                        group=group,
                        parts=parts,
                        ramp=ramp,
                        tiles_outer=tiles_outer,
                        blocked=self.blocked,
                        packed=geo.packed,
                        joint=self.joint,
                        act_slots=act_slots,
                        wgt_slots=wgt_slots,
                        out_slots=out_slots,
                        act_bytes=act,
                        wgt_bytes=wgt,
                        out_bytes=out,
                        cycles=cycles,
                        traffic=traffic,
                    )

    def _cost(
        self,
        ys: _Axis,
        xs: _Axis,
        group: int,
        parts: tuple[Part, ...],
        ramp: tuple[int, ...],
        tiles_outer: bool,
        slots: tuple[int, int, int],
    ) -> tuple[int, int]:
        """(cycles, bytes moved)."""
        geo, config = self.geo, self.config
        act_slots, wgt_slots, out_slots = slots
        groups, many, kw = -(-self.blocks // group), len(parts), geo.kernel[1]
        tiles = geo.n * ys.tiles * xs.tiles
        folds = sum(-(-p.channels // config.rows) * p.kernel_rows * kw for p in parts)
        fold = geo.n * sum(
            ny * nx * max(h * w, config.rows) for h, ny in ys.counts for w, nx in xs.counts
        )
        act = (
            geo.n
            * xs.total[0]
            * sum(t * geo.stored(p) for t, p in zip(ys.total, parts, strict=True))
        )
        wgt = geo.oc * geo.c * geo.kernel[0] * kw * self.images
        keep_act = act_slots >= tiles * many or (tiles_outer and many == 1)
        keep_wgt = wgt_slots >= groups * many * self.images or (not tiles_outer and many == 1)
        act *= 1 if keep_act else groups
        wgt *= 1 if keep_wgt else tiles // self.images
        out = geo.n * geo.oh * geo.ow * geo.oc * self.item
        bus = config.bus_bytes
        units = tiles * self.blocks * many
        fetch = units * MATRIX_BYTES + tiles * self.blocks * FINISH_BYTES
        fetch += tiles * groups * many * LOAD_BYTES
        load = (act + wgt + fetch) / bus
        reads = self._input_runs(ys, xs, parts) * (1 if keep_act else groups)
        load += SPLIT_RUN * reads
        store = out / bus + SPLIT_RUN * self._output_runs(xs, groups)
        vector = geo.n * geo.oh * geo.ow * self.blocks
        # With one slot, loading stops while the matrix engine computes.
        serial = (act / bus if act_slots == 1 and tiles * many > 1 else 0) + (
            wgt / bus if wgt_slots == 1 and groups * many * self.images > 1 else 0
        )
        start = self._start(ys, xs, group, parts, ramp, fold // tiles)
        tail = 2 * ys.counts[-1][0] * xs.counts[-1][0] + 3 * LATENCY
        cycles = max(fold * folds * self.blocks, load, store, vector) + serial
        cycles += start + tail + UNIT_CYCLES * units
        if out_slots == 1:
            cycles += out / bus
        return math.ceil(cycles), act + wgt + out

    def _input_runs(self, ys: _Axis, xs: _Axis, parts: tuple[Part, ...]) -> int:
        """Runs of bytes that are loaded once through, where they do not fill whole bus words."""
        if self.blocked:
            return 0
        geo, view = self.geo, self.geo.input
        rows = geo.n * sum(ys.total)
        if len(parts) > 1 or view.strides[2] != geo.pixel:
            return rows * xs.total[0]
        whole = xs.tiles == 1 and view.strides[1] == geo.w * geo.pixel and not geo.packed
        return geo.n * ys.tiles if whole else rows * xs.tiles

    def _output_runs(self, xs: _Axis, groups: int) -> int:
        """The same for stores."""
        geo = self.geo
        if not self.joint and self.blocks > 1:
            return 0
        return geo.n * geo.oh * (xs.tiles if groups == 1 else geo.ow * groups)

    def _start(
        self,
        ys: _Axis,
        xs: _Axis,
        group: int,
        parts: tuple[Part, ...],
        ramp: tuple[int, ...],
        fold: int,
    ) -> float:
        """Cycles that the first tile adds to its computing: the first piece, or all its loads."""
        bus, taps = self.config.bus_bytes, parts[0].kernel_rows * self.geo.kernel[1]
        channels, rows = parts[0].channels, self.config.rows
        first = ramp[0] * rows if ramp else channels
        pixels = ys.first * xs.first
        stored = self.geo.stored(parts[0])
        act_piece = pixels * (rows if self.blocked else stored)
        soonest = (act_piece + first * taps * self.width) / bus
        folds = -(-channels // rows) * taps
        last = folds - ramp[-1] * taps if ramp else folds
        fetch = group * ((len(ramp) + 1) * MATRIX_BYTES + FINISH_BYTES)
        fetch += (len(ramp) + 1) * LOAD_BYTES
        weights = group * channels * taps * self.width
        loaded = (pixels * stored + weights + fetch) / bus + fold * last
        stalls = 0.0
        edges = [0, *ramp, channels // rows] if ramp else []
        for before, here, after in zip(edges, edges[1:], edges[2:], strict=False):
            # While one piece is computed, the rest of its weights and the next one's first load.
            blocks = (group - 1) * (here - before) + (after - here)
            load = (blocks * rows * taps * self.width + act_piece) / bus
            stalls += max(0.0, load - group * fold * (here - before) * taps)
        return max(soonest, loaded - group * fold * folds) + stalls


def _span(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]


def _axis(size: int, step: int, spans: list[list[int]]) -> _Axis:
    full, rest = divmod(size, step)
    counts = ((step, full), (rest, 1)) if rest else ((step, full),)
    return _Axis(
        counts=counts,
        tiles=full + (rest > 0),
        total=tuple(sum(s) for s in spans),
        most=tuple(max(s) for s in spans),
        first=spans[0][0],
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


def _groups(blocks: int) -> list[int]:
    out = [blocks]
    while out[-1] > 1:
        out.append(-(-out[-1] // 2))
    return out


def _aligned(geo: ConvGeometry, config: NpuConfig) -> bool:
    """Whether the results of one column block can be stored without partial bus words."""
    item, bus = geo.output.item, config.bus_bytes
    strides = (*geo.output.strides, geo.output.offset, config.cols * item)
    return geo.oc <= config.cols or all(s % bus == 0 for s in strides)


def _blocked(geo: ConvGeometry, config: NpuConfig) -> bool:
    """Whether activations can be loaded in blocks of array rows without loss on the bus."""
    if geo.packed:
        return False
    places = (config.rows, *geo.input.strides, geo.input.offset)
    return (
        geo.c > config.rows
        and geo.c % config.rows == 0
        and all(p % config.bus_bytes == 0 for p in places)
    )


def plan_conv(layer: ConvLayer, config: NpuConfig) -> ConvPlan:
    """The best plan that fits on chip; `CompileError` if not even the smallest does."""
    plans = list(_Search(geometry(layer), config).plans())
    if can_pack(layer, config.rows):
        plans += _Search(geometry(layer, packed=True), config).plans()
    if not plans:
        raise CompileError(
            f"no tile of this layer fits in {config.spad_kib} KiB of scratchpad and "
            f"{config.acc_kib} KiB of accumulator",
            node=layer.name,
            source=layer.source,
            hint="use a configuration with more memory",
        )
    fastest = min(p.cycles for p in plans)
    close = [p for p in plans if p.cycles <= fastest * 1.01]
    return min(close, key=lambda p: (p.traffic, p.cycles))

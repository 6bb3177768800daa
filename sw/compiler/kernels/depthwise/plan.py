"""Tile search for depthwise layers.

A tile is a box of outputs: rows of all columns if they fit, and either all channels (whole pixels
make the longest runs on the bus) or some, of all rows (nothing is read twice). The first tiles are
low and grow, so that the engine starts early; the last one is low, so that little is left to do
when the engine ends.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.kernels.conv.cost import HANDOVER, LATENCY, SPLIT_RUN
from sw.compiler.kernels.conv.geometry import Box
from sw.compiler.kernels.depthwise.geometry import passes, units
from sw.compiler.kernels.layers import DepthwiseLayer
from sw.compiler.kernels.pool.plan import halvings
from sw.compiler.placement.residency import Room

UNIT_BYTES, TILE_BYTES, GROUP_BYTES = 336, 192, 192
"""Instruction bytes per unit (DEPTHWISE, VECTOR), per tile (LOAD, STORE) and per channel group."""

UNIT_CYCLES = 8
"""Cycles that the pipelines lose per unit."""

SHARE = 4
"""Part of the scratchpad (1/SHARE) that a layer may fill without regard to the next one."""

RAMPS = (1, 2, 4)
"""Rows of the first and of the last tile that are tried."""

MAX_TILES = 400
"""Plans of more tiles are not looked at unless nothing else fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwisePlan:
    """Tiles of th x tw outputs and tc channels, `ramp` rows in the first and last one (0: th).

    Slots are buffers in rotation; sizes in bytes. What `ahead` tiles need is loaded ahead.
    `held_in`, `held_out`: the input lies, or the result stays, on chip. `shared`: a product runs
    beside.
    """

    th: int
    tw: int
    tc: int
    ahead: int
    held_in: bool
    held_out: bool
    shared: bool
    rowwise: bool
    act_slots: int
    wgt_slots: int
    out_slots: int
    act_bytes: int
    wgt_bytes: int
    out_bytes: int
    res_slots: int
    res_bytes: int
    ramp: int = 0
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        """Scratchpad bytes of all buffers."""
        used = self.act_slots * self.act_bytes + self.wgt_slots * self.wgt_bytes
        return used + self.out_slots * self.out_bytes + self.res_slots * self.res_bytes

    def __str__(self) -> str:
        return (
            f"tile {self.th}x{self.tw}x{self.tc} ramp {self.ramp}"
            f"{' from chip' if self.held_in else ''}{' stays' if self.held_out else ''}"
            f"{' rowwise' if self.rowwise else ''}; "
            f"act {self.act_slots}x{self.act_bytes} wgt {self.wgt_slots}x{self.wgt_bytes} "
            f"out {self.out_slots}x{self.out_bytes}"
            f"{f' residual {self.res_slots}x{self.res_bytes}' if self.res_slots else ''}; "
            f"{self.cycles} cycles {self.traffic} bytes"
        )


def boxes(layer: DepthwiseLayer, plan: DepthwisePlan) -> list[Box]:
    """Output boxes in execution order: rowwise, or channels outermost, so that weights stay."""
    n, h, w, c = layer.output.shape
    groups = range(0, c, plan.tc)
    if plan.rowwise:
        return [
            box
            for batch in range(n)
            for y0, y1 in _rows(h, plan, batch == 0, batch == n - 1)
            for c0 in groups
            for box in _row_of_boxes(w, c, plan, (batch, y0, y1, c0))
        ]
    return [
        box
        for c0 in groups
        for batch in range(n)
        for y0, y1 in _rows(h, plan, c0 == batch == 0, batch == n - 1 and c0 + plan.tc >= c)
        for box in _row_of_boxes(w, c, plan, (batch, y0, y1, c0))
    ]


def _row_of_boxes(
    w: int, c: int, plan: DepthwisePlan, place: tuple[int, int, int, int]
) -> Iterator[Box]:
    batch, y0, y1, c0 = place
    c1 = min(c0 + plan.tc, c)
    for x0 in range(0, w, plan.tw):
        yield Box(batch=batch, y0=y0, y1=y1, x0=x0, x1=min(x0 + plan.tw, w), c0=c0, c1=c1)


def _rows(h: int, plan: DepthwisePlan, first: bool, last: bool) -> Iterator[tuple[int, int]]:
    y0 = 0
    for rows in _heights(h, plan.th, plan.ramp, first, last):
        yield y0, y0 + rows
        y0 += rows


def _heights(size: int, th: int, ramp: int, first: bool, last: bool) -> Iterator[int]:
    tail = ramp if last and ramp and size > ramp else 0
    rest, step = size - tail, ramp if first and ramp else th
    while rest:
        rows = min(step, th, rest)
        yield rows
        rest, step = rest - rows, 2 * step
    if tail:
        yield tail


def plan_depthwise(layer: DepthwiseLayer, config: NpuConfig, room: Room) -> DepthwisePlan:
    """The best plan that fits in `room`; `CompileError` if not even the smallest does."""
    search = _Search(layer, config, room)
    plans = list(search.plans())
    if not plans:
        raise CompileError(
            f"no tile of this layer fits in {room.buffer_bytes} bytes of scratchpad",
            node=layer.name,
            source=layer.source,
            hint="use a configuration with a larger scratchpad, or a smaller kernel",
        )
    plans += [ramped for p in _within(plans, 1.15) for ramped in search.ramped(p)]

    def rank(plan: DepthwisePlan) -> tuple[int, int]:
        # What is held beyond a fair share is missing where the next layer would load ahead.
        return plan.traffic + max(0, plan.spad_bytes - config.spad_bytes // SHARE), plan.cycles

    return min(_within(plans, 1.01), key=rank)


def _within(plans: Sequence[DepthwisePlan], factor: float) -> list[DepthwisePlan]:
    """The plans that take at most `factor` times the cycles of the fastest."""
    limit = factor * min(p.cycles for p in plans)
    return [p for p in plans if p.cycles <= limit]


class _Search:
    """The candidates of one layer."""

    def __init__(self, layer: DepthwiseLayer, config: NpuConfig, room: Room) -> None:
        self.layer, self.config, self.room = layer, config, room
        self.passes = passes(layer, config.taps)
        self.held_in = layer.input.tensor in room.held
        self.held_out = layer.output.tensor in room.held
        residual = None if layer.residual is None else layer.residual.operand.view
        self.added = None if residual is None or residual.tensor in room.held else residual

    def plans(self) -> Iterator[DepthwisePlan]:
        """Candidates: whole rows if they fit; the smallest possible tile as a last resort."""
        _, oh, ow, c = self.layer.output.shape
        if self.room.streams(self.layer.input, self.config):
            # Whole images, so that the layer follows its input channel by channel.
            cut = [self._sized(oh, ow, tc) for tc in halvings(c, self.config.cols)]
            if any(cut):
                yield from (plan for plan in cut if plan is not None)
                return
        found = False
        for tw in halvings(ow, 1):
            if tw > self.config.acc_bank:
                continue
            for tc in halvings(c, self.config.cols):
                for th in _heights_tried(oh):
                    tiles = -(-oh // th) * -(-ow // tw) * -(-c // tc) * self.layer.output.shape[0]
                    if tiles > MAX_TILES and (found or th < oh):
                        continue
                    plan = self._sized(th, tw, tc)
                    if plan is not None:
                        found = True
                        yield plan
            if found:
                return
        tall = list(self._tall())
        yield from tall
        if tall:
            return
        smallest = self._sized(1, 1, min(c, self.config.cols))
        if smallest is not None:
            yield smallest

    def _tall(self) -> Iterator[DepthwisePlan]:
        """Tiles of few of very many rows, however many tiles that makes."""
        _, oh, ow, c = self.layer.output.shape
        for tw in halvings(ow, 1):
            th = oh if tw <= self.config.acc_bank else 1
            while th > 1:
                th = -(-th // 2)
                plan = self._sized(th, tw, min(c, self.config.cols))
                if plan is not None:
                    yield plan
                    return

    def ramped(self, plan: DepthwisePlan) -> Iterator[DepthwisePlan]:
        """The plan with a low first and last tile."""
        if not self.held_in:
            yield from (self._costed(replace(plan, ramp=r)) for r in RAMPS if r < plan.th)

    def _sized(self, th: int, tw: int, tc: int) -> DepthwisePlan | None:
        """A plan for this tile with as many slots as fit."""
        layer, config = self.layer, self.config
        n, oh, ow, c = layer.output.shape
        _, h, w, _ = layer.input.shape
        kh, kw = layer.kernel
        rows = min(h, (th - 1) * layer.stride[0] + (kh - 1) * layer.dilation[0] + 1)
        cols = min(w, (tw - 1) * layer.stride[1] + (kw - 1) * layer.dilation[1] + 1)
        groups, word = -(-c // tc), config.word_bytes
        tiles = n * -(-oh // th) * -(-ow // tw) * groups
        act, wgt = rows * cols * tc, kh * kw * tc
        out = th * tw * tc * layer.output.item
        res = 0 if self.added is None else th * tw * tc * self.added.item
        act, wgt, out, res = (-(-size // word) * word for size in (act, wgt, out, res))
        act, out = (0 if self.held_in else act), (0 if self.held_out else out)
        # A ramp may cut a single tile in two.
        turns = tiles + (th > 1)
        for ahead in range(min(3, turns), 0, -1):
            act_slots = 0 if self.held_in else ahead
            wgt_slots = groups if self.room.rowwise else min(groups, ahead + 1)
            entries = -(-tc // config.cols) * wgt_slots
            most = config.param_entries // (2 if self.room.rowwise else 1)
            if layer.epilogue.uses_params and entries > most:
                continue
            plan = DepthwisePlan(
                th=th,
                tw=tw,
                tc=tc,
                ahead=ahead,
                held_in=self.held_in,
                held_out=self.held_out,
                shared=self.room.beside,
                rowwise=self.room.rowwise,
                act_slots=act_slots,
                wgt_slots=wgt_slots,
                out_slots=0 if self.held_out else min(2, turns),
                act_bytes=act,
                wgt_bytes=wgt,
                out_bytes=out,
                res_slots=ahead + 1 if res else 0,
                res_bytes=res,
            )
            if plan.spad_bytes <= self.room.buffer_bytes:
                return self._costed(plan)
        return None

    def _costed(self, plan: DepthwisePlan) -> DepthwisePlan:
        layer, config = self.layer, self.config
        bus, item = config.bus_bytes, layer.output.item
        n, oh, ow, c = layer.output.shape
        groups, blocks = -(-c // plan.tc), -(-c // config.cols)
        widths = _pieces(ow, plan.tw)
        images = n * groups
        heights = list(_heights(oh, plan.th, 0, False, False))
        ramped = list(_heights(oh, plan.th, plan.ramp, True, True))
        tiles = (images * len(heights) + len(ramped) - len(heights)) * len(widths)
        row = sum(self._row_cycles(x, min(x + plan.tw, ow)) for x in range(0, ow, plan.tw))
        in_cols = sum(self._extent(1, w) for w in widths)
        in_rows = n * sum(self._extent(0, rows) for rows in heights)
        in_rows += sum(self._extent(0, r) for r in ramped) - sum(
            self._extent(0, r) for r in heights
        )
        per_tile = self._units(plan.th, plan.tw, plan.tc)
        engine = n * oh * row * blocks + UNIT_CYCLES * tiles * per_tile
        fetch = tiles * (per_tile * UNIT_BYTES + TILE_BYTES) + groups * GROUP_BYTES
        once = math.prod(layer.kernel) * layer.output.shape[3]
        if layer.epilogue.uses_params:
            once += blocks * config.param_entry_bytes
        act = 0 if self.held_in else in_rows * in_cols * c
        out = 0 if self.held_out else n * oh * ow * c * item
        if self.added is not None:
            once += n * oh * ow * c * self.added.item
        load = (act + once + fetch) / bus
        if act:
            load += self._run_cycles(plan, in_rows, layer.input.shape[2] == in_cols, tiles)
        store = out / bus
        if out:
            store += self._run_cycles(plan, n * oh, len(widths) == 1, tiles)
        vector = n * oh * ow * blocks + UNIT_CYCLES * tiles * per_tile
        # With few slots a tile is loaded only after an earlier one has been computed.
        turn = (load + engine) / tiles + LATENCY
        loads = load if self.held_in else max(load, tiles * turn / plan.act_slots)
        start = self._start(plan, ramped, widths[0], load / max(1, in_rows * groups))
        last = ramped[-1] * ow * min(plan.tc, c)
        tail = min(last / config.cols, self.config.acc_bank)
        tail += HANDOVER if self.held_out else last * item / bus + 3 * LATENCY
        cycles = max(engine + start, loads + LATENCY + engine / tiles, store, vector) + tail
        return replace(plan, cycles=math.ceil(cycles), traffic=act + once + out + fetch)

    def _row_cycles(self, x0: int, x1: int) -> int:
        """Cycles of the engine for outputs x0…x1 of a row of one channel block.

        Each input column is read once per kernel row; those outside the input cost nothing.
        """
        layer = self.layer
        width, total = layer.input.shape[2], 0
        for p in self.passes:
            first = x0 * layer.stride[1] - layer.pad[1] + p.kw0 * layer.dilation[1]
            reads = range(first, first + p.reads(x1 - x0) * p.step, p.step)
            total += p.rows * sum(0 <= x < width for x in reads)
        return total

    def _extent(self, axis: int, outputs: int) -> int:
        """Input rows (axis 0) or columns that `outputs` read, padding not subtracted."""
        layer = self.layer
        reach = (layer.kernel[axis] - 1) * layer.dilation[axis]
        size = (outputs - 1) * layer.stride[axis] + reach + 1
        return min(size, layer.input.shape[1 + axis])

    def _units(self, th: int, tw: int, tc: int) -> int:
        box = Box(batch=0, y0=0, y1=th, x0=0, x1=tw, c0=0, c1=tc)
        return len(self.passes) * len(list(units(box, self.config.cols, self.config.acc_bank)))

    def _run_cycles(self, plan: DepthwisePlan, rows: int, whole: bool, tiles: int) -> float:
        """Bus cycles lost to runs of less than whole bus words: one each where runs are short."""
        c = self.layer.output.shape[3]
        if plan.tc == c:
            return SPLIT_RUN * (tiles if whole else rows)
        bus = self.config.bus_bytes
        aligned = plan.tc % bus == 0 and c % bus == 0
        pixels = rows * self.layer.input.shape[2] * -(-c // plan.tc)
        return 0.0 if aligned else pixels

    def _start(self, plan: DepthwisePlan, heights: list[int], tw: int, row: float) -> float:
        """Cycles that the engine waits for loads at the beginning. `row`: to load an input row."""
        layer, config = self.layer, self.config
        kh, kw = layer.kernel
        if self.held_in:
            return 0.0
        loaded = LATENCY + (kh * kw * plan.tc + GROUP_BYTES + TILE_BYTES) / config.bus_bytes
        blocks = -(-plan.tc // config.cols)
        done = work = 0.0
        for rows in heights[:8]:
            loaded += self._extent(0, rows) * row
            cycles = rows * self._row_cycles(0, tw) * blocks
            done = max(done, loaded) + cycles
            work += cycles
        return done - work


def _heights_tried(size: int) -> list[int]:
    """Heights that cut `size` nearly equally, largest first."""
    return sorted({-(-size // k) for k in (1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 20, 28, size)})[::-1]


def _pieces(size: int, step: int) -> list[int]:
    return [min(step, size - at) for at in range(0, size, step)]

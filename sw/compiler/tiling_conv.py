"""Tile search for convolutions and matrix products on a simple cost model.

Cycles of a plan: the busiest of the matrix engine, the load bus, the store bus and the vector engine, plus
what cannot overlap (first load, last store). Plans within 1% of the fastest are ranked by bytes moved.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.geometry import ConvGeometry, Part, Tile

LATENCY = 100
"""Cycles from a memory request to its data that the cost model assumes."""

FETCH_BYTES = 640
"""Instruction bytes per column block: MATRIX, VECTOR, STORE and a share of the loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvPlan:
    """How a layer is cut. Output tiles of th x tw; `group` column blocks share loaded weights.

    `parts` cut the reduction. `tiles_outer`: all groups for a tile before the next tile.
    Slots are buffers in rotation; sizes in bytes. `blocked`: activations lie in blocks of `rows`
    channels. `joint`: a group's results are stored together, in full pixels.
    """

    th: int
    tw: int
    group: int
    parts: tuple[Part, ...]
    tiles_outer: bool
    blocked: bool
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
            f"{'tiles' if self.tiles_outer else 'groups'} outer"
            f"{' blocked' if self.blocked else ''}{' joint' if self.joint else ''}; "
            f"act {self.act_slots}x{self.act_bytes} wgt {self.wgt_slots}x{self.wgt_bytes} "
            f"out {self.out_slots}x{self.out_bytes}; {self.cycles} cycles {self.traffic} bytes"
        )


def plan_conv(geo: ConvGeometry, config: NpuConfig) -> ConvPlan:
    """The best plan that fits on chip; `CompileError` if not even the smallest does."""
    best: list[ConvPlan] = []
    for plan in _candidates(geo, config):
        best.append(plan)
    if not best:
        raise CompileError(
            f"no tile of this layer fits in {config.spad_kib} KiB of scratchpad and "
            f"{config.acc_kib} KiB of accumulator",
            node=geo.layer.name,
            source=geo.layer.source,
            hint="use a configuration with more memory",
        )
    fastest = min(p.cycles for p in best)
    close = [p for p in best if p.cycles <= fastest * 1.01]
    return min(close, key=lambda p: (p.traffic, p.cycles))


def _steps(size: int, limit: int) -> list[int]:
    """Tile sizes up to `limit` that cut `size` into k nearly equal pieces, largest first."""
    out: list[int] = []
    pieces = -(-size // limit)
    while True:
        step = -(-size // pieces)
        if not out or step < out[-1]:
            out.append(step)
        if step == 1 or len(out) >= 12:
            break
        pieces = max(pieces + 1, -(-size // (step - 1)) if len(out) > 6 else pieces + 1)
    if out[-1] != 1:
        out.append(1)
    return out


def _parts(geo: ConvGeometry, pieces: int, rows: int) -> tuple[Part, ...]:
    """The reduction in about `pieces` parts: channels in whole array blocks, then kernel rows."""
    kh = geo.kernel[0]
    blocks = -(-geo.c // rows)
    by_c = min(pieces, blocks)
    by_k = min(-(-pieces // by_c), kh)
    step_c = -(-blocks // by_c) * rows
    step_k = -(-kh // by_k)
    return tuple(
        Part(kh0=k, kh1=min(k + step_k, kh), c0=c, c1=min(c + step_c, geo.c))
        for c in range(0, geo.c, step_c)
        for k in range(0, kh, step_k)
    )


def _groups(blocks: int) -> list[int]:
    out = [blocks]
    while out[-1] > 1:
        out.append(-(-out[-1] // 2))
    return out


def _candidates(geo: ConvGeometry, config: NpuConfig) -> Iterator[ConvPlan]:
    blocks = -(-geo.oc // config.cols)
    k_blocks = -(-geo.c // config.rows) * geo.kernel[0]
    found = 0
    pieces = 1
    while pieces <= k_blocks:
        parts = _parts(geo, pieces, config.rows)
        for tw in _steps(geo.ow, config.acc_half):
            for th in _steps(geo.oh, max(1, config.acc_half // tw)):
                for group in _groups(blocks):
                    if len(parts) > 1 and group > 1 and group * th * tw > config.acc_half:
                        continue
                    if geo.layer.epilogue.uses_params and (
                        group < blocks or blocks > config.param_entries
                    ):
                        if group > config.param_entries // 2:
                            continue
                    for tiles_outer in (True, False):
                        for plan in _fit(geo, config, th, tw, group, parts, tiles_outer):
                            found += 1
                            yield plan
        if found:
            return
        pieces += 1


def _fit(
    geo: ConvGeometry,
    config: NpuConfig,
    th: int,
    tw: int,
    group: int,
    parts: tuple[Part, ...],
    tiles_outer: bool,
) -> Iterator[ConvPlan]:
    """Plans with as many buffers in rotation as fit."""
    word = config.word_bytes
    item = geo.output.item
    blocks = -(-geo.oc // config.cols)
    groups = -(-blocks // group)
    block = min(config.cols, geo.oc)
    tiles = list(geo.tiles(th, tw))
    act = max(act_bytes(geo, t, p) for t in _extremes(tiles) for p in parts)
    wgt = group * max(p.channels * p.kernel_rows for p in parts) * geo.kernel[1] * block
    joint = not _aligned(geo, config)
    out = th * tw * item * (min(group * config.cols, geo.oc) if joint else block)
    act, wgt, out = (-(-max(1, b) // word) * word for b in (act, wgt, out))
    act_keys = len(tiles) * len(parts)
    wgt_keys = groups * len(parts) * (geo.n if geo.layer.weight_view else 1)
    blocked = (
        geo.c % config.rows == 0
        and config.rows % config.bus_bytes == 0
        and all(s % config.bus_bytes == 0 for s in (*geo.input.strides, geo.input.offset))
        and geo.c > config.rows
    )
    for act_slots in {act_keys, min(2, act_keys), 1}:
        for wgt_slots in {wgt_keys, min(2, wgt_keys), 1}:
            for out_slots in (3, 2, 1):
                if act_slots * act + wgt_slots * wgt + out_slots * out <= config.spad_bytes:
                    plan = ConvPlan(
                        th=th,
                        tw=tw,
                        group=group,
                        parts=parts,
                        tiles_outer=tiles_outer,
                        blocked=blocked,
                        joint=joint,
                        act_slots=act_slots,
                        wgt_slots=wgt_slots,
                        out_slots=out_slots,
                        act_bytes=act,
                        wgt_bytes=wgt,
                        out_bytes=out,
                    )
                    yield _costed(plan, geo, config, tiles)
                    break


def _aligned(geo: ConvGeometry, config: NpuConfig) -> bool:
    """Whether the results of one column block can be stored without partial bus words."""
    item, bus = geo.output.item, config.bus_bytes
    strides = (*geo.output.strides, geo.output.offset, config.cols * item)
    return geo.oc <= config.cols or all(s % bus == 0 for s in strides)


def _extremes(tiles: list[Tile]) -> list[Tile]:
    """Tiles among which the one that reads most is to be found."""
    return tiles if len(tiles) <= 64 else tiles[:64] + tiles[-2:]


def act_bytes(geo: ConvGeometry, tile: Tile, part: Part) -> int:
    """Scratchpad bytes of the input that `tile` reads for `part`."""
    y0, y1 = geo.input_rows(tile.y0, tile.y1, part)
    x0, x1 = geo.input_cols(tile.x0, tile.x1)
    return (y1 - y0) * (x1 - x0) * part.channels


def _costed(plan: ConvPlan, geo: ConvGeometry, config: NpuConfig, tiles: list[Tile]) -> ConvPlan:
    blocks = -(-geo.oc // config.cols)
    groups = -(-blocks // plan.group)
    many = len(plan.parts)
    kw = geo.kernel[1]
    folds = sum(-(-p.channels // config.rows) * p.kernel_rows * kw for p in plan.parts)
    matrix = sum(max(t.vectors, config.rows) for t in tiles) * folds * blocks
    act_once = sum(act_bytes(geo, t, p) for t in tiles for p in plan.parts)
    wgt_once = geo.oc * geo.c * geo.kernel[0] * kw
    if geo.layer.weight_view is not None:
        wgt_once *= geo.n
    keep_act = plan.act_slots >= len(tiles) * many or (plan.tiles_outer and many == 1)
    keep_wgt = plan.wgt_slots >= groups * many * (geo.n if geo.layer.weight_view else 1) or (
        not plan.tiles_outer and many == 1
    )
    images = geo.n if geo.layer.weight_view is not None else 1
    act_traffic = act_once * (1 if keep_act else groups)
    wgt_traffic = wgt_once * (1 if keep_wgt else len(tiles) // images)
    out_traffic = geo.n * geo.oh * geo.ow * geo.oc * geo.output.item
    bus = config.bus_bytes
    units = len(tiles) * blocks * many
    fetch = units * FETCH_BYTES
    load = (act_traffic + wgt_traffic + fetch) / bus
    store = out_traffic / bus
    vector = sum(t.vectors for t in tiles) * blocks
    single = (plan.act_slots == 1 and not (keep_act and len(tiles) * many == 1)) + (
        plan.wgt_slots == 1 and groups * many > 1
    )
    serial = load * 0.5 * single
    first = act_bytes(geo, tiles[0], plan.parts[0]) / bus
    first += (
        plan.parts[0].channels * plan.parts[0].kernel_rows * kw * min(config.cols, geo.oc) / bus
    )
    if plan.blocked:
        first /= max(1, plan.parts[0].channels // config.rows)
    last = 2 * tiles[-1].vectors + 3 * LATENCY
    overhead = 5 * units + 40 * (3 - plan.out_slots)
    cycles = max(matrix, load, store, vector) + serial + first + last + overhead
    return _with_cost(plan, math.ceil(cycles), act_traffic + wgt_traffic + out_traffic)


def _with_cost(plan: ConvPlan, cycles: int, traffic: int) -> ConvPlan:
    from dataclasses import replace

    return replace(plan, cycles=cycles, traffic=traffic)

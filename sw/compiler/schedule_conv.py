"""Schedule of a ConvLayer: tiles x column groups x reduction parts, with rotating buffers.

Each column block of a tile is one MATRIX instruction (per part) and one VECTOR; halves of the accumulator
alternate, so the epilogue of one block runs under the next. The first MATRIX that reads freshly loaded
activations waits for them block by block; weights of the first column block are loaded ahead of everything.
"""

from collections import deque
from dataclasses import dataclass

from spec.config import NpuConfig
from spec.isa import Alu, Opcode, Scale, Space
from sw.compiler.constants import pack_weights
from sw.compiler.dma import bounding, load_box, store_box
from sw.compiler.draft import Access, Buffer, Place
from sw.compiler.emitter import LayerEmitter, Resources
from sw.compiler.geometry import ConvGeometry, Part, Tile
from sw.compiler.slots import Slots
from sw.compiler.tiling_conv import ConvPlan

MAX_SLICES = 48
"""Slices of one load that are waited for singly: keeps semaphore counts far from their maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One (tile, column group, part): what one set of loaded buffers serves."""

    tile: Tile
    group: int
    part: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One column block of a step: `block` of the layer, in the group, with its accumulator place."""

    step: Step
    block: int
    in_group: int
    acc: int
    last: bool


class ConvScheduler(LayerEmitter):
    """Emits the nodes of one layer into a draft."""

    def __init__(
        self, geo: ConvGeometry, plan: ConvPlan, config: NpuConfig, res: Resources, index: int
    ) -> None:
        super().__init__(geo.layer.name, geo.layer.epilogue, config, res, index)
        self.geo, self.plan, self.layer = geo, plan, geo.layer
        self.blocks = -(-geo.oc // config.cols)
        self.groups = -(-self.blocks // plan.group)
        self.act = self.slots("act", Place.SPAD, plan.act_slots, plan.act_bytes)
        self.wgt = self.slots("wgt", Place.SPAD, plan.wgt_slots, plan.wgt_bytes)
        self.out = self.slots("out", Place.SPAD, plan.out_slots, plan.out_bytes)
        self.params: Slots | None = None
        if self.layer.epilogue.uses_params:
            self.params = self.slots("param", Place.PARAM, min(2, self.groups), plan.group)
        self.fresh_act: set[int] = set()
        self.halves = 0
        self.pending: deque[Unit] = deque()

    # Order ------------------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        """Every step in execution order; the parts of an accumulation are neighbours."""
        tiles = list(self.geo.tiles(self.plan.th, self.plan.tw))
        parts = range(len(self.plan.parts))
        groups = range(self.groups)
        if self.plan.tiles_outer:
            return [Step(tile=t, group=g, part=p) for t in tiles for g in groups for p in parts]
        images: dict[int, list[Tile]] = {}
        for tile in tiles:
            # Run-time weights differ from image to image: finish one before the next.
            key = tile.batch if self.layer.weight_view is not None else 0
            images.setdefault(key, []).append(tile)
        return [
            Step(tile=t, group=g, part=p)
            for image in images.values()
            for g in groups
            for t in image
            for p in parts
        ]

    def run(self) -> None:
        """Emit the whole layer."""
        self.load_table()
        steps = self.steps()
        for i, step in enumerate(steps):
            self._load(step, pinned=None)
            for unit in self._units(step):
                self._matrix(unit)
                while self.pending:
                    self._finish(self.pending.popleft())
                if unit.in_group == 0 and i + 1 < len(steps):
                    self._load(steps[i + 1], pinned=step)
                if unit.last:
                    self.pending.append(unit)
        while self.pending:
            self._finish(self.pending.popleft())

    def _units(self, step: Step) -> list[Unit]:
        """The column blocks of a step. A half holds one block, or a group where parts accumulate."""
        first = step.group * self.plan.group
        blocks = range(first, min(first + self.plan.group, self.blocks))
        many = len(self.plan.parts) > 1
        out = []
        for i, block in enumerate(blocks):
            if (step.part == 0) and (i == 0 or not many):
                self.halves += 1
            base = (self.halves - 1) % 2 * self.config.acc_half
            out.append(
                Unit(
                    step=step,
                    block=block,
                    in_group=i,
                    acc=base + (i * step.tile.vectors if many else 0),
                    last=step.part == len(self.plan.parts) - 1,
                )
            )
        return out

    # Loads ------------------------------------------------------------------------------------

    def _load(self, step: Step, pinned: Step | None) -> None:
        """Load what `step` needs and no slot holds; with `pinned`, only where no slot in use is lost."""
        wgt, new_wgt = self.wgt.get(self._wgt_key(step), pinned and self._wgt_key(pinned))
        act, new_act = self.act.get(self._act_key(step), pinned and self._act_key(pinned))
        param, new_param = None, False
        if self.params is not None:
            param, new_param = self.params.get(step.group, None if pinned is None else pinned.group)
        blocks = self._group_blocks(step.group)
        if wgt is not None and new_wgt:
            self._load_weights(step, wgt, 0, 1)
        if act is not None and new_act:
            self._load_act(step, act)
        if param is not None and new_param:
            self.load_params(*self._channels(step.group), param)
        if wgt is not None and new_wgt and blocks > 1:
            self._load_weights(step, wgt, 1, blocks)

    def _wgt_key(self, step: Step) -> tuple[int, int, int]:
        batch = step.tile.batch if self.layer.weight_view is not None else 0
        return batch, step.group, step.part

    def _act_key(self, step: Step) -> tuple[Tile, Part]:
        return step.tile, self.plan.parts[step.part]

    def _group_blocks(self, group: int) -> int:
        return min(self.plan.group, self.blocks - group * self.plan.group)

    def _channels(self, group: int) -> tuple[int, int]:
        """The output channels of a group."""
        first = group * self.plan.group * self.config.cols
        return first, min(first + self.plan.group * self.config.cols, self.geo.oc)

    def _width(self, block: int) -> int:
        return min(self.config.cols, self.geo.oc - block * self.config.cols)

    def _block_bytes(self, block: int, part: Part) -> int:
        return part.channels * part.kernel_rows * self.geo.kernel[1] * self._width(block)

    def _load_weights(self, step: Step, slot: Buffer, first: int, stop: int) -> None:
        """Column blocks first…stop of the step's group; a narrower last block separately."""
        base = step.group * self.plan.group
        part = self.plan.parts[step.part]
        full = [b for b in range(base + first, base + stop) if self._width(b) == self.config.cols]
        rest = [b for b in range(base + first, base + stop) if self._width(b) < self.config.cols]
        for piece in [full[i : i + MAX_SLICES] for i in range(0, len(full), MAX_SLICES)] + [rest]:
            if piece:
                self._load_weight_run(step, slot, part, piece, piece[0] - base)

    def _load_weight_run(
        self, step: Step, slot: Buffer, part: Part, blocks: list[int], at: int
    ) -> None:
        size = self._block_bytes(blocks[0], part)
        chip = at * self._block_bytes(blocks[0] - at, part)
        cols, width = self.config.cols, self._width(blocks[0])
        view = self.layer.weight_view
        if view is None:
            assert self.layer.weights is not None
            o0 = blocks[0] * cols
            data = pack_weights(
                self.layer.weights, part, o0, min(o0 + len(blocks) * cols, self.geo.oc), cols
            )
            source, mem = self.res.constants.buffer, self.res.constants.add(data)
            loops = [{"count": len(blocks), "mem": size, "chip": size}]
            run, span = size, (mem, mem + len(data))
        else:
            source = self.res.tensors[view.tensor]
            row = view.strides[1]
            mem = view.offset + step.tile.batch * view.strides[0]
            mem += part.c0 * row + blocks[0] * cols
            loops = [
                {"count": len(blocks), "mem": cols, "chip": size},
                {"count": part.channels, "mem": row, "chip": width},
            ]
            run, span = width, (mem, mem + bounding(loops, "mem", width))
        accesses = [Access(buffer=source, start=span[0], stop=span[1], write=False)]
        for i in range(len(blocks)):
            start = chip + i * size
            level = 1 if len(blocks) > 1 else 0
            accesses.append(
                Access(
                    buffer=slot,
                    start=start,
                    stop=start + size,
                    write=True,
                    level=level,
                    iteration=i,
                )
            )
        self.node(
            Opcode.LOAD,
            {"mem_base": mem, "chip_base": chip, "run": run, "space": Space.SPAD, "loop": loops},
            {"mem_base": source, "chip_base": slot},
            accesses,
            f"weights {blocks[0]}+{len(blocks)}",
        )

    def _load_act(self, step: Step, slot: Buffer) -> None:
        part, tile, view = self.plan.parts[step.part], step.tile, self.geo.input
        y0, y1 = self.geo.input_rows(tile.y0, tile.y1, part)
        x0, x1 = self.geo.input_cols(tile.x0, tile.x1)
        if y1 == y0 or x1 == x0:
            return
        source = self.res.tensors[view.tensor]
        mem = view.offset + tile.batch * view.strides[0] + y0 * view.strides[1]
        mem += x0 * view.strides[2] + part.c0
        rows, cols = y1 - y0, x1 - x0
        if not self.plan.blocked:
            box = [(rows, view.strides[1], cols * part.channels)]
            box += [(cols, view.strides[2], part.channels)]
            run, loops = load_box(box, part.channels)
            slices = 1
        else:
            r = self.config.rows
            plane = rows * cols * r
            box = [(part.channels // r, r, plane), (rows, view.strides[1], cols * r)]
            box += [(cols, view.strides[2], r)]
            run, loops = load_box(box, r, keep_outer=True)
            slices = part.channels // r
        size = rows * cols * part.channels // slices
        sliced = 1 < slices <= MAX_SLICES
        stop = mem + bounding(loops, "mem", run)
        accesses = [Access(buffer=source, start=mem, stop=stop, write=False)]
        for i in range(slices if sliced else 1):
            accesses.append(
                Access(
                    buffer=slot,
                    start=i * size if sliced else 0,
                    stop=(i + 1) * size if sliced else size * slices,
                    write=True,
                    level=1 if sliced else 0,
                    iteration=i,
                )
            )
        self.fresh_act.add(id(slot))
        self.node(
            Opcode.LOAD,
            {"mem_base": mem, "chip_base": 0, "run": run, "space": Space.SPAD, "loop": loops},
            {"mem_base": source, "chip_base": slot},
            accesses,
            f"act y{tile.y0} x{tile.x0} c{part.c0}",
        )

    # Compute ----------------------------------------------------------------------------------

    def _matrix(self, unit: Unit) -> None:
        step, layer, geo = unit.step, self.layer, self.geo
        tile, part = step.tile, self.plan.parts[step.part]
        act, _ = self.act.get(self._act_key(step), None)
        wgt, _ = self.wgt.get(self._wgt_key(step), None)
        assert act is not None and wgt is not None
        y0, y1 = geo.input_rows(tile.y0, tile.y1, part)
        x0, x1 = geo.input_cols(tile.x0, tile.x1)
        rows, cols = y1 - y0, x1 - x0
        r = self.config.rows
        blocks = -(-part.channels // r)
        blocked = self.plan.blocked
        pixel = r if blocked else part.channels
        line = cols * pixel
        (sy, sx), (dy, dx) = layer.stride, layer.dilation
        origin_y = tile.y0 * sy - layer.pad[0] + part.kh0 * dy
        origin_x = tile.x0 * sx - layer.pad[1]
        width = self._width(unit.block)
        tap = geo.kernel[1] * width
        plane = rows * line if blocked else r
        channel = part.kernel_rows * tap
        bounds = geo.bounds
        k_kh = {"count": part.kernel_rows, "act": dy * line, "wgt": tap, "dy": dy if bounds else 0}
        k_kw = {"count": geo.kernel[1], "act": dx * pixel, "wgt": width, "dx": dx if bounds else 0}
        k_cb = {"count": blocks, "act": plane, "wgt": r * channel}
        m_y = {"count": tile.rows, "act": sy * line, "acc": tile.cols, "dy": sy if bounds else 0}
        m_x = {"count": tile.cols, "act": sx * pixel, "acc": 1, "dx": sx if bounds else 0}
        order = [k_cb, k_kh, k_kw] if blocked else [k_kh, k_kw, k_cb]
        row_loop = order.index(k_cb)
        at = unit.in_group * self._block_bytes(step.group * self.plan.group, part)
        values = {
            "act_base": (origin_y - y0) * line + (origin_x - x0) * pixel,
            "wgt_base": at,
            "wgt_row": channel,
            "acc_base": unit.acc,
            "y0": origin_y if bounds else 0,
            "x0": origin_x if bounds else 0,
            "height": geo.h if bounds else 1,
            "width": geo.w if bounds else 1,
            "act_zp": layer.input_zp,
            "wgt_zp": layer.weight_zp,
            "fold_loops": 3,
            "k_loops": 0b111,
            "accumulate": int(step.part > 0),
            "row_loop": row_loop,
            "rows": min(r, part.channels),
            "rows_last": part.channels - (blocks - 1) * r,
            "cols": width,
            "cols_last": width,
            "loop": [*order, m_y, m_x],
        }
        accesses = self._act_reads(act, rows * cols * part.channels, blocks, step)
        size = self._block_bytes(unit.block, part)
        accesses += [
            Access(buffer=wgt, start=at, stop=at + size, write=False, weights=True),
            Access(buffer=self.res.acc, start=unit.acc, stop=unit.acc + tile.vectors, write=True),
        ]
        self.node(
            Opcode.MATRIX,
            values,
            {"act_base": act, "wgt_base": wgt, "acc_base": self.res.acc},
            accesses,
            f"block {unit.block} y{tile.y0} x{tile.x0} part {step.part}",
        )

    def _act_reads(self, act: Buffer, size: int, blocks: int, step: Step) -> list[Access]:
        """The activations as one piece, or block by block for the first reader of a fresh load."""
        if size == 0:
            return []
        whole = Access(buffer=act, start=0, stop=size, write=False)
        if not self.plan.blocked or not 1 < blocks <= MAX_SLICES or id(act) not in self.fresh_act:
            return [whole]
        self.fresh_act.discard(id(act))
        one = size // blocks
        return [
            Access(buffer=act, start=i * one, stop=(i + 1) * one, write=False, level=1, iteration=i)
            for i in range(blocks)
        ]

    def _finish(self, unit: Unit) -> None:
        """The epilogue of a finished column block, and the store when its pixels are complete."""
        tile, group = unit.step.tile, unit.step.group
        blocks = self._group_blocks(group)
        item = self.geo.output.item
        joint = self.plan.joint
        first = group * self.plan.group
        wide = min(blocks * self.config.cols, self.geo.oc - first * self.config.cols)
        pixel = (wide if joint else self._width(unit.block)) * item
        key = (tile, group, 0 if joint else unit.block)
        out, _ = self.out.get(key, None)
        assert out is not None
        self._vector(unit, out, pixel, unit.in_group * self.config.cols * item if joint else 0)
        if not joint:
            self._store(unit, out, unit.block * self.config.cols, self._width(unit.block))
        elif unit.in_group == blocks - 1:
            self._store(unit, out, first * self.config.cols, wide)

    def _vector(self, unit: Unit, out: Buffer, pixel: int, at: int) -> None:
        tile, epilogue = unit.step.tile, self.layer.epilogue
        lanes = self._width(unit.block)
        count = tile.vectors
        item = self.geo.output.item
        values = {
            "a_space": Space.ACC,
            "a_type": 4,
            "a_base": unit.acc,
            "alu": Alu.PASS,
            "bias": int(epilogue.bias is not None and epilogue.bias.any()),
            "a_scale": epilogue.scale,
            "o_zp": epilogue.zero_point,
            "o_min": epilogue.low,
            "o_max": epilogue.high,
            "table": int(epilogue.table is not None),
            "o_space": Space.SPAD,
            "o_type": epilogue.dtype,
            "o_base": at,
            "lanes": lanes,
            "lanes_last": lanes,
            "loop": [{"count": count, "a": 1, "o": pixel}],
        }
        if epilogue.scale is Scale.TENSOR:
            assert epilogue.multiplier is not None and epilogue.shift is not None
            values |= {"a_mult": int(epilogue.multiplier[0]), "a_shift": int(epilogue.shift[0])}
        bases = {"a_base": self.res.acc, "o_base": out}
        stop = at + (count - 1) * pixel + lanes * item
        accesses = [
            Access(buffer=self.res.acc, start=unit.acc, stop=unit.acc + count, write=False),
            Access(buffer=out, start=at, stop=stop, write=True),
        ]
        if self.params is not None:
            slot, _ = self.params.get(unit.step.group, None)
            assert slot is not None
            values["param_base"] = unit.in_group
            bases["param_base"] = slot
            entry = unit.in_group
            accesses.append(Access(buffer=slot, start=entry, stop=entry + 1, write=False))
        accesses += self.table_reads()
        self.node(Opcode.VECTOR, values, bases, accesses, f"block {unit.block} y{tile.y0}")

    def _store(self, unit: Unit, out: Buffer, channel: int, channels: int) -> None:
        tile, view = unit.step.tile, self.geo.output
        mem = view.offset + tile.batch * view.strides[0] + tile.y0 * view.strides[1]
        mem += tile.x0 * view.strides[2] + channel * view.item
        pixel = channels * view.item
        box = [(tile.rows, view.strides[1], tile.cols * pixel), (tile.cols, view.strides[2], pixel)]
        node = store_box(self.res.tensors[view.tensor], mem, out, box, pixel)
        self.append(node, f"store y{tile.y0} x{tile.x0} c{channel}")

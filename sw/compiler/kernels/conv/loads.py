"""Loads of a convolution: weights, activations and parameters into rotating slots.

Order within a step: weights of the first column block, activations, parameters, the other weights.
The first MATRIX can start as soon as the first two are there.
"""

from collections.abc import Hashable
from dataclasses import replace

from sw.compiler.kernels.boxes import Box, Tile
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.conv.geometry import ConvGeometry, KTile, Packing
from sw.compiler.kernels.conv.plan import MAX_SLICES, ConvPlan
from sw.compiler.kernels.conv.steps import ConvStep, Unit
from sw.compiler.kernels.conv.weights import pack_weights
from sw.compiler.kernels.conv.window_loads import window_moves
from sw.compiler.kernels.dma import load_box, memory_extent
from sw.compiler.kernels.emitter import EpilogueEmitter, touch
from sw.compiler.kernels.slots import Slots
from sw.compiler.machine.costs import weight_cycles
from sw.compiler.program.records import DmaLoop, Load
from sw.compiler.program.virtual import Access, Buffer, Place

LONGEST = 512
"""Bus words of a LOAD of weights, or a column block: those of TABLEs and parameters that are wanted
sooner wait for it, and it waits for room for all that it writes.
"""


class ConvLoads(EpilogueEmitter):
    """The rotating buffers of one ConvLayer and the LOADs that fill them."""

    def __init__(self, geo: ConvGeometry, plan: ConvPlan, context: EmitContext) -> None:
        super().__init__(geo.layer.name, geo.layer.epilogue, context)
        config = context.config
        self.geo, self.plan, self.layer = geo, plan, geo.layer
        self.held = context.held(geo.input)
        self.kept = context.tensors[self.layer.common] if plan.held_wgt else None
        self.act = self.slots("act", Place.SPAD, plan.act_slots, plan.act_bytes)
        self.wgt = self.slots("wgt", Place.SPAD, plan.wgt_slots, plan.wgt_bytes)
        self.params: Slots | None = None
        if entries := len(self.layer.epilogue.param_passes):
            n_tiles = -(-geo.oc // (plan.tile_n * config.cols))
            self.params = self.slots("param", Place.PARAM, min(2, n_tiles), entries * plan.tile_n)
        self.fresh: set[Hashable] = set()
        self.parts: dict[Hashable, int] = {}
        self.seen: set[Hashable] = set()
        self.sliced = False

    # Sizes ------------------------------------------------------------------------------------

    @property
    def outer_loops(self) -> int:
        """Loops of a MATRIX around those of a column block: none where it loops over samples."""
        return int(self.geo.stacked == 1)

    def width(self, block: int) -> int:
        """Output channels of a column block."""
        return min(self.config.cols, self.geo.oc - block * self.config.cols)

    def block_bytes(self, block: int, k_tile: KTile) -> int:
        """Weight bytes of a column block over `k_tile`."""
        return k_tile.channels * k_tile.kernel_rows * self.geo.kernel[1] * self.width(block)

    def abreast(self, step: ConvStep, block: int) -> int:
        """Column blocks that lie side by side in each row of weights, of which `block` is one."""
        if not self.plan.abreast or self.width(block) < self.config.cols:
            return 1
        return min(step.stop, self.geo.oc // self.config.cols) - step.first

    def columns(self, k_tile: KTile, width: int) -> tuple[int, int]:
        """Transposed weights: bytes between columns of a block, and between channel blocks.

        Where the first step has a prologue, every block of channels lies by itself, so that pieces
        are contiguous.
        """
        rows = self.config.rows
        return (rows, rows * width) if self.plan.prologue else (k_tile.channels, rows)

    def act_box(self, tile: Tile, k_tile: KTile) -> tuple[int, int, int, int]:
        """(y0, y1, x0, x1) of the input that a tile holds."""
        return (
            *self.geo.input_rows(tile.y0, tile.y1, k_tile),
            *self.geo.input_cols(tile.x0, tile.x1),
        )

    @property
    def block_level(self) -> int:
        """Level of a MATRIX's steps that read a block of channels, where each block comes once."""
        return 1 + self.outer_loops

    # Slots ------------------------------------------------------------------------------------

    def _wgt_key(self, step: ConvStep) -> tuple[int, int, KTile]:
        batch = step.tile.batch if self.layer.weights_by_image else 0
        return batch, step.n_tile, step.k_tile

    def weights_of(self, step: ConvStep) -> Buffer:
        """The slot with the step's weights, which must have been loaded; or where they stay."""
        if self.kept is not None:
            return self.kept
        return _held(self.wgt.get(self._wgt_key(step), None))

    def act_of(self, step: ConvStep) -> Buffer:
        """The tensor on chip, or the slot with the step's activations, once they were loaded."""
        if self.held is not None:
            return self.held
        return _held(self.act.get((step.tile, step.k_tile), None))

    def params_of(self, step: ConvStep) -> Buffer | None:
        """The slot with the step's parameter entries, if the layer has any."""
        return None if self.params is None else _held(self.params.get(step.n_tile, None))

    def load(self, step: ConvStep, pinned: ConvStep | None, sliced: bool, parts: int = 1) -> None:
        """Load what `step` needs and no slot holds; slots that `pinned` uses are left alone.

        `sliced`: the first MATRIX that reads the activations waits for them block by block, and for
        the first of them in `parts` of their rows.
        """
        self.sliced = sliced
        wgt = self._fresh_weights(step, pinned)
        act = param = None
        if self.held is None:
            key = pinned and (pinned.tile, pinned.k_tile)
            act = self._fresh(self.act, (step.tile, step.k_tile), key)
        elif sliced:
            # Nothing is loaded, but the first read follows the tensor's writer.
            self.fresh |= {(step.tile, p) for p in step.pieces} - self.seen
            self.seen |= self.fresh
        if self.params is not None and step.closes:
            param = self._fresh(self.params, step.n_tile, pinned and pinned.n_tile)
        blocks = list(step.blocks)
        # One instruction for all blocks leaves nothing to start earlier.
        few = self.plan.th * self.plan.tw < weight_cycles(self.config)
        early = 0 if (few and self.plan.unroll == self.plan.tile_n) or self.plan.abreast else 1
        for piece in step.pieces:
            # Nor does one for all blocks of a piece that is not the first.
            short = piece != step.pieces[0] and step.is_short(piece, self.config.rows)
            first, rest = ([], blocks) if short else (blocks[:early], blocks[early:])
            if wgt is not None:
                self._load_weights(step, wgt, piece, first)
            if act is not None:
                self._load_act(step, act, piece, parts if piece == step.pieces[0] else 1)
            if param is not None and piece == step.pieces[-1]:
                o1 = min(step.stop * self.config.cols, self.geo.oc)
                self.load_params(step.first * self.config.cols, o1, param)
            if wgt is not None:
                self._load_weights(step, wgt, piece, rest)

    def _fresh_weights(self, step: ConvStep, pinned: ConvStep | None) -> Buffer | None:
        """Where the step's weights must be loaded, if they are not there."""
        if self.kept is None:
            return self._fresh(self.wgt, self._wgt_key(step), pinned and self._wgt_key(pinned))
        loaded = self.context.virtual.kept
        if self.layer.common in loaded:
            return None
        loaded.add(self.layer.common)
        return self.kept

    def _fresh(self, slots: Slots, key: Hashable, pinned: Hashable | None) -> Buffer | None:
        """The buffer that is new to `key` and must be loaded; None if there is nothing to load."""
        slot, fresh = slots.get(key, pinned)
        return slot if fresh else None

    # Weights ----------------------------------------------------------------------------------

    def _load_weights(self, step: ConvStep, slot: Buffer, piece: KTile, blocks: list[int]) -> None:
        """`piece` of some column blocks; a narrower last block separately."""
        full = [b for b in blocks if self.width(b) == self.config.cols]
        narrow = [b for b in blocks if self.width(b) < self.config.cols]
        if self.plan.abreast:
            self._load_rows(step, slot, piece, full)
            full = []
        longest = self._longest(step, piece)
        runs = [full[at : at + longest] for at in range(0, len(full), longest)]
        for run in (*runs, narrow):
            if run:
                self._load_weight_run(step, slot, piece, run, full)

    def _longest(self, step: ConvStep, piece: KTile) -> int:
        """The most column blocks of `piece` that one LOAD brings."""
        words = self.block_bytes(step.first, piece) / self.config.bus_bytes
        # Slices are posted one by one: more than MAX_SLICES would fill a semaphore's counter.
        return max(1, min(MAX_SLICES, int(LONGEST / words)))

    def _load_rows(self, step: ConvStep, slot: Buffer, piece: KTile, blocks: list[int]) -> None:
        """`piece` of neighbouring column blocks, each of its rows as one run."""
        view, taps, rows = self.layer.weight_view, self.geo.kernel[1], piece.kernel_rows
        if not blocks:
            return
        assert view is not None
        source = self.context.tensors[view.tensor]
        line = len(blocks) * self.config.cols
        mem = view.offset + piece.c0 * view.strides[1] + blocks[0] * self.config.cols
        if self.layer.weights_by_image:
            mem += step.tile.batch * view.strides[0]
        mem += piece.kh0 * self.layer.weight_row
        box = [
            (piece.channels, view.strides[1], rows * taps * line),
            (rows, self.layer.weight_row, taps * line),
            (taps, view.strides[2], line),
        ]
        run, loops = load_box(box, line)
        pixel = rows * taps * line
        chip = (piece.c0 - step.k_tile.c0) * pixel
        stop = mem + memory_extent(loops, run)
        self.append(
            Load(mem_base=mem, chip_base=chip, run=run, loop=loops),
            {"mem_base": source, "chip_base": slot},
            [
                Access(buffer=source, start=mem, stop=stop, write=False),
                Access(buffer=slot, start=chip, stop=chip + piece.channels * pixel, write=True),
            ],
            f"weights {blocks[0]}+{len(blocks)} c{piece.c0}",
        )

    def _load_weight_run(
        self, step: ConvStep, slot: Buffer, piece: KTile, blocks: list[int], full: list[int]
    ) -> None:
        """`piece` of some column blocks; `full`: those with which they lie in the constants."""
        k_tile, cols, width = step.k_tile, self.config.cols, self.width(blocks[0])
        whole = self.block_bytes(blocks[0], k_tile)
        size = self.block_bytes(blocks[0], piece)
        skipped = (piece.c0 - k_tile.c0) * k_tile.kernel_rows * self.geo.kernel[1] * width
        chip = (blocks[0] - step.first) * self.block_bytes(step.first, k_tile) + skipped
        view = self.layer.weight_view
        if view is not None and self.layer.transposed:
            source = self.context.tensors[view.tensor]
            column = view.strides[1]
            mem = view.offset + piece.c0 + blocks[0] * cols * column
            if self.layer.weights_by_image:
                mem += step.tile.batch * view.strides[0]
            vector, inner = self.columns(piece, width)
            run = min(vector, piece.channels)
            box = [
                (len(blocks), cols * column, whole),
                (piece.channels // run, run, inner),
                (width, column, vector),
            ]
            run, loops = load_box(box, run, keep_outer=True)
        elif view is None:
            weights = self.geo.weights
            assert weights is not None
            together = full if blocks[0] in full else blocks
            o0 = together[0] * cols
            o1 = min(o0 + len(together) * cols, self.geo.oc)
            data = pack_weights(weights, k_tile, o0, o1, cols)
            source = self.context.constants.buffer
            mem = self.context.constants.add(data) + skipped
            mem += (blocks[0] - together[0]) * whole
            loops = [DmaLoop(count=len(blocks), mem=whole, chip=whole)]
            run = size
        else:
            source = self.context.tensors[view.tensor]
            row = view.strides[1]
            mem = view.offset + piece.c0 * row + blocks[0] * cols
            if self.layer.weights_by_image:
                mem += step.tile.batch * view.strides[0]
            mem += piece.kh0 * self.layer.weight_row
            taps = self.geo.kernel[1]
            box = [
                (len(blocks), cols, whole),
                (piece.channels, row, piece.kernel_rows * taps * width),
                (piece.kernel_rows, self.layer.weight_row, taps * width),
                (taps, view.strides[2], width),
            ]
            run, loops = load_box(box, width, keep_outer=True)
        accesses = [
            Access(buffer=source, start=mem, stop=mem + memory_extent(loops, run), write=False)
        ]
        sliced = 1 < len(blocks) <= MAX_SLICES
        accesses += [
            Access(
                buffer=slot,
                start=chip + i * whole,
                stop=chip + i * whole + size,
                write=True,
                level=1 if sliced else 0,
                iteration=i if sliced else 0,
            )
            for i in range(len(blocks))
        ]
        self.append(
            Load(mem_base=mem, chip_base=chip, run=run, loop=loops),
            {"mem_base": source, "chip_base": slot},
            accesses,
            f"weights {blocks[0]}+{len(blocks)} c{piece.c0}",
        )

    # Activations ------------------------------------------------------------------------------

    def _load_act(self, step: ConvStep, slot: Buffer, piece: KTile, parts: int) -> None:
        if self.geo.packing is Packing.WINDOWS:
            self._load_windows(step, slot, parts)
            return
        tile, view = step.tile, self.geo.input
        y0, y1, x0, x1 = self.act_box(tile, piece)
        rows, cols = y1 - y0, x1 - x0
        if rows == 0 or cols == 0:
            return
        source = self.context.tensors[view.tensor]
        mem = view.offset + tile.batch * view.strides[0] + y0 * view.strides[1]
        if self.geo.packing is Packing.ROWS:
            x0, x1 = self._fill_sides(step, slot, rows)
            if x0 == x1:
                return
        mem += x0 * view.strides[2] + piece.c0 * (self.geo.packing is Packing.NONE)
        if self.plan.blocked:
            r = self.config.rows
            slices = piece.channels // r
            plane = rows * cols * r
            box = [(slices, r, plane), (rows, view.strides[1], cols * r)]
            box += [(cols, view.strides[2], r)]
            pixel, chip = r, (piece.c0 - step.k_tile.c0) // r * plane
        else:
            pixel = self.geo.stored(piece)
            box = [(rows, view.strides[1], cols * pixel), (x1 - x0, view.strides[2], pixel)]
            slices, plane = 1, rows * cols * pixel
            chip = (x0 - self.act_box(tile, piece)[2]) * pixel
        if parts > 1:
            # One channel block, row by row: parts of its rows take the place of the blocks.
            part = rows // parts
            box = [
                (parts, part * view.strides[1], part * cols * pixel),
                (part, view.strides[1], cols * pixel),
                (cols, view.strides[2], pixel),
            ]
            slices, plane = parts, part * cols * pixel
        run, loops = load_box(box, pixel, keep_outer=self.plan.blocked or parts > 1)
        sliced = self.sliced and 1 < slices <= MAX_SLICES
        count = slices if sliced else 1
        size = plane * slices // count
        start = chip if self.plan.blocked else 0
        accesses = [
            Access(buffer=source, start=mem, stop=mem + memory_extent(loops, run), write=False)
        ]
        accesses += [
            Access(
                buffer=slot,
                start=start + i * size,
                stop=start + (i + 1) * size,
                write=True,
                level=1 if sliced else 0,
                iteration=i,
            )
            for i in range(count)
        ]
        if sliced:
            self.fresh.add((id(slot), piece.c0))
            self.parts[id(slot), piece.c0] = parts
        self.append(
            Load(mem_base=mem, chip_base=chip, run=run, loop=loops),
            {"mem_base": source, "chip_base": slot},
            accesses,
            f"act y{tile.y0} x{tile.x0} c{piece.c0}",
        )

    def _load_windows(self, step: ConvStep, slot: Buffer, parts: int) -> None:
        """The tile's columns, in equal parts one behind another."""
        tile = step.tile
        if parts > 1:
            self.fresh.add((id(slot), 0))
            self.parts[id(slot), 0] = parts
        cols = tile.cols // parts
        for x0 in range(tile.x0, tile.x1, cols):
            self._load_columns(slot, replace(tile, x0=x0, x1=x0 + cols), x0 - tile.x0)

    def _load_columns(self, slot: Buffer, tile: Tile, skipped: int) -> None:
        """Some columns of packed windows, `skipped` columns into the slot."""
        view, image = self.geo.input, tile.batch * self.geo.input.strides[0]
        column = self.geo.window_rows(tile.rows) * self.geo.pixel
        start, note = skipped * column, f"y{tile.y0} x{tile.x0}"
        written = Access(buffer=slot, start=start, stop=start + tile.cols * column, write=True)
        for move in window_moves(self.geo, tile):
            run, loops = load_box(move.box, move.run)
            if move.mem is None:
                zero, at = self.layer.input_zp & 0xFF, start + move.chip
                record = Load(chip_base=at, run=run, loop=loops, fill=1, fill_value=zero)
                self.append(record, {"chip_base": slot}, [written], f"padding {note}")
                continue
            source = self.context.tensors[view.tensor]
            mem = view.offset + image + move.mem
            stop = mem + memory_extent(loops, run)
            read = Access(buffer=source, start=mem, stop=stop, write=False)
            record = Load(mem_base=mem, chip_base=start + move.chip, run=run, loop=loops)
            bases = {"chip_base": slot, "mem_base": source}
            self.append(record, bases, [written, read], f"windows {note}")

    def _fill_sides(self, step: ConvStep, slot: Buffer, rows: int) -> tuple[int, int]:
        """Fill the tile's columns outside the input with the zero point; returns those inside."""
        x0, x1 = self.geo.input_cols(step.tile.x0, step.tile.x1)
        inside = self.geo.memory_cols(step.tile.x0, step.tile.x1)
        if inside[0] == inside[1]:
            inside = (x1, x1)
        pixel = self.geo.pixel
        line = (x1 - x0) * pixel
        for a, b in ((x0, inside[0]), (inside[1], x1)):
            if a < b:
                self.append(
                    Load(
                        chip_base=(a - x0) * pixel,
                        run=(b - a) * pixel,
                        fill=1,
                        fill_value=self.layer.input_zp & 0xFF,
                        loop=[DmaLoop(count=rows, chip=line)],
                    ),
                    {"chip_base": slot},
                    [Access(buffer=slot, start=0, stop=rows * line, write=True)],
                    f"padding y{step.tile.y0} x{a}",
                )
        return inside

    def act_reads(self, unit: Unit) -> list[Access]:
        """What a MATRIX reads of the activations: block by block, or part by part, on the first
        read of a load. Blocks of channels are steps of the loop within its outer ones.
        """
        step, piece = unit.step, unit.piece
        sliced = unit.count == unit.parts == 1
        if self.held is not None:
            return self._held_reads(unit, self.held)
        slot = self.act_of(step)
        y0, y1, x0, x1 = self.act_box(step.tile, piece)
        pixels = (y1 - y0) * (x1 - x0)
        if pixels == 0:
            return []
        start = (piece.c0 - step.k_tile.c0) * pixels
        size = pixels * self.geo.stored(piece)
        key = (id(slot), piece.c0)
        fresh = key in self.fresh
        # Only the first reader follows the load slice by slice; for others all of it is there.
        self.fresh.discard(key)
        blocks, level = piece.channels // self.config.rows, self.block_level
        if fresh and self.parts[key] > 1:
            # The outermost loop is over parts.
            blocks, level = unit.parts, 1
        elif not (sliced and self.plan.blocked and fresh and 1 < blocks <= MAX_SLICES):
            return [Access(buffer=slot, start=start, stop=start + size, write=False)]
        one = size // blocks
        return [
            Access(
                buffer=slot,
                start=start + i * one,
                stop=start + (i + 1) * one,
                write=False,
                level=level,
                iteration=i,
            )
            for i in range(blocks)
        ]

    def _held_reads(self, unit: Unit, buffer: Buffer) -> list[Access]:
        """The same of a tensor on chip, whose channels may just be computed."""
        step, piece = unit.step, unit.piece
        sliced = unit.count == unit.parts == 1
        tile, view, rows = step.tile, self.geo.input, self.config.rows
        y0, y1, x0, x1 = self.act_box(tile, piece)
        if y0 == y1 or x0 == x1:
            return []
        blocks = -(-piece.channels // rows)
        fresh = (tile, piece) in self.fresh
        self.fresh.discard((tile, piece))
        sliced = sliced and fresh and 1 < blocks <= MAX_SLICES
        box = Box(batch=tile.batch, y0=y0, y1=y1, x0=x0, x1=x1, c0=piece.c0, c1=piece.c1)
        if not sliced:
            return [touch(buffer, view, box, write=False)]
        # Blocks of the writer's columns and of the array's rows meet at the same channels.
        cuts = [(c, min(c + rows, piece.c1)) for c in range(piece.c0, piece.c1, rows)]
        return [
            touch(
                buffer,
                view,
                replace(box, c0=a, c1=b),
                write=False,
                level=self.block_level,
                iteration=i,
            )
            for i, (a, b) in enumerate(cuts)
        ]


def _held(found: tuple[Buffer | None, bool]) -> Buffer:
    slot, fresh = found
    assert slot is not None and not fresh
    return slot

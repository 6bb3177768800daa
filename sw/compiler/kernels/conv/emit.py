"""Instructions of a ConvLayer: tiles of M x N x K, with rotating buffers.

A few column blocks of a tile are one MATRIX instruction (per tile of K) and one VECTOR; banks of
the accumulator alternate, so the epilogue of one block runs under the next.
"""

from spec.isa import DType, Space
from sw.compiler.kernels.boxes import Box, address
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.conv.geometry import MIN_SLICED, Packing, equal_parts, geometry
from sw.compiler.kernels.conv.layer import ConvLayer
from sw.compiler.kernels.conv.loads import ConvLoads
from sw.compiler.kernels.conv.plan import ConvPlan
from sw.compiler.kernels.conv.residual import ResidualTiles
from sw.compiler.kernels.conv.steps import Accumulators, Unit, steps
from sw.compiler.kernels.emitter import EpilogueEmitter, Spot, touch
from sw.compiler.kernels.epilogue import accumulator_fields, extra_of
from sw.compiler.kernels.operands import Epilogue
from sw.compiler.program.records import ArrayLoop, Matrix, Vector, VectorFields, VectorLoop
from sw.compiler.program.virtual import Access, Buffer, Place

LEAST_SLICE = 8
"""Vectors of a slice of a part."""


def emit_conv(layer: ConvLayer, plan: ConvPlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _ConvEmitter(layer, plan, context).run()


class _ConvEmitter(EpilogueEmitter):
    def __init__(self, layer: ConvLayer, plan: ConvPlan, context: EmitContext) -> None:
        super().__init__(layer.name, layer.epilogue, context)
        self.geo = geo = geometry(layer, plan.packing, plan.stacked)
        self.plan, self.layer = plan, layer
        self.loads = ConvLoads(geo, plan, context)
        self.out = self.slots("out", Place.SPAD, plan.out_slots, plan.out_bytes)
        self.accumulators = Accumulators(geo, plan, context.config)
        self.added: ResidualTiles | None = None
        if geo.residual is not None:
            self.added = ResidualTiles(geo, geo.residual, plan, context)

    def run(self) -> None:
        """Emit the whole layer; the loads of a step go ahead of the step before it."""
        self.load_table()
        todo = steps(self.geo, self.plan, self.config)
        units = [list(self.accumulators.units(step)) for step in todo]
        pending: Unit | None = None
        for i, step in enumerate(todo):
            # What could not be loaded ahead: its slot still held what the step before reads.
            parts = units[i][0].parts if step.first_parts > 1 else 1
            self.loads.load(step, pinned=None, sliced=i == 0, parts=parts)
            if i == 0 and self.added is not None:
                # Behind the first loads: the array does not wait for residuals, the epilogue does.
                self.added.start([u for some in units for u in some if u.closes])
            ahead = todo[i + 1] if i + 1 < len(todo) else None
            for unit in units[i]:
                self._matrix(unit)
                # One unit behind: the next MATRIX is queued before this one's epilogue.
                if pending is not None:
                    self._finish(pending)
                pending = unit if unit.closes else None
                if ahead is not None:
                    self.loads.load(ahead, pinned=step, sliced=i == 0)
                    ahead = None
        if pending is not None:
            self._finish(pending)

    # Matrix -----------------------------------------------------------------------------------

    def _matrix(self, unit: Unit) -> None:
        step, piece, geo, layer = unit.step, unit.piece, self.geo, self.layer
        loops, row_loop, act_base = self._matrix_loops(unit)
        outer = self.loads.outer_loops
        on_y, on_x = geo.bounds
        blocks = -(-piece.channels // self.config.rows)
        width = self.loads.width(unit.block)
        row = piece.kernel_rows * geo.kernel[1] * self._line(unit)
        wgt = unit.in_tile * self._block_pitch(unit)
        wgt += (piece.c0 - step.k_tile.c0) * row
        tile = step.tile
        record = Matrix(
            act_base=act_base,
            wgt_base=wgt,
            wgt_row=self.loads.columns(step.k_tile, width)[0] if layer.transposed else row,
            transposed=int(layer.transposed),
            acc_base=unit.acc,
            y0=self._origin(unit)[0] if on_y else 0,
            x0=self._origin(unit)[1] if on_x else 0,
            # Coordinates that need no check stay at 0, in an input of one pixel: those of a long
            # column of pixels would not fit in 16 bits.
            height=geo.h if on_y else 1,
            width=geo.w if on_x else 1,
            act_zp=layer.input_zp,
            wgt_zp=layer.weight_zp,
            # Loop 0 is the column blocks, if there are any, or else the last of the four; three sum
            # over kernel and channels.
            fold_loops=outer + 3,
            k_loops=0b111 << (0 if unit.by_folds else outer),
            accumulate=int(not unit.opens),
            row_loop=row_loop,
            rows=min(self.config.rows, piece.channels),
            rows_last=piece.channels - (blocks - 1) * self.config.rows,
            cols=width,
            cols_last=width,
            loop=loops,
        )
        slot = self.loads.weights_of(step)
        self.append(
            record,
            {"act_base": self.loads.act_of(step), "wgt_base": slot, "acc_base": self.context.acc},
            [
                *self.loads.act_reads(unit),
                *self._weights(unit, slot, wgt),
                *self._sums(unit, write=True, product=True),
            ],
            f"{unit} y{tile.y0} x{tile.x0} c{piece.c0}",
        )

    def _weights(self, unit: Unit, slot: Buffer, start: int) -> list[Access]:
        """The weights that a unit reads, column block by column block."""
        size, pitch = self.loads.block_bytes(unit.block, unit.piece), self._block_pitch(unit)
        if self.loads.abreast(unit.step, unit.block) > 1:
            # From the first row's first block to the last row's last one: others lie between them.
            line, width = self._line(unit), self.loads.width(unit.block)
            stop = start + size // width * line - line + unit.count * width
            return [Access(buffer=slot, start=start, stop=stop, write=False, weights=True)]
        return [
            Access(
                buffer=slot,
                start=start + i * pitch,
                stop=start + i * pitch + size,
                write=False,
                weights=True,
                **unit.product_slice(i),
            )
            for i in range(unit.count)
        ]

    def _line(self, unit: Unit) -> int:
        """Bytes of a row of weights on chip."""
        return self.loads.width(unit.block) * self.loads.abreast(unit.step, unit.block)

    def _block_pitch(self, unit: Unit) -> int:
        """Bytes between the weights of neighbouring column blocks."""
        if self.loads.abreast(unit.step, unit.block) > 1:
            return self.loads.width(unit.block)
        return self.loads.block_bytes(unit.step.first, unit.step.k_tile)

    def _sums(self, unit: Unit, write: bool, product: bool = False) -> list[Access]:
        """The accumulator vectors of a unit, column block by column block, or part by part.

        `product`: for its MATRIX, which has no loop over blocks around that over parts.
        """
        if unit.spread:
            size = unit.step.tile.vectors // unit.parts
            starts = [unit.acc + i * unit.part_step for i in range(unit.parts)]
            return [
                Access(
                    buffer=self.context.acc,
                    start=at,
                    stop=at + size,
                    write=write,
                    level=1 if product else 2,
                    iteration=i,
                )
                for i, at in enumerate(starts)
            ]
        starts = [unit.acc + i * unit.acc_step for i in range(unit.count)]
        size, slice_of = unit.step.tile.vectors, unit.product_slice if product else unit.slice
        return [
            Access(buffer=self.context.acc, start=at, stop=at + size, write=write, **slice_of(i))
            for i, at in enumerate(starts)
        ]

    def _origin(self, unit: Unit) -> tuple[int, int]:
        """Input row and column of the first tap of the tile's first output."""
        (sy, sx), (py, px) = self.layer.stride, self.layer.pad
        y = unit.step.tile.y0 * sy - py + unit.piece.kh0 * self.layer.dilation[0]
        return y, unit.step.tile.x0 * sx - px

    def _matrix_loops(self, unit: Unit) -> tuple[list[ArrayLoop], int, int]:
        """(loops, index of the loop over channel blocks, act_base)."""
        step, piece, layer = unit.step, unit.piece, self.layer
        r = self.config.rows
        base, line, pixel, plane, (down, right) = self._activations(unit)
        width, line_bytes = self.loads.width(unit.block), self._line(unit)
        tap = self.geo.kernel[1] * line_bytes
        on_y, on_x = self.geo.bounds
        (sy, sx), (dy, dx) = layer.stride, layer.dilation
        block = r * piece.kernel_rows * tap
        if layer.transposed:
            _, block = self.loads.columns(step.k_tile, width)
        kh = ArrayLoop(count=piece.kernel_rows, act=dy * line, wgt=tap, dy=dy * on_y)
        kw = ArrayLoop(count=self.geo.kernel[1], act=dx * pixel, wgt=line_bytes, dx=dx * on_x)
        cb = ArrayLoop(count=-(-piece.channels // r), act=plane, wgt=block)
        tile = step.tile
        my = ArrayLoop(count=tile.rows // self.geo.stacked, act=down, acc=tile.cols, dy=sy * on_y)
        mx = ArrayLoop(count=tile.cols, act=right, acc=1, dx=sx * on_x)
        # Channels outermost where they arrive one block after another.
        by_channels = self.plan.blocked or self.plan.held_in
        order = [cb, kh, kw] if by_channels else [kh, kw, cb]
        outer = self.loads.outer_loops
        row_loop = outer if by_channels else outer + 2
        if not outer:
            images = self.geo.stacked
            sample = ArrayLoop(count=images, act=self.geo.h * line, acc=tile.vectors // images)
            return [*order, sample, my, mx], row_loop, base
        if unit.parts > 1:
            # Part after part, over all folds.
            along = mx if unit.by_columns else my
            some = along._replace(count=along.count // unit.parts)
            part = ArrayLoop(
                count=unit.parts,
                act=some.count * some.act,
                acc=unit.part_step,
                dy=some.count * some.dy,
                dx=some.count * some.dx,
            )
            vectors = [my, some] if unit.by_columns else [some, mx]
            return [part, *order, *vectors], row_loop, base
        several = ArrayLoop(count=unit.count, wgt=self._block_pitch(unit), acc=unit.acc_step)
        if unit.by_folds:
            return [*order, several, my, mx], row_loop - outer, base
        return [several, *order, my, mx], row_loop, base

    def _activations(self, unit: Unit) -> tuple[int, int, int, int, tuple[int, int]]:
        """(address of the first activation, bytes between rows, pixels, channel blocks, outputs).

        Between outputs: down and right.
        """
        step, piece, view = unit.step, unit.piece, self.geo.input
        r = self.config.rows
        y, x = self._origin(unit)
        if self.plan.held_in:
            image, line, pixel = view.strides
            base = view.offset + step.tile.batch * image + y * line + x * pixel + piece.c0
            sy, sx = self.layer.stride
            return base, line, pixel, r, (sy * line, sx * pixel)
        y0, y1, x0, x1 = self.loads.act_box(step.tile, piece)
        pixel = r if self.plan.blocked else self.geo.stored(step.k_tile)
        line = (x1 - x0) * pixel
        plane = (y1 - y0) * line if self.plan.blocked else r
        packs_windows = self.geo.packing is Packing.WINDOWS
        base = 0 if packs_windows else (y - y0) * line + (x - x0) * pixel
        if self.plan.blocked:
            base += (piece.c0 - step.k_tile.c0) // r * plane
        return base, line, pixel, plane, self.geo.walk(y1 - y0, x1 - x0, pixel)

    # Epilogue and store -----------------------------------------------------------------------

    def _finish(self, unit: Unit) -> None:
        """The epilogue of finished column blocks, and the store when their pixels are complete."""
        held = self.context.held(self.geo.output)
        if held is not None:
            self._keep(unit, held)
        else:
            self._pack(unit)
        if self.added is not None:
            self.added.done(unit)

    def _keep(self, unit: Unit, out: Buffer) -> None:
        """The epilogue into a tensor that stays on chip."""
        view, tile, cols = self.geo.output, unit.step.tile, self.config.cols
        _, line, pixel = view.strides
        boxes = [
            Box(
                batch=tile.batch,
                y0=tile.y0,
                y1=tile.y1,
                x0=tile.x0,
                x1=tile.x1,
                c0=block * cols,
                c1=block * cols + self.loads.width(block),
            )
            for block in range(unit.block, unit.block + unit.count)
        ]
        writes = [touch(out, view, box, write=True, **unit.slice(i)) for i, box in enumerate(boxes)]
        parts = unit.parts if unit.spread else 1
        self._vector(unit, Spot(out, address(view, boxes[0]), line, pixel), parts, writes)

    def _pack(self, unit: Unit) -> None:
        """The epilogue into a slot, pixel after pixel, and the store: slice by slice in the last
        tile, behind which nothing follows that would hide them.
        """
        step, tile, item = unit.step, unit.step.tile, self.geo.output.item
        cols, joint = self.config.cols, self.plan.joint
        own = unit.count * self.loads.width(unit.block)
        channels = min(step.stop * cols, self.geo.oc) - step.first * cols if joint else own
        out, _ = self.out.get((tile, step.n_tile, 0 if joint else unit.block), None)
        assert out is not None
        sliced = step.last and tile.vectors >= MIN_SLICED and unit.count == 1
        slices = equal_parts(tile.rows) if sliced else 1
        if unit.spread:
            slices = unit.parts * self._finer(unit)
        pixel, at = channels * item, unit.in_tile * cols * item if joint else 0
        vectors = tile.vectors // slices
        writes = [
            Access(
                buffer=out,
                start=at + i * vectors * pixel,
                stop=at + ((i + 1) * vectors - 1) * pixel + own * item,
                write=True,
                level=self._slice_level(unit, slices),
                iteration=i,
            )
            for i in range(slices)
        ]
        self._vector(unit, Spot(out, at, tile.cols * pixel, pixel), slices, writes)
        # Joint results are stored when the last block has written its channels: whole pixels.
        if not joint or unit.block + unit.count == step.stop:
            self._store(unit, out, (step.first if joint else unit.block) * cols, channels, slices)

    def _finer(self, unit: Unit) -> int:
        """Slices of a part of rows that is stored: the last one is all that is left to store."""
        rows, half = unit.step.tile.rows // unit.parts, unit.step.tile.vectors // unit.parts // 2
        return 2 if rows % 2 == 0 and half >= LEAST_SLICE else 1

    def _slice_level(self, unit: Unit, slices: int) -> int:
        """The level of a VECTOR's slices."""
        return 0 if slices == 1 else 2 + (unit.spread and slices > unit.parts)

    def _vector(self, unit: Unit, out: Spot, slices: int, writes: list[Access]) -> None:
        """The VECTORs of a unit: all but the last leave their results where the sums are."""
        *before, last = self.layer.epilogue.passes
        sums, tile = Spot(self.context.acc, unit.acc, unit.step.tile.cols, 1), unit.step.tile
        steps = (unit.acc_step, unit.part_step or tile.vectors, sums.line, sums.pixel)
        parts = unit.parts if unit.spread else 1
        for epilogue in before:
            self._pass(unit, epilogue, parts, sums, steps, self._sums(unit, write=True))
        rows = tile.rows // slices
        steps = self._steps(rows, out, self.geo.output.item)
        self._pass(unit, last, slices, out, steps, writes)

    def _pass(
        self,
        unit: Unit,
        epilogue: Epilogue,
        slices: int,
        out: Spot,
        steps: tuple[int, ...],
        writes: list[Access],
    ) -> None:
        """A VECTOR over column blocks, `slices` equal parts of the rows, rows, columns.

        `steps`: between its results at `out`, loop by loop.
        """
        tile, lanes = unit.step.tile, self.loads.width(unit.block)
        rows = tile.rows // slices
        counts: tuple[int, ...] = (unit.count, slices, rows, tile.cols)
        sums: tuple[int, ...] = (unit.acc_step, rows * tile.cols, tile.cols, 1)
        extra = extra_of(epilogue, self.layer.epilogue, self.layer.residual)
        accesses = [*self._sums(unit, write=False), *writes]
        bases = {"a_base": self.context.acc, "o_base": out.buffer}
        fields = accumulator_fields(epilogue, extra)
        if out.buffer is self.context.acc:
            fields |= VectorFields(o_space=Space.ACC, o_type=DType.I32)
        added: tuple[int, ...] = (0, 0, 0, 0)
        if extra is not None:
            assert self.added is not None
            spot, read = self.added.spot(unit)
            fields["b_base"] = spot.at
            bases["b_base"] = spot.buffer
            accesses.append(read)
            block, *inner = self._steps(rows, spot, self.added.view.item)
            added = (0 if self.added.single else block, inner[0], inner[1], inner[2])
        if unit.spread:
            # Slices of parts; parts lie in banks of their own.
            finer = slices // unit.parts
            counts = (unit.count, unit.parts, finer, rows, tile.cols)
            sums = (unit.acc_step, unit.part_step, *sums[1:])
            added, steps = ((x[0], finer * x[1], *x[1:]) for x in (added, steps))
        entry, entry_step = self._params(unit, epilogue, bases, accesses)
        accesses += self.table_reads(epilogue)
        fields |= VectorFields(
            a_base=unit.acc, o_base=out.at, param_base=entry, lanes=lanes, lanes_last=lanes
        )
        loops = [
            VectorLoop(count=n, a=a, b=b, o=o, param=0 if i else entry_step)
            for i, (n, a, b, o) in enumerate(zip(counts, sums, added, steps, strict=True))
        ]
        record = Vector(**fields, loop=loops)
        note = f"{unit} y{unit.step.tile.y0} x{unit.step.tile.x0}"
        self.append(record, bases, accesses, note)

    def _params(
        self, unit: Unit, epilogue: Epilogue, bases: dict[str, Buffer], accesses: list[Access]
    ) -> tuple[int, int]:
        """(first parameter entry of a pass, entries between column blocks); 0 if it reads none.

        Its buffer and access go into `bases` and `accesses`.
        """
        params, passes = self.loads.params_of(unit.step), self.layer.epilogue.param_passes
        if params is None or not epilogue.uses_params:
            return 0, 0
        step = len(passes)
        # A column block's entries lie side by side, one for each pass that reads any.
        entry = unit.in_tile * step + [p is epilogue for p in passes].index(True)
        bases["param_base"] = params
        stop = entry + (unit.count - 1) * step + 1
        accesses.append(Access(buffer=params, start=entry, stop=stop, write=False))
        return entry, step

    def _steps(self, rows: int, spot: Spot, item: int) -> tuple[int, int, int, int]:
        """Bytes between column blocks, slices of `rows` rows, rows and columns at `spot`."""
        return self.config.cols * item, rows * spot.line, spot.line, spot.pixel

    def _store(self, unit: Unit, out: Buffer, channel: int, channels: int, slices: int) -> None:
        tile, view = unit.step.tile, self.geo.output
        mem = view.offset + tile.batch * view.strides[0] + tile.y0 * view.strides[1]
        mem += tile.x0 * view.strides[2] + channel * view.item
        pixel = channels * view.item
        line = tile.cols * pixel
        rows = tile.rows // slices
        box = [
            (slices, rows * view.strides[1], rows * line),
            (rows, view.strides[1], line),
            (tile.cols, view.strides[2], pixel),
        ]
        note = f"store y{tile.y0} x{tile.x0} c{channel}"
        self.store_box(view, mem, out, box, pixel, note, slices)

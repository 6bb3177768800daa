"""Virtual instructions of a traced kernel, statement by statement, with the bytes of each."""

import itertools
import math
from dataclasses import replace

from spec.isa import LOOPS, Reduce, Space
from sw.compiler.errors import CompileError
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.depthwise.geometry import Pass, kernel_passes
from sw.compiler.kernels.dma import Box, Copy, copies, load_box
from sw.compiler.kernels.emitter import LayerEmitter
from sw.compiler.kernels.functions import lacked
from sw.compiler.kernels.fused.sizes import MAX_EXTENT
from sw.compiler.kernels.nests import Row, Stride, follow, in_lanes, nest
from sw.compiler.kernels.params import pack_params
from sw.compiler.kernels.views import DTYPE
from sw.compiler.program.records import (
    ArrayLoop,
    Depthwise,
    Load,
    Matrix,
    Record,
    Store,
    Vector,
    VectorFields,
)
from sw.compiler.program.virtual import Access, Buffer, Place, VirtualInstruction
from sw.language.memory import Memory, Piece
from sw.language.placement import Placement
from sw.language.steps import CopyStep, DepthwiseStep, DotStep, Step, VectorStep
from sw.language.trace import Trace
from sw.language.types import item_bytes

MAX_SLICES = 32
"""Most blocks of columns that others wait for one by one: semaphores count no further than 255."""

PARTS, MIN_SLICED = 4, 32
"""A result of so many rows or more is stored in parts, each as soon as VECTOR has written it."""

Origins = dict[VirtualInstruction, Step]
"""The statement that each instruction is part of."""


class KernelEmitter(LayerEmitter):
    """Appends the instructions of a trace to the program; `origins` notes whose each is."""

    def __init__(
        self, trace: Trace, placement: Placement, context: EmitContext, origins: Origins
    ) -> None:
        super().__init__(trace.name, context)
        self.trace, self.placement, self.origins = trace, placement, origins
        self._rings: dict[Place, list[list[Buffer]]] = {Place.SPAD: []}
        for site in placement.sites[Place.SPAD]:
            # The name of what one line makes in turns: of a tensor, without the piece.
            label = site.memories[0].label.partition("[")[0]
            what = f"{label} of {site.line.short}, buffer "
            ring = self.slots(what, Place.SPAD, site.slots, site.size).buffers
            self._rings[Place.SPAD].append(ring)
        self._by_hand = self._arranged(placement.by_hand[Place.SPAD])
        self._params: dict[bytes, Buffer] = {}
        self._stored = _stored_at_once(trace)
        self._parts = 1

    def _arranged(self, size: int) -> Buffer | None:
        if not size:
            return None
        return self.slots("what is placed by hand, ", Place.SPAD, 1, size).buffers[0]

    def run(self) -> None:
        """Emit everything, in the order of the source."""
        for step in self.trace.steps:
            self._parts = self._parts_of(step)
            before = len(self.context.virtual.instructions)
            match step:
                case CopyStep():
                    self._copy(step)
                case DotStep():
                    self._dot(step)
                case DepthwiseStep():
                    self._depthwise(step)
                case VectorStep():
                    self._vector(step)
            made = self.context.virtual.instructions[before:]
            for instruction in made:
                self._check(instruction.record, step)
            self.origins.update(dict.fromkeys(made, step))

    def _check(self, record: Record, step: Step) -> None:
        function = lacked(record, self.config)
        if function is not None:
            raise self.trace.error(
                f"{step.label}: needs {function.what}; configuration {self.config.name} has "
                f"{function.flag}=False",
                step.line,
                hint=f"choose a configuration that has it (--set {function.flag}=true)",
            )

    def _parts_of(self, step: Step) -> int:
        """Parts in which a statement passes its rows to the next one, or takes them."""
        if step not in self._stored:
            return 1
        piece = step.pieces[-1]
        rows = piece.shape[0]
        whole = piece.shape[-1] <= self.config.cols and rows * math.prod(piece.shape[1:-1])
        return PARTS if whole >= MIN_SLICED and rows % PARTS == 0 else 1

    # Places ---------------------------------------------------------------------------------------

    def _place(self, memory: Memory) -> tuple[Buffer, int]:
        """The buffer that a memory lies in, and where in it the memory begins."""
        if memory.place is Place.ACC:
            if memory.at is not None:
                return self.context.acc, memory.at
            site, slot = self.placement.slots[memory]
            return self.context.acc, self.placement.vectors[site][slot]
        if memory.at is not None:
            assert self._by_hand is not None
            return self._by_hand, memory.at
        site, slot = self.placement.slots[memory]
        return self._rings[Place.SPAD][site][slot], 0

    def _access(self, piece: Piece, *, write: bool, weights: bool = False) -> Access:
        """All of a piece in the scratchpad, at once."""
        buffer, base = self._place(piece.memory)
        start, stop = piece.span(self.config.cols)
        return Access(
            buffer=buffer, start=base + start, stop=base + stop, write=write, weights=weights
        )

    def _sums(self, piece: Piece, *, write: bool, by_block: bool = True) -> list[Access]:
        """A piece of the accumulator, block of columns after block.

        `by_block`: loop 0 goes through the blocks, and others wait for one after another.
        """
        count, pitch = piece.blocks(self.config.cols)
        by_block = by_block and 1 < count <= MAX_SLICES
        whole = self._access(piece, write=write)
        size = whole.stop - whole.start - (count - 1) * pitch
        return [
            replace(
                whole,
                start=whole.start + i * pitch,
                stop=whole.start + i * pitch + size,
                level=int(by_block),
                iteration=i if by_block else 0,
            )
            for i in range(count)
        ]

    def _base(self, piece: Piece) -> int:
        """First unit of a piece in its buffer."""
        return self._place(piece.memory)[1] + piece.layout.offset

    # Copies ---------------------------------------------------------------------------------------

    def _copy(self, step: CopyStep) -> None:
        tensor, item = self.context.tensors[step.tensor], item_bytes(step.chip.dtype)
        chip, base = self._place(step.chip.memory)
        base += step.chip.layout.offset
        outside, inside = step.outside.whole_strides, step.chip.layout.whole_strides
        box = list(zip(step.outside.shape, outside, inside, strict=True))
        if self._parts > 1:
            found = [_in_parts(box, item, self._parts)]
        else:
            found = list(copies(box, item))
        for copy in found:
            mem = [step.outside.offset + at for at in copy.memory_span()]
            start, stop = (base + at for at in copy.chip_span())
            size = (stop - start) // self._parts
            far = Access(buffer=tensor, start=mem[0], stop=mem[1], write=step.stores)
            near = [
                Access(
                    buffer=chip,
                    start=start + i * size,
                    stop=start + (i + 1) * size,
                    write=not step.stores,
                    level=int(self._parts > 1),
                    iteration=i,
                )
                for i in range(self._parts)
            ]
            kind = Store if step.stores else Load
            record = kind(
                mem_base=step.outside.offset + copy.mem,
                chip_base=base + copy.chip,
                run=copy.run,
                loop=copy.loops,
            )
            bases = {"mem_base": tensor, "chip_base": chip}
            self.append(record, bases, [far, *near], str(step))

    # Products -------------------------------------------------------------------------------------

    def _dot(self, step: DotStep) -> None:
        x, w, acc, cfg = step.x, step.w, step.acc, self.config
        (k, n), (far, near) = w.shape, w.layout.whole_strides
        transposed = near != 1 and n > 1
        parts = -(-k // cfg.rows)
        blocks, pitch = acc.blocks(cfg.cols)
        rows = _merged(
            [
                (size, act, int(out))
                for size, act, out in zip(
                    x.shape[:-1], x.layout.whole_strides, acc.layout.strides, strict=False
                )
            ]
        )
        if len(rows) > LOOPS - 2:
            raise self._too_many(step, LOOPS - 1)
        record = Matrix(
            act_base=self._base(x),
            wgt_base=self._base(w),
            wgt_row=near if transposed else far,
            transposed=int(transposed),
            acc_base=self._base(acc),
            act_zp=step.x_zero,
            wgt_zp=step.w_zero,
            fold_loops=2,
            k_loops=0b10,
            accumulate=int(step.adds),
            row_loop=1,
            rows=min(cfg.rows, k),
            rows_last=k - (parts - 1) * cfg.rows,
            col_loop=0,
            cols=min(cfg.cols, n),
            cols_last=n - (blocks - 1) * cfg.cols,
            loop=[
                ArrayLoop(count=blocks, wgt=cfg.cols * near, acc=pitch),
                ArrayLoop(count=parts, act=cfg.rows, wgt=cfg.rows * far),
                *(ArrayLoop(count=size, act=act, acc=out) for size, act, out in rows),
            ],
        )
        bases = {
            "act_base": self._place(x.memory)[0],
            "wgt_base": self._place(w.memory)[0],
            "acc_base": self.context.acc,
        }
        accesses = [
            self._access(x, write=False),
            self._access(w, write=False, weights=True),
            *self._sums(acc, write=True),
        ]
        self.append(record, bases, accesses, str(step))

    def _depthwise(self, step: DepthwiseStep) -> None:
        kernel = (step.w.shape[0], step.w.shape[1])
        for number, over in enumerate(kernel_passes(kernel, step.stride, 1, self.config.taps)):
            self._pass(step, over, first=number == 0)

    def _pass(self, step: DepthwiseStep, over: Pass, first: bool) -> None:
        x, w, acc, cfg = step.x, step.w, step.acc, self.config
        line, pixel, _ = x.layout.whole_strides
        wgt_row, wgt_col, _ = w.layout.whole_strides
        (rows, cols, channels), (top, left) = acc.shape, step.pad
        blocks, pitch = acc.blocks(cfg.cols)
        y, left = over.kh0 - top, over.kw0 - left
        record = Depthwise(
            act_base=self._base(x) + y * line + left * pixel,
            act_row=line,
            act_col=over.step * pixel,
            wgt_base=self._base(w) + over.kh0 * wgt_row + over.kw0 * wgt_col,
            wgt_row=wgt_row,
            wgt_col=wgt_col,
            acc_base=self._base(acc),
            acc_col=1,
            y0=y,
            x0=left,
            row_step=1,
            col_step=over.step,
            height=x.shape[0],
            width=x.shape[1],
            act_zp=step.x_zero,
            wgt_zp=step.w_zero,
            kernel_rows=over.rows,
            kernel_cols=over.cols,
            stride=over.stride,
            outputs=cols,
            accumulate=int(not first),
            fold_loops=1,
            lane_loop=0,
            lanes=min(cfg.cols, channels),
            lanes_last=channels - (blocks - 1) * cfg.cols,
            loop=[
                ArrayLoop(count=blocks, act=cfg.cols, wgt=cfg.cols, acc=pitch),
                ArrayLoop(count=rows, act=step.stride * line, acc=cols, dy=step.stride),
            ],
        )
        bases = {
            "act_base": self._place(x.memory)[0],
            "wgt_base": self._place(w.memory)[0],
            "acc_base": self.context.acc,
        }
        accesses = [
            self._access(x, write=False),
            self._access(w, write=False),
            *self._sums(acc, write=True),
        ]
        self.append(record, bases, accesses, str(step))

    # Vectors --------------------------------------------------------------------------------------

    def _vector(self, step: VectorStep) -> None:
        pending, out = step.pending, step.out
        a, b = pending.a, pending.b
        if pending.table is not None:
            self.load_table_bytes(pending.table.tobytes())
        params = self._load_params(step)
        rows, lanes = in_lanes(
            self._rows(step, params is not None),
            [self._item(p) for p in (a, b or a, out)],
            pending.axis < len(a.shape) - 1,
        )
        if len(rows) >= LOOPS:
            raise self._too_many(step, LOOPS - 1)
        made = nest(rows, lanes, self.config.cols, params is not None)
        fields = VectorFields(
            a_space=Space.ACC if a.in_acc else Space.SPAD,
            a_type=DTYPE[a.dtype],
            a_base=self._base(a),
            a_one=int(lanes.a == 0),
            reduce=pending.reduce if made.reduces else Reduce.NONE,
            o_min=pending.low,
            o_max=pending.high,
            o_space=Space.ACC if out.in_acc else Space.SPAD,
            o_type=DTYPE[out.dtype],
            o_base=self._base(out),
        )
        bases = {"a_base": self._place(a.memory)[0], "o_base": self._place(out.memory)[0]}
        by_block = lanes.size > self.config.cols and not lanes.reduced
        accesses = [*self._touched(a, by_block, write=False), *self._results(out, by_block)]
        if b is not None:
            fields |= VectorFields(
                b_type=DTYPE[b.dtype], b_base=self._base(b), b_one=int(lanes.b == 0)
            )
            bases["b_base"] = self._place(b.memory)[0]
            accesses.append(self._access(b, write=False))
        if params is not None:
            bases["param_base"] = params
            accesses.append(Access(buffer=params, start=0, stop=params.size, write=False))
        if pending.table is not None:
            table = self.context.table
            accesses.append(Access(buffer=table, start=0, stop=pending.table.nbytes, write=False))
        record = Vector(**(made.fields | fields | pending.values), loop=made.loops)
        self.append(record, bases, accesses, str(step))

    def _touched(self, piece: Piece, by_block: bool, *, write: bool) -> list[Access]:
        if piece.in_acc:
            return self._sums(piece, write=write, by_block=by_block)
        return [self._access(piece, write=write)]

    def _results(self, out: Piece, by_block: bool) -> list[Access]:
        """What a VECTOR writes; in parts loop 1 goes through them, as loop 0 has one block."""
        if self._parts == 1:
            return self._touched(out, by_block, write=True)
        whole = self._access(out, write=True)
        size = (whole.stop - whole.start) // self._parts
        return [
            replace(
                whole,
                start=whole.start + i * size,
                stop=whole.start + (i + 1) * size,
                level=2,
                iteration=i,
            )
            for i in range(self._parts)
        ]

    def _item(self, piece: Piece) -> Stride:
        """Between neighbouring elements of the last dimension."""
        return piece.layout.strides[-1] if piece.in_acc else item_bytes(piece.dtype)

    def _rows(self, step: VectorStep, apart: bool) -> list[Row]:
        """The dimensions that a VECTOR goes through, neighbours merged where every stream goes on.

        `apart`: the last one has parameters, and is no part of a longer one.
        """
        pending, rows = step.pending, list[Row]()
        streams = [_strides(p) for p in (pending.a, pending.b, step.out)]
        last = len(pending.extents) - 1
        for d, size in enumerate(pending.extents):
            if size == 1:
                continue
            reduced = pending.reduce is not Reduce.NONE and d == pending.axis
            a, b, out = (stream[d] if stream else 0 for stream in streams)
            row = Row(size, a, b, 0 if reduced else out, reduced)
            joins = rows and not ((apart or self._parts > 1) and d == last)
            if joins and rows[-1].size * size <= MAX_EXTENT and follow(rows[-1], row):
                row = row._replace(size=size * rows.pop().size)
            rows.append(row)
        if self._parts > 1:
            return [*_cut(rows[0], self._parts), *rows[1:]]
        return rows

    def _load_params(self, step: VectorStep) -> Buffer | None:
        """The parameter entries of a statement, loaded where they are not there yet."""
        channels = step.pending.channels
        if channels is None:
            return None
        data = pack_params([channels], 0, step.pending.a.shape[-1], self.config)
        if data not in self._params:
            entries = len(data) // self.config.param_entry_bytes
            taken = sum(buffer.size for buffer in self._params.values())
            if taken + entries > self.config.param_entries:
                raise self.trace.error(
                    f"scales and biases of columns take {taken + entries} parameter entries, "
                    f"configuration {self.config.name} has {self.config.param_entries}",
                    step.line,
                    hint="use one scale for all columns, or fewer columns a kernel",
                )
            slot = self.slots(f"params{len(self._params)}_", Place.PARAM, 1, entries).buffers[0]
            self.load_constant(data, Space.PARAM, slot, entries, f"params ({step.line.short})")
            self._params[data] = slot
        return self._params[data]

    def _too_many(self, step: Step, most: int) -> CompileError:
        return self.trace.error(
            f"{step.label}: its dimensions do not lie regularly enough for {most} loops",
            step.line,
            hint="use tiles of fewer dimensions",
        )


def _strides(piece: Piece | None) -> list[Stride] | None:
    """Of every dimension; 0 where there is one element, which broadcasts."""
    if piece is None:
        return None
    pairs = zip(piece.shape, piece.layout.strides, strict=True)
    return [0 if size == 1 else stride for size, stride in pairs]


def _stored_at_once(trace: Trace) -> frozenset[Step]:
    """The statements that write a result, and those that store it next."""
    found = set[Step]()
    for step, after in itertools.pairwise(trace.steps):
        stores = isinstance(after, CopyStep) and after.stores
        if isinstance(step, VectorStep) and stores and step.out is after.pieces[-1]:
            # Results of a reduction come when it ends, and not row by row.
            found |= {step, after} if step.pending.reduce is Reduce.NONE else set()
    return frozenset(found)


def _cut(row: Row, parts: int) -> list[Row]:
    """A dimension as two, of which the outer one goes through equal parts."""
    inner = row.size // parts
    outer = row._replace(size=parts, a=row.a * inner, b=row.b * inner, out=row.out * inner)
    return [outer, row._replace(size=inner)]


def _in_parts(box: Box, item: int, parts: int) -> Copy:
    """The copy of a box of which loop 0 goes through equal parts of the first dimension."""
    (count, mem, chip), *inner = box
    size = count // parts
    dims = [(parts, size * mem, size * chip), (size, mem, chip), *inner]
    run, loops = load_box(dims, item, keep_outer=True)
    return Copy(mem=0, chip=0, run=run, loops=loops)


def _merged(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Dimensions (size, stride of x, of the sums), neighbours joined where both go on."""
    out: list[tuple[int, int, int]] = []
    for size, act, acc in rows:
        if size == 1:
            continue
        joined = out and out[-1][1:] == (size * act, size * acc)
        if joined and out[-1][0] * size <= MAX_EXTENT:
            out[-1] = (out[-1][0] * size, act, acc)
        else:
            out.append((size, act, acc))
    return out

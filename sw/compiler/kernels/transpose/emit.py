"""Instructions of a TransposeLayer: LOAD a tile, one or two turns on chip, STORE it.

A turn is a MATRIX of the identity matrix by transposed weights and a VECTOR that writes the bytes.
A tensor on chip is read and written where it lies.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spec.isa import DType, Space
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.emitter import LayerEmitter
from sw.compiler.kernels.transpose.layer import TransposeLayer
from sw.compiler.kernels.transpose.plan import BETWEEN, SLOTS, TransposePlan, box, pattern
from sw.compiler.kernels.transpose.turns import Sizes, Turn, turns
from sw.compiler.program.records import ArrayLoop, Matrix, Vector, VectorLoop
from sw.compiler.program.virtual import Access, Buffer, Place

Tile = tuple[tuple[int, ...], Sizes]
"""The first element of a tile along each axis, and the elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bytes:
    """Bytes `start`…`stop` of a buffer, of which a turn reads or writes some."""

    buffer: Buffer
    start: int
    stop: int

    @staticmethod
    def all_of(buffer: Buffer) -> "_Bytes":
        return _Bytes(buffer=buffer, start=0, stop=buffer.size)


def emit_transpose(layer: TransposeLayer, plan: TransposePlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _TransposeEmitter(layer, plan, context).run()


class _TransposeEmitter(LayerEmitter):
    def __init__(self, layer: TransposeLayer, plan: TransposePlan, context: EmitContext) -> None:
        super().__init__(layer.name, context)
        self.layer, self.plan, self.form = layer, plan, plan.form
        self.source = context.tensors[layer.input.tensor]
        self.target = context.tensors[layer.output.tensor]
        self.before = self._slots("in", SLOTS, plan.before)
        self.after = self._slots("out", SLOTS, plan.after)
        self.middle = self._slots("turned", BETWEEN, plan.between)
        (self.identity,) = self.slots("identity", Place.SPAD, 1, plan.identity).buffers
        self.made = 0

    def _slots(self, name: str, count: int, size: int) -> list[Buffer]:
        return list(self.slots(name, Place.SPAD, count, size).buffers) if size else []

    def run(self) -> None:
        """Emit the whole layer; first turns of the next tiles go ahead of the second of a tile."""
        data = pattern(self.form.item, self.config)
        self.load_constant(data, Space.SPAD, self.identity, len(data), "identity")
        tiles = list(self._tiles())
        if not self.form.twice:
            for n, tile in enumerate(tiles):
                self._open(n, tile, self._results(n, tile))
                self._store(n, tile)
            return
        ahead, middle = BETWEEN - 1, [_Bytes.all_of(buffer) for buffer in self.middle]
        for n, tile in enumerate(tiles[:ahead]):
            self._open(n, tile, middle[n])
        for n, tile in enumerate(tiles):
            if n + ahead < len(tiles):
                self._open(n + ahead, tiles[n + ahead], middle[(n + ahead) % BETWEEN])
            second = self._turns(tile)[1]
            self._turn(second, middle[n % BETWEEN], self._results(n, tile), tile)
            self._store(n, tile)

    def _tiles(self) -> Iterator[Tile]:
        whole = [axis.size for axis in self.form.axes]
        order = sorted(range(len(whole)), key=lambda i: -self.form.axes[i].target)
        starts = [range(0, whole[i], self.plan.sizes[i]) for i in order]
        for found in itertools.product(*starts):
            at = dict(zip(order, found, strict=True))
            start = tuple(at[i] for i in range(len(whole)))
            yield (
                start,
                tuple(min(s, n - a) for s, n, a in zip(self.plan.sizes, whole, start, strict=True)),
            )

    def _turns(self, tile: Tile) -> tuple[Turn, ...]:
        return turns(self.form, tile[1], self.config.cols, self.config.word_bytes)

    def _open(self, number: int, tile: Tile, results: _Bytes) -> None:
        """Load a tile and turn it for the first time."""
        (start, sizes), form = tile, self.form
        at = self.layer.offset + _distance(start, [axis.source for axis in form.axes])
        if form.from_chip:
            piece = self._piece(self.source, at, sizes, source=True)
        else:
            slot = self.before[number % SLOTS]
            size = form.item
            for n in sizes:
                size *= n
            dims = box(form, sizes, source=True)
            self.load_copies(self.source, at, dims, form.item, slot, 0, size, f"in {list(start)}")
            piece = _Bytes.all_of(slot)
        self._turn(self._turns(tile)[0], piece, results, tile)

    def _results(self, number: int, tile: Tile) -> _Bytes:
        """Where the last turn of a tile writes."""
        if self.form.to_chip:
            return self._piece(self.target, self._target(tile), tile[1], source=False)
        return _Bytes.all_of(self.after[number % SLOTS])

    def _target(self, tile: Tile) -> int:
        """Bytes of the target before the first element of a tile."""
        return self.layer.target_offset + _distance(tile[0], [a.target for a in self.form.axes])

    def _piece(self, buffer: Buffer, at: int, sizes: Sizes, *, source: bool) -> _Bytes:
        """The bytes of a tensor on chip between the first and the last of a tile."""
        last = _distance([n - 1 for n in sizes], self.form.strides(sizes, source=source))
        return _Bytes(buffer=buffer, start=at, stop=at + last + self.form.item)

    def _store(self, number: int, tile: Tile) -> None:
        if self.form.to_chip:
            return
        start, sizes = tile
        dims = box(self.form, sizes, source=False)
        slot = self.after[number % SLOTS]
        note = f"store {list(start)}"
        self.store_copies(self.target, self._target(tile), dims, self.form.item, slot, note)

    def _turn(self, turn: Turn, source: _Bytes, target: _Bytes, tile: Tile) -> None:
        """The MATRIX and the VECTOR of a turn; turns take parts of the accumulator in rotation."""
        places = self.plan.places
        acc = self.made % places * (self.config.acc_vectors // places)
        self.made += 1
        size = turn.vectors(self.config.cols)
        sums = Access(buffer=self.context.acc, start=acc, stop=acc + size, write=True)
        note = f"turn {list(tile[0])}"
        self.append(
            self._matrix(turn, acc)._replace(wgt_base=source.start),
            {"act_base": self.identity, "wgt_base": source.buffer, "acc_base": self.context.acc},
            [
                Access(buffer=self.identity, start=0, stop=self.plan.identity, write=False),
                Access(
                    buffer=source.buffer,
                    start=source.start,
                    stop=source.stop,
                    write=False,
                    weights=True,
                ),
                sums,
            ],
            note,
        )
        self.append(
            self._vector(turn, acc)._replace(o_base=target.start),
            {"a_base": self.context.acc, "o_base": target.buffer},
            [
                Access(buffer=self.context.acc, start=acc, stop=acc + size, write=False),
                Access(buffer=target.buffer, start=target.start, stop=target.stop, write=True),
            ],
            note,
        )

    def _matrix(self, turn: Turn, acc: int) -> Matrix:
        config, item = self.config, turn.item
        unit = config.rows // item
        folds, cols = -(-turn.rows // unit), config.cols
        rest = turn.rows - (folds - 1) * unit
        blocks = turn.blocks(cols)
        loops, step = [], turn.repeats * blocks * turn.rows
        for count, wgt in turn.others:
            step //= count
            loops.append(ArrayLoop(count=count, wgt=wgt, acc=step))
        col_loop = len(loops)
        loops.append(ArrayLoop(count=blocks, wgt=cols * turn.column_step, acc=turn.rows))
        if item > 1:
            loops.append(ArrayLoop(count=item, act=unit * config.rows))
        row_loop = len(loops)
        loops.append(ArrayLoop(count=folds, wgt=unit * item, acc=unit))
        loops.append(ArrayLoop(count=unit, last=rest, act=config.rows, acc=1))
        return Matrix(
            wgt_row=turn.column_step,
            transposed=1,
            acc_base=acc,
            act_unsigned=int(item > 1),
            wgt_unsigned=int(item > 1),
            fold_loops=row_loop + 1,
            k_loops=1 << (col_loop + 1) if item > 1 else 0,
            row_loop=row_loop,
            rows=unit * item,
            rows_last=rest * item,
            col_loop=col_loop,
            cols=min(cols, turn.columns),
            cols_last=turn.columns - (blocks - 1) * cols,
            loop=loops,
        )

    def _vector(self, turn: Turn, acc: int) -> Vector:
        cols = self.config.cols
        blocks = turn.blocks(cols)
        low, high, kind = (-128, 127, DType.I8) if turn.item == 1 else (0, 65535, DType.U16)
        block = VectorLoop(count=blocks, a=turn.rows, o=cols * turn.item)
        loops = [block, *(VectorLoop(count=count, a=a, o=o) for count, a, o in turn.results)]
        # Words one after the other: writes then keep clear of the banks that the array reads.
        loops.sort(key=lambda loop: -loop.o)
        return Vector(
            a_space=Space.ACC,
            a_type=DType.I32,
            a_base=acc,
            o_type=kind,
            o_min=low,
            o_max=high,
            lane_loop=next(i for i, loop in enumerate(loops) if loop is block),
            lanes=min(cols, turn.columns),
            lanes_last=turn.columns - (blocks - 1) * cols,
            loop=loops,
        )


def _distance(steps: Sequence[int], strides: Sequence[int]) -> int:
    """Bytes to an element so many steps away along each axis."""
    return sum(n * stride for n, stride in zip(steps, strides, strict=True))

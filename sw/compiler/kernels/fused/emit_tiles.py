"""Schedule of a FusedLayer: load the tiles of its sources, run its steps on them, store the result.

Loads run ahead by as many tiles as buffers rotate; a source that a tile shares with an earlier one
is not loaded again.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from spec.isa import DType, Reduce, Space, Table
from spec.numerics import RANGES
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.emitter import LayerEmitter
from sw.compiler.kernels.fused.layer import FusedLayer, FusedStep, Result, Source
from sw.compiler.kernels.fused.product import ProductTiles
from sw.compiler.kernels.fused.rotation import Held, Rotation
from sw.compiler.kernels.fused.sizes import MAX_EXTENT
from sw.compiler.kernels.fused.tiles import FusedPlan, Ranges, fused_tiles
from sw.compiler.kernels.nests import Row, Stride, follow, in_lanes, nest
from sw.compiler.kernels.params import pack_params
from sw.compiler.kernels.slots import Slots
from sw.compiler.program.records import Vector, VectorFields
from sw.compiler.program.virtual import Access, Buffer, Place

INT32 = RANGES[DType.I32]


class TileEmitter(LayerEmitter):
    """Emits a layer whose tiles hold what they reduce whole."""

    def __init__(self, layer: FusedLayer, plan: FusedPlan, context: EmitContext) -> None:
        super().__init__(layer.name, context)
        self.layer, self.plan = layer, plan
        self.rotations = self._rotations()
        self.params = self._param_slots()
        self.loaded: dict[Ranges, list[Held]] = {}
        self.lookup = -1
        self.product: ProductTiles | None = None
        if layer.product is not None:
            lefts = 2 * plan.abreast
            self.product = ProductTiles(
                layer.product, layer.name, plan.tile, context, lefts, plan.rights
            )

    def _rotations(self) -> list[Rotation]:
        """The places of every register; those in the accumulator from its top down."""
        out, top = [], self.config.acc_vectors
        plan = self.plan
        for i, (count, size, vectors) in enumerate(
            zip(plan.slots, plan.nbytes, plan.vectors, strict=True)
        ):
            places: list[Held] = []
            if i in plan.held:
                pass
            elif vectors:
                for _ in range(count):
                    top -= vectors
                    places.append(Held(self.context.acc, top, vectors))
            else:
                buffers = self.slots(f"r{i}_", Place.SPAD, count, size).buffers
                places = [Held(buffer, 0, size) for buffer in buffers]
            out.append(Rotation(places))
        return out

    def _param_slots(self) -> tuple[Slots, int] | None:
        """(buffers, blocks of lanes in each) of parameters: of all of them if they fit, else of
        two that take turns.
        """
        sets = len(self.layer.params)
        if not sets:
            return None
        blocks = -(-self.layer.shape[-1] // self.config.cols)
        if sets * blocks > self.plan.entries:
            sets, blocks = 2, min(blocks, max(1, self.plan.entries // 2))
        return self.slots("param", Place.PARAM, sets, blocks), blocks

    def run(self) -> None:
        """Emit the whole layer."""
        tiles = list(fused_tiles(self.layer, self.plan))
        # Loads run ahead by as many tiles as results rotate.
        ahead, abreast = self.plan.slots[self.layer.results[0].register], self.plan.abreast
        for i in range(min(ahead, len(tiles))):
            self._load(tiles[i], tiles[: i + 1])
        for first in range(0, len(tiles), abreast):
            after = first + abreast
            self._compute(tiles[first:after])
            for i in range(first + ahead, min(after + ahead, len(tiles))):
                self._load(tiles[i], tiles[after : i + 1])

    def _key(self, register: int, tile: Ranges) -> Hashable:
        spans = self.layer.registers[register].spans
        return tuple(r for r, span in zip(tile, spans, strict=True) if span)

    def _load(self, tile: Ranges, pending: Sequence[Ranges]) -> None:
        buffers = []
        if self.product is not None:
            self.product.load(tile)
        for i in range(len(self.layer.sources)):
            if i in self.plan.held:
                buffers.append(self._on_chip(i, tile))
                continue
            needed = {self._key(i, other) for other in pending}
            buffer, fresh = self.rotations[i].take(self._key(i, tile), needed)
            if fresh:
                self._load_source(i, tile, buffer)
            buffers.append(buffer)
        self.loaded[tile] = buffers

    def _placed(self, register: int) -> Source | Result:
        """Where a register that is a source or a result has its tensor."""
        if register < len(self.layer.sources):
            return self.layer.sources[register]
        return next(r for r in self.layer.results if r.register == register)

    def _on_chip(self, register: int, tile: Ranges) -> Held:
        """The piece of a tensor on chip that a tile of a register is."""
        found, held = self._placed(register), self.layer.registers[register]
        name = found.tensor if isinstance(found, Source) else found.view.tensor
        at, last = found.offset, 0
        for (a, b), span, step in zip(tile, held.spans, found.strides, strict=True):
            if span:
                at += a * step
                last += (b - a - 1) * step
        return Held(self.context.tensors[name], at, last + held.kind.bytes)

    def _chip(self, register: int, tile: Ranges) -> tuple[Stride, ...]:
        """Strides of a register's dense tile, or on chip; 0 where it has one element."""
        held = self.layer.registers[register]
        if register in self.plan.held:
            strides = self._placed(register).strides
            return tuple(s if span else 0 for s, span in zip(strides, held.spans, strict=True))
        vectors = self.plan.vectors[register] > 0
        out: list[Stride] = []
        step: Stride = Fraction(1, self.config.cols) if vectors else held.kind.bytes
        for (a, b), span in zip(reversed(tile), reversed(held.spans), strict=True):
            out.append(step if span else 0)
            step *= b - a if span else 1
            if vectors and len(out) == 1:
                step = math.ceil(step)
        return tuple(reversed(out))

    def _load_source(self, register: int, tile: Ranges, place: Held) -> None:
        source, held = self.layer.sources[register], self.layer.registers[register]
        chip = self._chip(register, tile)
        base, box = source.offset, []
        for (a, b), span, mem, step in zip(tile, held.spans, source.strides, chip, strict=True):
            if span:
                base += a * mem
                box.append((b - a, mem, int(step)))
        memory = self.context.tensors[source.tensor]
        size = held.nbytes(tuple(b - a for a, b in tile))
        note = f"in r{register} {tile}"
        self.load_copies(memory, base, box, held.kind.bytes, place.buffer, 0, size, note)

    def _compute(self, group: Sequence[Ranges]) -> None:
        """Step after step, each on one tile after another: a step waits for the one before it."""
        held = [self._registers(tile) for tile in group]
        if self.product is not None:
            for tile, places in zip(group, held, strict=True):
                self.product.matrix(tile, places[self.product.product.register].at)
        for step in self.layer.steps:
            self._use_table(step)
            for tile, places in zip(group, held, strict=True):
                self._whole_step(step, tile, places)
        for tile, places in zip(group, held, strict=True):
            for result in self.layer.results:
                if result.register not in self.plan.held:
                    self._store(result, tile, places[result.register])

    def _registers(self, tile: Ranges) -> list[Held]:
        """The places of all registers of a tile, whose sources are loaded."""
        places = self.loaded.pop(tile)
        for i in range(len(places), len(self.layer.registers)):
            if i in self.plan.held:
                places.append(self._on_chip(i, tile))
            else:
                places.append(self.rotations[i].take(tile, set())[0])
        return places

    def _whole_step(self, step: FusedStep, tile: Ranges, places: list[Held]) -> None:
        """The VECTORs of a step on a tile: one, or one for each part of its parameters."""
        if step.params < 0 or self.params is None:
            self._step(step, tile, places, None)
            return
        for first in range(0, self._blocks(tile), self.params[1]):
            self._step(step, tile, places, self._loaded_params(step.params, first, tile))

    def _use_table(self, step: FusedStep) -> None:
        """There is one TABLE: it is loaded again where the step before used another."""
        if step.lookup not in (-1, self.lookup):
            self.lookup = step.lookup
            self.load_table_bytes(self.layer.tables[step.lookup].tobytes())

    def _blocks(self, tile: Ranges) -> int:
        """Vectors along the last dimension, of which no tile has a part only."""
        return -(-tile[-1][1] // self.config.cols)

    def _loaded_params(self, number: int, first: int, tile: Ranges) -> "_Params":
        """Parameters of as many blocks from `first` on as a buffer holds."""
        assert self.params is not None
        slots, most = self.params
        slot, fresh = slots.get((number, first), None)
        assert slot is not None
        cols, count = self.config.cols, min(most, self._blocks(tile) - first)
        start, stop = first * cols, min((first + count) * cols, tile[-1][1])
        if fresh:
            data = pack_params([self.layer.params[number]], start, stop, self.config)
            self.load_constant(data, Space.PARAM, slot, count, f"params {number} c{start}")
        return _Params(slot, start, stop)

    def _rows(self, step: FusedStep, tile: Ranges) -> list[Row]:
        """The loops of a step, neighbours merged where every stream goes on regularly."""
        registers = self.layer.registers
        read = [registers[i] for i in (step.a, step.b) if i is not None]
        a, out = self._chip(step.a, tile), self._chip(step.out, tile)
        b: tuple[Stride, ...] = (0,) * len(tile)
        if step.b is not None:
            b = self._chip(step.b, tile)
        rows: list[Row] = []
        for d, (start, stop) in enumerate(tile):
            n = stop - start
            if n == 1 or not any(r.spans[d] for r in read):
                continue
            reduced = step.reduce is not Reduce.NONE and d == step.axis
            row = Row(n, a[d], b[d], 0 if reduced else out[d], reduced)
            # Parameters go with the last dimension, which then is no part of a longer one.
            alone = step.params >= 0 and d == len(tile) - 1
            if rows and not alone and rows[-1].size * n <= MAX_EXTENT and follow(rows[-1], row):
                row = row._replace(size=n * rows.pop().size)
            rows.append(row)
        return rows

    def _step(
        self, step: FusedStep, tile: Ranges, places: list[Held], params: "_Params | None"
    ) -> None:
        """Append the VECTOR of a step on a tile."""
        b = None if step.b is None else places[step.b]
        rows = self._rows(step, tile)
        self._vector(step, rows, (places[step.a], b, places[step.out]), f"{step} {tile}", params)

    def _vector(
        self,
        step: FusedStep,
        loops: list[Row],
        places: tuple[Held, Held | None, Held],
        note: str,
        params: "_Params | None" = None,
    ) -> None:
        """Append the VECTOR of a step over `loops`, with A, B and result at `places`."""
        registers = self.layer.registers
        a, b, out = places
        kinds = (registers[step.a].kind, registers[step.b or 0].kind, registers[step.out].kind)
        items: list[Stride] = [
            Fraction(1, self.config.cols) if place is not None and place.acc else kind.bytes
            for place, kind in zip((a, b, out), kinds, strict=True)
        ]
        within_axis = step.axis < len(self.layer.shape) - 1
        rows, lanes = in_lanes(loops, items, within_axis)
        first = 0
        if params is not None and lanes.size > 1:
            first, lanes = params.start, lanes._replace(size=params.stop - params.start)
        made = nest(rows, lanes, self.config.cols, params is not None, by_rows=True)
        fields: VectorFields = {
            **made.fields,
            "a_space": Space.ACC if a.acc else Space.SPAD,
            "a_type": kinds[0],
            "a_base": a.at + int(first * lanes.a),
            "a_one": int(lanes.a == 0),
            "reduce": step.reduce if made.reduces else Reduce.NONE,
            "o_min": INT32[0],
            "o_max": INT32[1],
            "o_space": Space.ACC if out.acc else Space.SPAD,
            "o_type": kinds[2],
            "o_base": out.at + int(first * lanes.out),
        }
        accesses = [out.access(write=True), a.access(write=False)]
        bases = {"a_base": a.buffer, "o_base": out.buffer}
        if b is not None:
            fields["b_type"] = kinds[1]
            fields["b_base"] = b.at + int(first * lanes.b)
            fields["b_one"] = int(lanes.b == 0)
            bases["b_base"] = b.buffer
            accesses.append(b.access(write=False))
        if params is not None:
            bases["param_base"] = params.slot
            accesses.append(Access(buffer=params.slot, start=0, stop=params.slot.size, write=False))
        # What the step says of its operands' types goes before what their registers hold.
        record = Vector(**(fields | step.values), loop=made.loops)
        if record.table is not Table.OFF:
            table = self.context.table
            accesses.append(Access(buffer=table, start=0, stop=table.size, write=False))
        self.append(record, bases, accesses, note)

    def _store(self, result: Result, tile: Ranges, place: Held) -> None:
        held, chip = self.layer.registers[result.register], self._chip(result.register, tile)
        base, box = result.offset, []
        for (a, b), span, mem, step in zip(tile, held.spans, result.strides, chip, strict=True):
            if span:
                base += a * mem
                box.append((b - a, mem, int(step)))
        target = self.context.tensors[result.view.tensor]
        self.store_copies(target, base, box, held.kind.bytes, place.buffer, f"store {tile}")


@dataclass(frozen=True, slots=True)
class _Params:
    """Parameters of elements `start`…`stop` of the last dimension, in `slot`."""

    slot: Buffer
    start: int
    stop: int

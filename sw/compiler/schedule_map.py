"""Schedule of a MapLayer: load the tiles of its sources, run its steps on them, store the result.

Loads run ahead by as many tiles as buffers rotate; a source that a tile shares with an earlier one
is not loaded again.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from spec.config import NpuConfig
from spec.isa import LOOPS, Alu, DType, Opcode, Reduce, Space
from spec.numerics import RANGES
from sw.compiler.draft import Access, Buffer, Place
from sw.compiler.emitter import LayerEmitter, Resources
from sw.compiler.layers import Epilogue
from sw.compiler.map_layer import MAX_EXTENT, MapLayer, MapPlan, Ranges, Step, map_tiles

Row = tuple[int, int, int, int, bool]
"""One dimension of a step: (count, strides of a, b and result in bytes, whether it is reduced)."""


class _Rotation:
    """Buffers by what they hold; what tiles still to be computed need is never given away."""

    def __init__(self, buffers: list[Buffer]) -> None:
        self.free = list(buffers)
        self.held: dict[Hashable, Buffer] = {}

    def take(self, key: Hashable, needed: set[Hashable]) -> tuple[Buffer, bool]:
        """(the buffer of `key`, whether it is new to it)."""
        if key in self.held:
            return self.held[key], False
        if not self.free:
            old = next(k for k in self.held if k not in needed)
            self.free.append(self.held.pop(old))
        self.held[key] = self.free.pop(0)
        return self.held[key], True


class MapScheduler(LayerEmitter):
    """Emits the nodes of one MapLayer into a draft."""

    def __init__(
        self, layer: MapLayer, plan: MapPlan, config: NpuConfig, res: Resources, index: int
    ) -> None:
        low, high = RANGES[DType.I32]
        epilogue = Epilogue(dtype=DType.I32, low=low, high=high)
        super().__init__(layer.name, epilogue, config, res, index)
        self.layer, self.plan = layer, plan
        self.rotations = [
            _Rotation(self.slots(f"r{i}_", Place.SPAD, count, size).buffers)
            for i, (count, size) in enumerate(zip(plan.slots, plan.nbytes, strict=True))
        ]
        self.loaded: dict[Ranges, list[Buffer]] = {}
        self.lookup = -1

    def run(self) -> None:
        """Emit the whole layer."""
        tiles = list(map_tiles(self.layer, self.plan))
        ahead = self.plan.slots[-1]
        for i in range(min(ahead, len(tiles))):
            self._load(tiles[i], tiles[: i + 1])
        for i, tile in enumerate(tiles):
            self._compute(tile)
            if i + ahead < len(tiles):
                self._load(tiles[i + ahead], tiles[i + 1 : i + ahead + 1])

    def _key(self, register: int, tile: Ranges) -> Hashable:
        spans = self.layer.registers[register].spans
        return tuple(r for r, span in zip(tile, spans, strict=True) if span)

    def _load(self, tile: Ranges, pending: Sequence[Ranges]) -> None:
        buffers = []
        for i in range(len(self.layer.sources)):
            needed = {self._key(i, other) for other in pending}
            buffer, fresh = self.rotations[i].take(self._key(i, tile), needed)
            if fresh:
                self._load_source(i, tile, buffer)
            buffers.append(buffer)
        self.loaded[tile] = buffers

    def _chip(self, register: int, tile: Ranges) -> tuple[int, ...]:
        """Byte strides of a register's dense tile; 0 where it has one element."""
        held = self.layer.registers[register]
        out, step = [], held.kind.bytes
        for (a, b), span in zip(reversed(tile), reversed(held.spans), strict=True):
            out.append(step if span else 0)
            step *= b - a if span else 1
        return tuple(reversed(out))

    def _load_source(self, register: int, tile: Ranges, buffer: Buffer) -> None:
        source, held = self.layer.sources[register], self.layer.registers[register]
        chip = self._chip(register, tile)
        base, box = source.offset, []
        for (a, b), span, mem, step in zip(tile, held.spans, source.strides, chip, strict=True):
            if span:
                base += a * mem
                box.append((b - a, mem, step))
        memory = self.res.tensors[source.tensor]
        size = held.nbytes(tuple(b - a for a, b in tile))
        note = f"in r{register} {tile}"
        self.load_copies(memory, base, box, held.kind.bytes, buffer, 0, size, note)

    def _compute(self, tile: Ranges) -> None:
        extents = tuple(b - a for a, b in tile)
        last = len(self.layer.registers) - 1
        buffers = self.loaded.pop(tile)
        for i in range(len(buffers), last + 1):
            buffer, _ = self.rotations[i].take(tile, set())
            buffers.append(buffer)
        for step in self.layer.steps:
            if step.lookup not in (-1, self.lookup):
                self.lookup = step.lookup
                self.load_table_bytes(self.layer.tables[step.lookup].tobytes())
            self._step(step, tile, extents, buffers)
        self._store(tile, buffers[last])

    def _rows(self, step: Step, tile: Ranges) -> list[Row]:
        """The loops of a step, neighbours merged where every stream goes on regularly."""
        registers = self.layer.registers
        read = [registers[i] for i in (step.a, step.b) if i is not None]
        a, out = self._chip(step.a, tile), self._chip(step.out, tile)
        b = (0,) * len(tile) if step.b is None else self._chip(step.b, tile)
        rows: list[Row] = []
        for d, (start, stop) in enumerate(tile):
            n = stop - start
            if d == step.axis and step.part[1]:
                n = step.part[1]
            if n == 1 or not any(r.spans[d] for r in read):
                continue
            reduced = step.reduce is not Reduce.NONE and d == step.axis
            row = (n, a[d], b[d], 0 if reduced else out[d], reduced)
            if rows and rows[-1][0] * n <= MAX_EXTENT and _follow(rows[-1], row):
                row = (n * rows.pop()[0], *row[1:])
            rows.append(row)
        return rows

    def _step(
        self, step: Step, tile: Ranges, extents: tuple[int, ...], buffers: list[Buffer]
    ) -> None:
        registers, cols = self.layer.registers, self.config.cols
        rows = self._rows(step, tile)
        kinds = (registers[step.a].kind, registers[step.b or 0].kind, registers[step.out].kind)
        items = tuple(kind.bytes for kind in kinds)
        if rows and rows[-1][4] and step.axis < len(tile) - 1:
            # The dimension inside the axis is cut to one element: nothing to combine across lanes.
            rows.append((1, items[0], items[1], items[2], False))
        n, *inner, across = rows.pop() if rows else (1, *items, False)
        count, lanes = -(-n // cols), min(n, cols)
        block = {"count": count, **_strides([cols * s for s in inner])}
        loops = [{"count": r[0], **_strides(r[1:4])} for r in rows if not r[4]]
        reduced = [{"count": r[0], **_strides(r[1:4])} for r in rows if r[4]]
        values: dict[str, Any] = {
            "lane_loop": 7,
            "lanes": lanes,
            "lanes_last": n - (count - 1) * lanes,
        }
        if across:
            # The blocks of a row are combined too: lowering has seen to it that they are whole.
            assert n <= cols or n % cols == 0
            reduced = [block, *reduced] if count > 1 else reduced
            values |= {"reduce_lanes": 1, "lanes_last": lanes}
        else:
            loops = [block, *loops]
            values["lane_loop"] = 0
        if not across and inner[0] == 0:
            values["a_one"] = 1
        if step.b is not None and inner[1] == 0:
            values["b_one"] = 1
        assert len(loops) + len(reduced) <= LOOPS
        values |= {
            "a_space": Space.SPAD,
            "o_space": Space.SPAD,
            "a_type": kinds[0],
            "o_type": kinds[2],
            "o_min": self.epilogue.low,
            "o_max": self.epilogue.high,
            "alu": Alu.PASS,
            "reduce": step.reduce if reduced or across else Reduce.NONE,
            "a_base": step.part[0] * self._chip(step.a, tile)[step.axis],
            "reduce_loops": sum(1 << (len(loops) + i) for i in range(len(reduced))),
            "loop": [*loops, *reduced],
            **step.values,
        }
        accesses = [_all(buffers[step.out], registers[step.out].nbytes(extents), True)]
        accesses.append(_all(buffers[step.a], registers[step.a].nbytes(extents), False))
        bases = {"a_base": buffers[step.a], "o_base": buffers[step.out]}
        if step.b is not None:
            values.setdefault("b_type", kinds[1])
            bases["b_base"] = buffers[step.b]
            accesses.append(_all(buffers[step.b], registers[step.b].nbytes(extents), False))
        if values.get("table"):
            table = self.res.table
            accesses.append(Access(buffer=table, start=0, stop=table.size, write=False))
        self.node(Opcode.VECTOR, values, bases, accesses, f"{step} {tile}")

    def _store(self, tile: Ranges, buffer: Buffer) -> None:
        layer = self.layer
        last = len(layer.registers) - 1
        held, chip = layer.registers[last], self._chip(last, tile)
        base, box = layer.target_offset, []
        for (a, b), span, mem, step in zip(
            tile, held.spans, layer.target_strides, chip, strict=True
        ):
            if span:
                base += a * mem
                box.append((b - a, mem, step))
        target = self.res.tensors[layer.output.tensor]
        self.store_copies(target, base, box, held.kind.bytes, buffer, f"store {tile}")


def _follow(outer: Row, inner: Row) -> bool:
    """Whether both dimensions are one."""
    same = outer[4] == inner[4]
    return same and outer[1:4] == tuple(inner[0] * stride for stride in inner[1:4])


def _strides(strides: Sequence[int]) -> dict[str, int]:
    return dict(zip("abo", strides, strict=True))


def _all(buffer: Buffer, size: int, write: bool) -> Access:
    return Access(buffer=buffer, start=0, stop=size, write=write)

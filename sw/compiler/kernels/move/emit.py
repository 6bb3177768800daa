"""Instructions of a MoveLayer: LOAD gathers and fills a tile, STORE writes it in long runs."""

from collections.abc import Sequence

from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.dma import copies
from sw.compiler.kernels.emitter import LayerEmitter
from sw.compiler.kernels.move.layer import MoveLayer
from sw.compiler.kernels.move.plan import MovePlan, Ranges, move_tiles
from sw.compiler.program.records import DmaLoop, Load
from sw.compiler.program.virtual import Access, Buffer, Place


def emit_move(layer: MoveLayer, plan: MovePlan, context: EmitContext) -> None:
    """Append the instructions of a layer."""
    _MoveEmitter(layer, plan, context).run()


class _MoveEmitter(LayerEmitter):
    def __init__(self, layer: MoveLayer, plan: MovePlan, context: EmitContext) -> None:
        super().__init__(layer.name, context)
        self.layer, self.plan = layer, plan

    def run(self) -> None:
        """Emit the whole layer."""
        tiles, plan = move_tiles(self.layer, self.plan), self.plan
        if plan.from_chip or plan.to_chip:
            for tile in tiles:
                self._copy(tile)
            return
        buffers = self.slots("move", Place.SPAD, plan.slots, plan.nbytes)
        for tile in tiles:
            slot, _ = buffers.get(tile, None)
            assert slot is not None
            self._load(tile, slot)
            self._store(tile, slot)

    def _copy(self, tile: Ranges) -> None:
        """A tile of a copy of which one side is on chip."""
        layer = self.layer
        offset, _, strides = layer.target
        source, target = (self.context.tensors[x] for x in (layer.tensor, layer.output.tensor))
        sides = ((layer.offset, layer.source_strides), (offset, strides))
        ats = [
            at + sum(a * s for (a, _), s in zip(tile, steps, strict=True)) for at, steps in sides
        ]
        item, counts = layer.output.item, [b - a for a, b in tile]
        if self.plan.to_chip:
            box = list(zip(counts, layer.source_strides, strides, strict=True))
            reach = sum((n - 1) * s for n, s in zip(counts, strides, strict=True)) + item
            self.load_copies(
                source, ats[0], box, item, target, ats[1], ats[1] + reach, f"in {tile}", ats[1]
            )
        else:
            box = list(zip(counts, strides, layer.source_strides, strict=True))
            self.store_copies(target, ats[1], box, item, source, f"store {tile}", ats[0])

    def _chip_strides(self, tile: Ranges) -> list[int]:
        out, step = [], self.layer.output.item
        for start, stop in reversed(tile):
            out.append(step)
            step *= stop - start
        return out[::-1]

    def _load(self, tile: Ranges, slot: Buffer) -> None:
        layer, item = self.layer, self.layer.output.item
        chip = self._chip_strides(tile)
        size = chip[0] * (tile[0][1] - tile[0][0])
        inner = [
            (max(a, before), min(b, before + extent))
            for (a, b), before, extent in zip(tile, layer.before, layer.source_shape, strict=True)
        ]
        empty = any(b <= a for a, b in inner)
        if empty or tuple(inner) != tile:
            self._fill(size, slot)
        if empty:
            return
        base = layer.offset + sum(
            (a - before) * s
            for (a, _), before, s in zip(inner, layer.before, layer.source_strides, strict=True)
        )
        at = sum((a - t[0]) * c for (a, _), t, c in zip(inner, tile, chip, strict=True))
        box = [
            (b - a, s, c) for (a, b), s, c in zip(inner, layer.source_strides, chip, strict=True)
        ]
        source = self.context.tensors[layer.tensor]
        self.load_copies(source, base, box, item, slot, at, size, f"in {tile}")

    def _fill(self, size: int, slot: Buffer) -> None:
        """Fill the tile with the pad value: its commonest byte everywhere, then the others."""
        item = self.layer.output.item
        value = (self.layer.value % (1 << (8 * item))).to_bytes(item, "little")
        common = max(value, key=value.count)
        self._fill_bytes(slot, size, 0, common, [], size)
        for i, byte in enumerate(value):
            if byte != common:
                for copy in copies([(size // item, 0, item)], 1):
                    self._fill_bytes(slot, size, i + copy.chip, byte, copy.loops, copy.run)

    def _fill_bytes(
        self, slot: Buffer, size: int, at: int, byte: int, loops: Sequence[DmaLoop], run: int
    ) -> None:
        self.append(
            Load(chip_base=at, run=run, fill=1, fill_value=byte, loop=loops),
            {"chip_base": slot},
            [Access(buffer=slot, start=0, stop=size, write=True)],
            "fill",
        )

    def _store(self, tile: Ranges, slot: Buffer) -> None:
        offset, _, strides = self.layer.target
        item = self.layer.output.item
        chip = self._chip_strides(tile)
        mem = offset + sum(a * s for (a, _), s in zip(tile, strides, strict=True))
        box = [(b - a, s, c) for (a, b), s, c in zip(tile, strides, chip, strict=True)]
        target = self.context.tensors[self.layer.output.tensor]
        self.store_copies(target, mem, box, item, slot, f"store {tile}")

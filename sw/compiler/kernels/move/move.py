"""Layers that only move data: PAD, TRANSPOSE and copies. Tiles, and the LOAD and STORE of each.

A tile is a range of the output's outermost dimension that does not fit as a whole, inside single
indices of the dimensions before it. LOAD gathers (and fills), STORE writes it out in long runs.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from spec.config import NpuConfig
from spec.isa import Opcode, Space
from sw.compiler.errors import CompileError
from sw.compiler.kernels.conv.cost import LATENCY
from sw.compiler.kernels.dma import copies
from sw.compiler.kernels.emitter import LayerEmitter, Resources
from sw.compiler.kernels.layers import Epilogue, MoveLayer
from sw.compiler.placement.residency import Room
from sw.compiler.program.draft import Access, Buffer, Place

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """`axis` is cut in steps of `step`, the axes before it in ones; `slots` buffers of `nbytes`."""

    axis: int
    step: int
    slots: int
    nbytes: int
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return self.slots * self.nbytes

    def __str__(self) -> str:
        return f"axis {self.axis} in steps of {self.step}; {self.slots} x {self.nbytes}"


def plan_move(layer: MoveLayer, config: NpuConfig, room: Room) -> MovePlan:
    """The largest tiles that fit twice, in about four pieces if the tensor is large."""
    word = config.word_bytes
    limit = room.buffer_bytes // 2
    _, shape, _ = layer.target
    size = math.prod(shape) * layer.output.item
    cycles = size // config.bus_bytes + 3 * LATENCY
    for axis, length in enumerate(shape):
        inner = layer.output.item
        for s in shape[axis + 1 :]:
            inner *= s
        if inner <= limit - word:
            step = min(length, (limit - word) // inner)
            if step == length and axis == 0 and inner * length > 4096:
                step = max(1, -(-length // 4))
            nbytes = -(-step * inner // word) * word
            return MovePlan(
                axis=axis, step=step, slots=2, nbytes=nbytes, cycles=cycles, traffic=2 * size
            )
    raise CompileError("no tile fits in the scratchpad", node=layer.name, source=layer.source)


def move_tiles(layer: MoveLayer, plan: MovePlan) -> Iterator[Ranges]:
    """Ranges (start, stop) of each dimension of the result."""
    _, shape, _ = layer.target
    axes = [range(size) for size in shape[: plan.axis]]
    for fixed in itertools.product(*axes):
        for at in range(0, shape[plan.axis], plan.step):
            cut = (at, min(at + plan.step, shape[plan.axis]))
            rest = [(0, size) for size in shape[plan.axis + 1 :]]
            yield (*((i, i + 1) for i in fixed), cut, *rest)


class MoveScheduler(LayerEmitter):
    """Emits the nodes of one MoveLayer into a draft."""

    def __init__(
        self, layer: MoveLayer, plan: MovePlan, config: NpuConfig, res: Resources, index: int
    ) -> None:
        epilogue = Epilogue(dtype=layer.dtype, low=0, high=0)
        super().__init__(layer.name, epilogue, config, res, index)
        self.layer, self.plan = layer, plan
        self.buffers = self.slots("move", Place.SPAD, plan.slots, plan.nbytes)

    def run(self) -> None:
        """Emit the whole layer."""
        for tile in move_tiles(self.layer, self.plan):
            slot, _ = self.buffers.get(tile, None)
            assert slot is not None
            self._load(tile, slot)
            self._store(tile, slot)

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
        source = self.res.tensors[layer.tensor]
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
        self, slot: Buffer, size: int, at: int, byte: int, loops: list[dict[str, int]], run: int
    ) -> None:
        self.node(
            Opcode.LOAD,
            {
                "chip_base": at,
                "run": run,
                "space": Space.SPAD,
                "fill": 1,
                "fill_value": byte,
                "loop": loops,
            },
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
        target = self.res.tensors[self.layer.output.tensor]
        self.store_copies(target, mem, box, item, slot, f"store {tile}")

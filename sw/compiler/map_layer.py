"""MapLayer: a short VECTOR program over tiles of operands that broadcast, and its plan.

Registers hold tensors, tile by tile in the scratchpad: first the sources, then what the steps
write; the last step writes the result. A register spans a dimension or has one element along it,
so broadcasting and reductions are only differences between what registers span.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.isa import DType, Reduce
from sw.compiler.conv_cost import HANDOVER, LATENCY
from sw.compiler.errors import CompileError
from sw.compiler.layers import Layer, View
from sw.compiler.residency import Room

STEP_CYCLES = 25
"""Cycles that an instruction costs besides its vectors: it waits for the results of the last."""

TABLE_CYCLES = 200
"""Cycles that a TABLE takes where one replaces another in every tile."""

PIECES = 4
"""Tiles that a layer is cut into, if not too small, so that load, compute and store overlap."""

MAX_EXTENT = 0xFFFF
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Elements of type `kind`; `spans`: by dimension, whether it has more than one there."""

    kind: DType
    spans: tuple[bool, ...]

    def extents(self, tile: tuple[int, ...]) -> tuple[int, ...]:
        """Its size in a tile, by dimension."""
        return tuple(n if span else 1 for n, span in zip(tile, self.spans, strict=True))

    def nbytes(self, tile: tuple[int, ...]) -> int:
        return math.prod(self.extents(tile)) * self.kind.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an operand lies in memory: root, byte offset, byte strides by dimension."""

    tensor: str
    dtype: str
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One VECTOR: registers a and b (None: no operand, or an immediate) to register `out`.

    `values`: fields of the instruction besides places and loops. `reduce`: combines along `axis`,
    of which `part` is (first, count) if only some is read. `lookup`: number of the layer's TABLE.
    """

    a: int
    out: int
    b: int | None = None
    values: Mapping[str, int] = field(default_factory=dict)
    reduce: Reduce = Reduce.NONE
    axis: int = -1
    part: tuple[int, int] = (0, 0)
    lookup: int = -1

    def __str__(self) -> str:
        operands = f"r{self.a}" + (f", r{self.b}" if self.b is not None else "")
        fields = " ".join(f"{k}={v}" for k, v in self.values.items())
        reduce = f" {self.reduce.name} over {self.axis}" if self.reduce else ""
        return f"r{self.out} = ({operands}) {fields}{reduce}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLayer(Layer):
    """Elementwise operators and reductions over dimensions `shape`.

    The last register is the result, at `target_offset` with `target_strides` in the output's
    tensor. `whole`: dimensions that no tile may cut. `tables`: what steps with TABLE look up.
    """

    shape: tuple[int, ...]
    sources: tuple[Source, ...]
    registers: tuple[Register, ...]
    steps: tuple[Step, ...]
    target_offset: int
    target_strides: tuple[int, ...]
    whole: frozenset[int] = frozenset()
    tables: tuple[NDArray[np.generic], ...] = ()

    @property
    def inputs(self) -> tuple[View, ...]:
        return tuple(
            View(tensor=s.tensor, dtype=s.dtype, shape=(1, 1, 1, 1), strides=(0, 0, 0))
            for s in self.sources
        )

    def __str__(self) -> str:
        sources = ", ".join(f"%{s.tensor}+{s.offset}@{list(s.strides)}" for s in self.sources)
        steps = "; ".join(map(str, self.steps))
        return f"map {self.name}: {self.output} over {list(self.shape)} of {sources}: {steps}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlan:
    """Extents of a tile; bytes of each register's buffer, and how many such buffers rotate."""

    tile: tuple[int, ...]
    nbytes: tuple[int, ...]
    slots: tuple[int, ...]
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return sum(n * size for n, size in zip(self.slots, self.nbytes, strict=True))

    def __str__(self) -> str:
        return f"tile {list(self.tile)}; {self.spad_bytes} bytes; {self.cycles} cycles"


def plan_map(layer: MapLayer, config: NpuConfig, room: Room) -> MapPlan:
    """The largest tiles that fit twice, yet several per layer; `CompileError` if none fits."""
    for count in (2, 1):
        tile = _largest(layer, config, room.buffer_bytes, count)
        if tile is not None:
            return _costed(layer, config, _sized(layer, config, tile, count))
    raise CompileError(
        f"no tile of {list(layer.shape)} fits in {room.buffer_bytes} bytes of scratchpad",
        node=layer.name,
        source=layer.source,
        hint="use a configuration with a larger scratchpad",
    )


def _sized(layer: MapLayer, config: NpuConfig, tile: tuple[int, ...], count: int) -> MapPlan:
    word, last = config.word_bytes, len(layer.registers) - 1
    moved = {*range(len(layer.sources)), last}
    return MapPlan(
        tile=tile,
        nbytes=tuple(-(-r.nbytes(tile) // word) * word for r in layer.registers),
        slots=tuple(count if i in moved else 1 for i in range(last + 1)),
    )


def _largest(layer: MapLayer, config: NpuConfig, room: int, count: int) -> tuple[int, ...] | None:
    """A tile that grows from the innermost dimension outwards until the room is full."""
    tile = [size if d in layer.whole else 1 for d, size in enumerate(layer.shape)]
    target = max(math.prod(layer.shape) // PIECES, 64 * config.cols)

    def fits(d: int, n: int) -> bool:
        grown = (*tile[:d], n, *tile[d + 1 :])
        most = _sized(layer, config, grown, count).spad_bytes <= room
        return most and math.prod(grown) <= MAX_EXTENT * config.cols // 2

    if not fits(0, tile[0]):
        return None
    for d in reversed(range(len(tile))):
        if d in layer.whole:
            continue
        low, high = 1, min(layer.shape[d], MAX_EXTENT)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(d, middle) else (low, middle - 1)
        enough = -(-target // math.prod(tile))
        n = min(low, max(enough, config.cols if d == len(tile) - 1 else 1))
        if n < layer.shape[d] and n > config.cols:
            n -= n % config.cols
        tile[d] = n
        if n < layer.shape[d]:
            break
    return tuple(tile)


def _costed(layer: MapLayer, config: NpuConfig, plan: MapPlan) -> MapPlan:
    tiles = math.prod(-(-n // t) for n, t in zip(layer.shape, plan.tile, strict=True))
    vectors = 0
    for step in layer.steps:
        read = [layer.registers[i] for i in (step.a, step.b) if i is not None]
        sizes = [max(r.extents(plan.tile)[d] for r in read) for d in range(len(plan.tile))]
        inner = sizes[-1]
        vectors += math.prod(sizes[:-1]) * -(-inner // config.cols) + STEP_CYCLES
    load = sum(layer.registers[i].nbytes(layer.shape) for i in range(len(layer.sources)))
    store = layer.registers[-1].nbytes(layer.shape)
    bus = config.bus_bytes
    if len(layer.tables) > 1:
        vectors += TABLE_CYCLES * len(layer.tables)
    cycles = max(tiles * vectors, load / bus, store / bus)
    cycles += (load + store) / tiles / bus + 3 * LATENCY + HANDOVER
    return MapPlan(
        tile=plan.tile,
        nbytes=plan.nbytes,
        slots=plan.slots,
        cycles=math.ceil(cycles),
        traffic=load + store,
    )


def map_tiles(layer: MapLayer, plan: MapPlan) -> Iterator[Ranges]:
    """Ranges (start, stop) of every dimension, row-major."""
    cuts = [
        [(at, min(at + step, size)) for at in range(0, size, step)]
        for size, step in zip(layer.shape, plan.tile, strict=True)
    ]
    yield from itertools.product(*cuts)

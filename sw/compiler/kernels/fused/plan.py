"""The plan of a MapLayer: extents of a tile, and which registers lie in the accumulator."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from spec.config import NpuConfig
from spec.isa import Alu, Reduce, Scale
from sw.compiler.errors import CompileError
from sw.compiler.kernels.conv.cost import HANDOVER, LATENCY
from sw.compiler.kernels.fused.layer import MapLayer, Step
from sw.compiler.placement.residency import Room

STEP_CYCLES = 32
"""Cycles that an instruction costs besides its vectors: it waits for the results of the last."""

TABLE_CYCLES = 200
"""Cycles that a TABLE takes where one replaces another in every tile."""

PIECES = (4, 8, 16)
"""Tiles that a layer is cut into, if not too small, so that load, compute and store overlap."""

MAX_EXTENT = 0xFFFF
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlan:
    """Extents of a tile; bytes of each register's buffer, and how many such buffers rotate.

    `vectors`: of the accumulator, for each register; 0 for those in the scratchpad. `operands`:
    bytes of those of a product.
    """

    tile: tuple[int, ...]
    nbytes: tuple[int, ...]
    slots: tuple[int, ...]
    vectors: tuple[int, ...]
    operands: int = 0
    cycles: int = 0
    traffic: int = 0

    @property
    def spad_bytes(self) -> int:
        return self.operands + sum(n * s for n, s in zip(self.slots, self.nbytes, strict=True))

    @property
    def acc_vectors(self) -> int:
        return sum(n * size for n, size in zip(self.slots, self.vectors, strict=True))

    def __str__(self) -> str:
        where = f"{self.spad_bytes} bytes, {self.acc_vectors} accumulator vectors"
        return f"tile {list(self.tile)}; {where}; {self.cycles} cycles"


def plan_map(layer: MapLayer, config: NpuConfig, room: Room) -> MapPlan:
    """The cheapest tiles that fit, twice if possible; `CompileError` if none fits."""
    found = []
    for acc in _places(layer):
        for count in (2, 1):
            fitting = [
                plan
                for pieces in PIECES
                if (plan := _largest(layer, config, room, count, pieces, acc))
            ]
            found += [_costed(layer, config, plan) for plan in fitting]
            if fitting:
                break
    if found:
        return min(found, key=lambda plan: plan.cycles)
    raise CompileError(
        f"no tile of {list(layer.shape)} fits in {room.buffer_bytes} bytes of scratchpad",
        node=layer.name,
        source=layer.source,
        hint="use a configuration with a larger scratchpad",
    )


def _places(layer: MapLayer) -> tuple[bool, ...]:
    """Whether registers may lie in the accumulator, and whether they must."""
    if layer.product is not None:
        return (True,)
    return (True, False) if any(r.acc for r in layer.registers) else (False,)


def _sized(
    layer: MapLayer, config: NpuConfig, tile: tuple[int, ...], count: int, acc: bool
) -> MapPlan:
    word = config.word_bytes
    moved = {*range(len(layer.sources)), *(r.register for r in layer.results)}
    product, operands = layer.product, 0
    if product is not None:
        moved.add(product.register)
        operands = sum(2 * -(-n // word) * word for n in product.nbytes(tile))
    wide = tile[-1] >= config.cols or product is not None
    held = [acc and r.acc and wide for r in layer.registers]
    pairs = list(zip(layer.registers, held, strict=True))
    slots = tuple(count if i in moved else 1 for i in range(len(pairs)))
    return MapPlan(
        tile=tile,
        nbytes=tuple(
            0 if h else word * _padded(-(-r.nbytes(tile) // word), n, config)
            for (r, h), n in zip(pairs, slots, strict=True)
        ),
        slots=slots,
        vectors=tuple(r.vectors(tile, config.cols) if h else 0 for r, h in pairs),
        operands=operands,
    )


def _padded(words: int, slots: int, config: NpuConfig) -> int:
    """Words of a buffer such that its neighbour begins in other banks: steps read A and B in the
    same cycles.
    """
    banks = config.banks
    for more in range(banks):
        apart = slots * (words + more)
        if 0 < (apart + apart // banks + apart // banks**2) % banks <= banks // 2:
            return words + more
    return words


def _largest(
    layer: MapLayer, config: NpuConfig, room: Room, count: int, pieces: int, acc: bool
) -> MapPlan | None:
    """A tile that grows from the innermost dimension outwards until the room is full."""
    tile = [size if d in layer.whole else 1 for d, size in enumerate(layer.shape)]
    target = max(math.prod(layer.shape) // pieces, 64 * config.cols)

    def fits(d: int, n: int) -> bool:
        grown = (*tile[:d], n, *tile[d + 1 :])
        plan = _sized(layer, config, grown, count, acc)
        # A product beside it leaves it the last bank.
        vectors = config.acc_bank if room.beside else config.acc_vectors
        fit = plan.spad_bytes <= room.buffer_bytes and plan.acc_vectors <= vectors
        return fit and math.prod(grown) <= MAX_EXTENT * config.cols // 2

    if not fits(0, tile[0]):
        return None
    for d in reversed(range(len(tile))):
        if d in layer.whole or (layer.product is not None and d < len(tile) - 2):
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
    return _sized(layer, config, tuple(tile), count, acc)


def _costed(layer: MapLayer, config: NpuConfig, plan: MapPlan) -> MapPlan:
    tiles = math.prod(-(-n // t) for n, t in zip(layer.shape, plan.tile, strict=True))
    compute = sum(_step_cycles(layer, step, plan, config) + STEP_CYCLES for step in layer.steps)
    load = sum(layer.registers[i].nbytes(layer.shape) for i in range(len(layer.sources)))
    store = sum(layer.registers[r.register].nbytes(layer.shape) for r in layer.results)
    bus = config.bus_bytes
    if len(layer.tables) > 1:
        compute += TABLE_CYCLES * len(layer.tables)
    if layer.product is not None:
        compute = max(compute, layer.product.cycles(plan.tile, config))
        load += sum(layer.product.nbytes(layer.shape)) * math.prod(layer.shape[:-2])
    cycles = max(tiles * compute, load / bus, store / bus)
    cycles += (load + store) / tiles / bus + 3 * LATENCY + HANDOVER
    return replace(plan, cycles=math.ceil(cycles), traffic=load + store)


def _step_cycles(layer: MapLayer, step: Step, plan: MapPlan, config: NpuConfig) -> int:
    """Its vectors, times the words of the widest operand."""
    tile, cols = plan.tile, config.cols
    read = [i for i in (step.a, step.b) if i is not None]
    spans = [layer.registers[i].spans for i in (*read, step.out)]
    sizes = [n if any(s[d] for s in spans[: len(read)]) else 1 for d, n in enumerate(tile)]
    flat = len(set(spans)) == 1 and step.params < 0 and not any(plan.vectors[i] for i in read)
    if flat:
        sizes = [math.prod(sizes)]
    vectors = math.prod(sizes[:-1]) * -(-sizes[-1] // cols)
    lanes = min(cols, sizes[-1])

    def words(register: int) -> int:
        if plan.vectors[register]:
            return 1
        held = layer.registers[register]
        count = lanes if flat or held.spans[-1] else 1
        return -(-count * held.kind.bytes // config.word_bytes)

    uses_b = step.values.get("a_scale") is Scale.OPERAND or not Alu(step.values.get("alu", 0)).unary
    wide = max([words(step.a), *([words(read[1])] if uses_b and len(read) > 1 else [])])
    written = 1 if step.reduce is not Reduce.NONE else words(step.out)
    return vectors * max(wide, written)


def map_tiles(layer: MapLayer, plan: MapPlan) -> Iterator[Ranges]:
    """Ranges (start, stop) of every dimension, row-major."""
    cuts = [
        [(at, min(at + step, size)) for at in range(0, size, step)]
        for size, step in zip(layer.shape, plan.tile, strict=True)
    ]
    yield from itertools.product(*cuts)

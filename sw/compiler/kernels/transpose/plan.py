"""The plan of a TransposeLayer: which axes are turned, and the tile."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from spec.config import NpuConfig
from spec.isa import LOOPS, Engine
from sw.compiler.errors import CompileError
from sw.compiler.kernels.boxes import halvings
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.dma import Box, copies
from sw.compiler.kernels.transpose.cost import (
    copy_cycles,
    fetch_cycles,
    start_cycles,
    turn_cycles,
)
from sw.compiler.kernels.transpose.layer import Axis, TransposeLayer
from sw.compiler.kernels.transpose.turns import Form, Sizes, pitch_of, turns
from sw.compiler.machine.costs import MEMORY_LATENCY, READY, RESULT_LATENCY

SLOTS = 3
"""Buffers before and after the turns: one is filled, one is read, one waits for memory."""

INNER = (2, 1)
"""Elements of the inner part of an axis that is cut in two, in bytes of a bus word."""

BETWEEN = 3
"""Buffers between two turns: the second one is so many tiles behind the first, less one, and never
waits for results that VECTOR has just written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposePlan:
    """Tiles of `sizes`, turned as `form` says; bytes of the buffers before, after and between: 0
    for a tensor on chip.

    places: parts of the accumulator that the turns take in rotation.
    """

    form: Form
    sizes: Sizes
    places: int
    before: int
    after: int
    between: int
    identity: int
    cycles: int
    traffic: int

    @property
    def spad_bytes(self) -> int:
        return SLOTS * (self.before + self.after) + BETWEEN * self.between + self.identity

    def __str__(self) -> str:
        form = self.form
        way = "twice" if form.twice else "once"
        sizes = "x".join(map(str, self.sizes))
        return f"{way}, rows {list(form.rows)} over {form.over}; {sizes}; {self.spad_bytes} bytes"


def plan_transpose(layer: TransposeLayer, config: NpuConfig, budget: MemoryBudget) -> TransposePlan:
    """The fastest tiles of the fastest form; `CompileError` if none fits."""
    best: TransposePlan | None = None
    held = layer.input.tensor in budget.held, layer.output.tensor in budget.held
    for form in forms(layer, config, *held):
        for sizes in _tiles(form, config):
            plan = _plan(layer, form, sizes, config)
            if plan.spad_bytes <= budget.buffer_bytes and (
                best is None or plan.cycles < best.cycles
            ):
                best = plan
    if best is None:
        raise CompileError("no tile fits in the scratchpad", node=layer.name, source=layer.source)
    return best


def forms(
    layer: TransposeLayer, config: NpuConfig, from_chip: bool = False, to_chip: bool = False
) -> Iterator[Form]:
    """Every way to turn the axes of a layer whose tensors lie in memory, or on chip."""
    if not config.transposed_weights:
        return
    found: list[Form] = []
    # Elements of int16 are turned as pairs of bytes: see `pattern` of emit.py.
    if layer.item <= min(2, config.rows):
        found += _once(layer.axes, layer.item)
    whole = (Axis(size=layer.item, source=1, target=1),) if layer.item > 1 else ()
    for axes in _cut(layer.axes, config):
        found += _twice((*axes, *whole))
    placed = (replace(form, from_chip=from_chip, to_chip=to_chip) for form in found)
    yield from (form for form in placed if form.is_possible())


def _once(axes: tuple[Axis, ...], item: int) -> Iterator[Form]:
    inner = min(range(len(axes)), key=lambda i: axes[i].target)
    order = sorted(range(len(axes)), key=lambda i: axes[i].source)
    for count in range(1, order.index(inner) + 1):
        yield Form(axes=axes, rows=tuple(order[:count]), over=inner, item=item)


def _twice(axes: tuple[Axis, ...]) -> Iterator[Form]:
    by_target = sorted(range(len(axes)), key=lambda i: axes[i].target)
    order = sorted(range(len(axes)), key=lambda i: axes[i].source)
    for over in order:
        rest = [i for i in order if i != over]
        for count in range(1, len(rest) + 1):
            rows = tuple(rest[:count])
            if by_target[0] not in rows:
                continue
            inside = next((k for k, i in enumerate(by_target) if i not in rows), len(by_target))
            yield Form(axes=axes, rows=rows, over=over, columns=tuple(by_target[:inside]))


def _cut(axes: tuple[Axis, ...], config: NpuConfig) -> Iterator[tuple[Axis, ...]]:
    """The axes, and with a long one as two: a tile has all of the inner one."""
    yield axes
    for i, axis in enumerate(axes):
        for inner in (words * config.bus_bytes for words in INNER):
            outer, rest = divmod(axis.size, inner)
            if rest or outer < config.cols:
                continue
            parts = (
                Axis(size=outer, source=axis.source * inner, target=axis.target * inner),
                replace(axis, size=inner),
            )
            yield (*axes[:i], *parts, *axes[i + 1 :])


def _tiles(form: Form, config: NpuConfig) -> Iterator[Sizes]:
    """Tiles whose sums fit in half of the accumulator, and whose loops in instructions."""
    full = [axis.size for axis in form.axes]
    last = form.rows[-1]
    unit = max(1, config.rows // form.item)
    lengths = [full[last]] if form.twice else halvings(full[last], min(unit, full[last]))
    for length in lengths:
        for over in halvings(full[form.over], min(config.cols, full[form.over])):
            sizes = [full[i] if i in form.rows else 1 for i in range(len(full))]
            sizes[last], sizes[form.over] = length, over
            if not _fits(form, tuple(sizes), config):
                continue
            if not form.twice:
                _widen(form, sizes, config)
            yield tuple(sizes)


def _widen(form: Form, sizes: list[int], config: NpuConfig) -> None:
    """Take more of the other axes into the tile, as far as it fits."""
    rest = [i for i in range(len(sizes)) if i not in form.rows and i != form.over]
    for i in sorted(rest, key=lambda i: form.axes[i].source):
        for size in halvings(form.axes[i].size, 1):
            if _fits(form, (*sizes[:i], size, *sizes[i + 1 :]), config):
                sizes[i] = size
                break


def _fits(form: Form, sizes: Sizes, config: NpuConfig) -> bool:
    # Loops of a MATRIX besides `others`: columns, bytes of an element, rows and the stream.
    around = LOOPS - 3 - (form.item > 1)
    return all(
        turn.vectors(config.cols) <= config.acc_half
        and len(turn.others) <= around
        and len(turn.results) < LOOPS
        for turn in turns(form, sizes, config.cols, config.word_bytes)
    )


def _plan(layer: TransposeLayer, form: Form, sizes: Sizes, config: NpuConfig) -> TransposePlan:
    word, size = config.word_bytes, math.prod(sizes) * form.item
    total = math.prod(axis.size for axis in form.axes) * form.item
    made = turns(form, sizes, config.cols, word)
    load, store = (
        0.0 if held else copy_cycles(copies(box(form, sizes, source=source), form.item), config)
        for source, held in ((True, form.from_chip), (False, form.to_chip))
    )
    matrix, vector = map(sum, zip(*(turn_cycles(t, config) for t in made), strict=True))
    places = 4 if all(t.vectors(config.cols) <= config.acc_bank for t in made) else 2
    if places == 2:
        # The next turn but one waits until the sums of this one have been read.
        matrix += len(made) * (RESULT_LATENCY[Engine.MATRIX] + READY)
    tile = max(load + fetch_cycles(len(made), config), store, matrix, vector)
    # A buffer is free again when what reads it is done: its turn, or memory that was written.
    last = [sum(turn_cycles(t, config)) for t in made]
    if not form.from_chip:
        tile = max(tile, (MEMORY_LATENCY + load + last[0]) / SLOTS)
    if not form.to_chip:
        tile = max(tile, (MEMORY_LATENCY + store + last[-1]) / SLOTS)
    in_memory = (not form.from_chip) + (not form.to_chip)
    rows = math.prod(sizes[i] for i in form.rows)
    return TransposePlan(
        form=form,
        sizes=sizes,
        places=places,
        before=0 if form.from_chip else -(-size // word) * word,
        after=0 if form.to_chip else -(-size // word) * word,
        between=rows * pitch_of(form, sizes, word) if form.twice else 0,
        identity=-(-len(pattern(form.item, config)) // word) * word,
        cycles=math.ceil(tile * total / size + load + store) + start_cycles(len(made), in_memory),
        traffic=in_memory * total,
    )


def box(form: Form, sizes: Sizes, *, source: bool) -> Box:
    """A tile as LOAD (`source`) or STORE copies it."""
    chip = form.strides(sizes, source=source)
    rows = [
        (n, axis.source if source else axis.target, c)
        for n, axis, c in zip(sizes, form.axes, chip, strict=True)
    ]
    return sorted(rows, key=lambda row: -row[1])


def pattern(item: int, config: NpuConfig) -> bytes:
    """The constant activations: the identity matrix, or what puts two bytes together.

    An element of two bytes is low + 256 high, the latter as 128 + 128 in two folds.
    """
    rows = config.rows
    if item == 1:
        return bytes(int(r == i) for i in range(rows) for r in range(rows))
    count = rows // 2
    first = [(r == 2 * i) + 128 * (r == 2 * i + 1) for i in range(count) for r in range(rows)]
    second = [128 * (r == 2 * i + 1) for i in range(count) for r in range(rows)]
    return bytes(first + second)

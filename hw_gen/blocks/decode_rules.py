"""The rules of legality as hardware, from the instruction table and `spec.legality`'s rules."""

from collections.abc import Iterator

from amaranth.hdl import *

from hw_gen.layouts import instruction_layout
from spec.config import NpuConfig
from spec.isa import (
    DMA_LOOPS,
    FORMATS,
    LOOPS,
    DType,
    Field,
    Group,
    Opcode,
    Point,
    Reduce,
    Scale,
    Space,
    Table,
)
from spec.isa import Format as InstructionFormat
from spec.numerics import SHIFT_MAX, SHIFT_MIN

_NO_LOOP = 7
_HEADER = ("opcode", "granules")


def broken_rules(config: NpuConfig, opcode: Opcode, word: Value) -> Iterator[Value]:
    """A bit per rule that the instruction in `word` (granules of `opcode`) breaks.

    Opcode and length are checked before the instruction is complete.
    """
    fmt = FORMATS[opcode]
    if fmt.granules * 128 > fmt.bits:
        yield word[fmt.bits : fmt.granules * 128].any()
    view = instruction_layout(opcode)(word[: fmt.bits])
    yield from _fields(fmt, view)
    if opcode in (Opcode.BEGIN, Opcode.END):
        return
    yield view.loop[0].last != view.loop[0]["count"]
    yield from _sync(config, opcode, view)
    if opcode is Opcode.LOAD:
        yield from _load(config, view)
    elif opcode is Opcode.MATRIX:
        yield from _matrix(config, view)
    elif opcode is Opcode.DEPTHWISE:
        yield from _depthwise(config, view)
    elif opcode is Opcode.VECTOR:
        yield from _vector(config, view)


def _fields(fmt: InstructionFormat, view) -> Iterator[Value]:
    for item in fmt.items:
        if isinstance(item, Group):
            for element in range(item.count):
                for field in item.fields:
                    yield from _range(field, view[item.name][element][field.name])
        elif item.name not in _HEADER:
            yield from _range(item, view[item.name])


def _range(field: Field, value: Value) -> Iterator[Value]:
    """Only bounds that the field's width does not already impose."""
    low = -(1 << (field.bits - 1)) if field.signed else 0
    high = (1 << (field.bits - field.signed)) - 1
    if field.reserved:
        yield value != 0
        return
    if field.minimum > low:
        yield value < field.minimum
    if field.maximum < high:
        yield value > field.maximum


def _sync(config: NpuConfig, opcode: Opcode, view) -> Iterator[Value]:
    deepest = len(view.loop)
    for slots in (view.wait, view.post):
        for i in range(len(slots)):
            slot = slots[i]
            used = slot.amount != 0
            wrong = slot.level > deepest
            if config.semaphores < 1 << len(slot.sem):
                wrong = wrong | (slot.sem >= config.semaphores)
            if opcode is Opcode.LOAD:
                wrong = wrong | (slot.point != Point.DONE)
            elif opcode is Opcode.MATRIX:
                deep = slot.level > view.fold_loops
                wrong = wrong | ((slot.point == Point.WEIGHTS) & deep)
            else:
                wrong = wrong | (slot.point == Point.WEIGHTS)
            yield used & wrong


def _load(config: NpuConfig, view) -> Iterator[Value]:
    yield view.space == Space.ACC
    yield view.indexed & ((view.space != Space.SPAD) | view.fill)
    lanes = (config.bus_bytes - 1).bit_length()
    skewed = view.mem_base[:lanes] != view.chip_base[:lanes]
    for i in range(DMA_LOOPS):
        loop = view.loop[i]
        runs = (loop["count"] > 1) | (loop.last > 1)
        mem, chip = loop.mem.as_unsigned(), loop.chip.as_unsigned()
        skewed = skewed | (runs & (mem[:lanes] != chip[:lanes]))
    aligned = (view.space == Space.PARAM) | (view.space == Space.TABLE)
    yield aligned & ~view.fill & skewed


def _matrix(config: NpuConfig, view) -> Iterator[Value]:
    for name, limit in (("rows", config.rows), ("cols", config.cols)):
        yield view[name] > limit
        yield view[f"{name}_last"] > limit
    for name in ("row_loop", "col_loop"):
        yield _not_a_fold_loop(view, name)
    if not config.transposed_weights:
        yield view.transposed
    yield from _operands(view)


def _depthwise(config: NpuConfig, view) -> Iterator[Value]:
    if not config.depthwise:
        yield Const(1, 1)
        return
    yield view.lanes > config.cols
    yield view.lanes_last > config.cols
    yield view.kernel_cols > config.taps
    yield view.stride > view.kernel_cols
    yield _not_a_fold_loop(view, "lane_loop")
    yield from _operands(view)


def _not_a_fold_loop(view, name: str) -> Value:
    return (view[name] != _NO_LOOP) & (view[name] >= view.fold_loops)


def _operands(view) -> Iterator[Value]:
    for name in ("act", "wgt"):
        zero, unsigned_ = view[f"{name}_zp"], view[f"{name}_unsigned"]
        # Operand minus zero point stays in -256…255: for uint8 0…255 that is 0 ≤ zp ≤ 256, which
        # 255 bounds already; for int8 -128…127 it is -128 ≤ zp ≤ 128.
        yield unsigned_ & (zero < 0)
        yield ~unsigned_ & ((zero < -128) | (zero > 128))


def _vector(config: NpuConfig, view) -> Iterator[Value]:
    yield view.a_clamp & (view.a_min.as_signed() > view.a_max.as_signed())
    yield view.o_min.as_signed() > view.o_max.as_signed()
    yield view.lanes > config.cols
    yield view.lanes_last > config.cols
    yield (view.lane_loop != _NO_LOOP) & (view.lane_loop >= LOOPS)
    for operand in ("a", "o"):
        narrow = view[f"{operand}_type"] != DType.I32
        yield (view[f"{operand}_space"] == Space.ACC) & narrow
    for operand in ("a", "b", "o"):
        tensor = view[f"{operand}_scale"] == Scale.TENSOR
        shift = view[f"{operand}_shift"]
        yield tensor & ((shift < SHIFT_MIN) | (shift > SHIFT_MAX))
    for bound in (view.o_min, view.o_max):
        # An int16 has as many copies of its sign as are above it.
        yield (view.table == Table.I16) & bound[15:].any() & ~bound[15:].all()
    yield view.reduce_lanes & (view.reduce == Reduce.NONE)
    inside = Const(0, 1)
    broken = Const(0, 1)
    for i in range(LOOPS):
        loop = view.loop[i]
        mine = view.reduce_loops[i]
        runs = (loop["count"] > 1) | (loop.last > 1)
        broken = (
            broken | (inside & ~mine & runs) | (mine & ~view.reduce_lanes & (view.lane_loop == i))
        )
        inside = inside | mine
    yield (view.reduce != Reduce.NONE) & broken

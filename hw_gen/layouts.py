"""Amaranth layouts derived from the instruction table, and the records that engines exchange."""

from collections.abc import Callable
from itertools import product
from typing import Any

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from spec.codec import ROWS, Bits, Elements
from spec.config import NpuConfig
from spec.isa import DISPLACED, FORMATS, GRANULE_BITS, SYNC_SLOTS, Field, Group, Opcode

INDEX_BITS = 16
"""Width of an instruction's index in its program."""
OPCODE_BITS = FORMATS[Opcode.BEGIN].field("opcode").bits
"""At the same place in each instruction."""


def _shape(field: Field) -> Shape:
    return signed(field.bits) if field.signed else unsigned(field.bits)


def field_shape(opcode: Opcode, name: str) -> Shape:
    """Width and sign of a field; `loop.count` is a field of the group `loop`."""
    return _shape(FORMATS[opcode].field(name))


SEMAPHORE = field_shape(Opcode.LOAD, "wait.sem")
AMOUNT = field_shape(Opcode.LOAD, "wait.amount")
LANES = field_shape(Opcode.VECTOR, "lanes")


def _layout(opcode: Opcode, keep: Callable[[str, Field], bool]) -> data.StructLayout:
    """keep: whether to take a field, by its name (`loop.count` in the group `loop`).

    A group of which nothing is taken is left out: Verilog has no signals of no bits.
    """
    members: dict[str, Any] = {}
    for item in FORMATS[opcode].items:
        if isinstance(item, Group):
            fields = [f for f in item.fields if keep(f"{item.name}.{f.name}", f)]
            element = data.StructLayout({f.name: _shape(f) for f in fields})
            if fields:
                members[item.name] = data.ArrayLayout(element, item.count)
        elif keep(item.name, item):
            members[item.name] = _shape(item)
    return data.StructLayout(members)


def instruction_layout(opcode: Opcode) -> data.StructLayout:
    """The fields of `opcode` in the order, widths and signs of the instruction table."""
    return _layout(opcode, lambda name, field: True)


def fields_in_order(opcode: Opcode, word: Value) -> Value:
    """The bits of an instruction as `instruction_layout` has them: those of an element together,
    also where they lie apart in the word (`spec.isa_format.Field`)."""
    parts = []
    for item in ROWS[opcode].items:
        if isinstance(item, Bits):
            parts.append(word[item.shift :][: item.field.bits])
            continue
        for element, bits in product(range(item.count), item.fields):
            parts.append(word[item.place(bits, element) :][: bits.field.bits])
    return Cat(*parts)


_FETCHED = frozenset(
    {"opcode", "granules", *(f"{name}_by" for names in DISPLACED.values() for name in names)}
)
WEIGHT_FIELDS = frozenset(
    {"wgt_base", "wgt_row", "wgt_zp", "wgt_unsigned", "loop.wgt", "transposed"}
    | {"col_loop", "cols", "cols_last"}
)
"""Fields of MATRIX that only its weight sequencer needs."""
STREAM_FIELDS = frozenset(
    {"act_base", "act_zp", "act_unsigned", "acc_base", "accumulate", "k_loops"}
    | {"y0", "x0", "height", "width", "loop.act", "loop.acc", "loop.dy", "loop.dx"}
)
"""Fields of MATRIX that only its main sequencer needs."""


_BASES = frozenset(
    {"mem_base", "chip_base", "act_base", "wgt_base", "acc_base", "a_base", "b_base", "o_base"}
    | {"param_base", "y0", "x0"}
)
"""Where a sequencer's running values begin: nobody else needs them, and not after that."""
_HELD = frozenset(
    {"lanes", "lanes_last", "lane_loop", "rows", "rows_last", "row_loop", "run", "space", "fill"}
    | {"cols", "cols_last", "col_loop", "region"}
)
"""What the longest paths begin with: sums of these fields and addresses decide whether a step may
go. A sequencer has them in registers."""
_STARTING = _BASES | _HELD | {"loop.count", "loop.last", "fold_loops"}


def engine_layout(opcode: Opcode, without: frozenset[str] = frozenset()) -> data.StructLayout:
    """The fields of `opcode` that its engine needs as long as it works on it.

    `without`: those that this part of the engine does not need, or that belong to functions which
    the configuration lacks (`spec.optional.absent_fields`). Opcode, length, displacements and
    reserved fields are for fetch alone.
    """
    assert all(FORMATS[opcode].field(name) for name in without)
    dropped = _FETCHED | _BASES | without
    return _layout(opcode, lambda n, f: not f.reserved and n not in dropped)


def rest_layout(opcode: Opcode, without: frozenset[str] = frozenset()) -> data.StructLayout:
    """The fields of `engine_layout` that stay in the memory of the instruction's queue."""
    return engine_layout(opcode, without | {f for f, _ in engine_layout(opcode) if f in _HELD})


def start_layout(opcode: Opcode, without: frozenset[str] = frozenset()) -> data.StructLayout:
    """The fields of `opcode` that its sequencer needs to begin with it, and its index.

    `waits`, `posts`: the slots whose amount is not 0, of waits those that this sequencer obeys. It
    has them in registers, for the ways to the semaphores and to the queues of posts are long.
    """
    fields = _layout(opcode, lambda n, f: n in _STARTING - without)
    slots = {"waits": SYNC_SLOTS, "posts": SYNC_SLOTS}
    return data.StructLayout({"instr": fields, **slots, "index": INDEX_BITS})


def loops_in_granules(opcode: Opcode) -> tuple[int, data.StructLayout] | None:
    """Where the loops of an instruction begin, and the fields of one, without those that lie apart.

    For loops that have the bits of a granule, so that each granule completes one; None for others.
    """
    for item in ROWS[opcode].items:
        if item.name == "loop" and isinstance(item, Elements):
            fields = [bits for bits in item.fields if not bits.field.apart]
            if fields[0].step == GRANULE_BITS:
                layout = data.StructLayout({bits.name: _shape(bits.field) for bits in fields})
                return item.place(fields[0], 0), layout
    return None


def instruction_stream(opcode: Opcode, without: frozenset[str] = frozenset()) -> wiring.Signature:
    """Instructions from a queue, seen by the queue.

    `start` counts while `valid`; the instruction is taken with valid & ready. `rest` is of what was
    taken last, from the next cycle on: it is the output of the queue's memory.

    On an FPGA, `loops_in_granules` come as `entries`, one by one, while the instruction before is
    executed, so that no register has to hold them.
    """
    entries = {"valid": 1, "level": range(FORMATS[opcode].loops)}
    members = {
        "valid": Out(1),
        "ready": In(1),
        "start": Out(start_layout(opcode, without)),
        "rest": Out(rest_layout(opcode, without)),
    }
    if found := loops_in_granules(opcode):
        kept = {name: field.shape for name, field in found[1] if f"loop.{name}" not in without}
        entries["payload"] = data.StructLayout(kept)
        members["entries"] = Out(data.StructLayout(entries))
    return wiring.Signature(members)


def selected(layout: data.StructLayout, fields: Any) -> Value:
    """The bits of `layout` out of a view that has its fields and others."""
    parts = []
    for name, field in layout:
        if isinstance(field.shape, data.ArrayLayout):
            elements = range(field.shape.length)
            parts += [selected(field.shape.elem_shape, fields[name][i]) for i in elements]
        else:
            parts.append(Value.cast(fields[name])[: field.width])
    return Cat(*parts)


def acc_tag_layout(config: NpuConfig) -> data.StructLayout:
    """What travels with a vector through the array to the accumulator."""
    return data.StructLayout({"valid": 1, "addr": config.acc_addr_bits, "overwrite": 1, "fires": 1})


post_layout = data.StructLayout({"sem": SEMAPHORE, "amount": AMOUNT, "index": INDEX_BITS})
"""One semaphore update, and the instruction that it belongs to."""

posts_layout = data.StructLayout(
    {
        "slots": data.ArrayLayout(
            data.StructLayout({"sem": SEMAPHORE, "amount": AMOUNT}), SYNC_SLOTS
        ),
        "index": INDEX_BITS,
    }
)
"""All updates of an instruction, and its index."""

post_entry_layout = data.StructLayout({"posts": posts_layout, "enable": SYNC_SLOTS, "last": 1})
"""The updates that fire together when some step of an instruction completes: of the instruction's
those with a bit of `enable`. `posts` is the same in every entry of an instruction; `last`: this is
its last entry."""

PostStream = stream.Signature(post_layout)
PostEntryStream = stream.Signature(post_entry_layout)

WaitPort = wiring.Signature(
    {"valid": Out(1), "sem": Out(SEMAPHORE), "amount": Out(AMOUNT), "grant": In(1)}
)
"""A sequencer asks for `amount`, until `grant` says that it was taken in the cycle before."""

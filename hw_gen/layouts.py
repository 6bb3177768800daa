"""Amaranth layouts derived from the instruction table, and the records that engines exchange."""

from typing import Any

from amaranth.hdl import *
from amaranth.lib import data, stream

from spec.config import NpuConfig
from spec.isa import FORMATS, SYNC_SLOTS, Field, Group, Opcode

INDEX_BITS = 16
"""Width of an instruction's index in its program."""


def _shape(field: Field) -> Shape:
    return signed(field.bits) if field.signed else unsigned(field.bits)


def field_shape(opcode: Opcode, name: str) -> Shape:
    """Width and sign of a field; `loop.count` is a field of the group `loop`."""
    return _shape(FORMATS[opcode].field(name))


SEMAPHORE = field_shape(Opcode.LOAD, "wait.sem")
AMOUNT = field_shape(Opcode.LOAD, "wait.amount")
LANES = field_shape(Opcode.VECTOR, "lanes")


def instruction_layout(opcode: Opcode) -> data.StructLayout:
    """The fields of `opcode` in the order, widths and signs of the instruction table."""
    members: dict[str, Any] = {}
    for item in FORMATS[opcode].items:
        if isinstance(item, Group):
            element = data.StructLayout({f.name: _shape(f) for f in item.fields})
            members[item.name] = data.ArrayLayout(element, item.count)
        else:
            members[item.name] = _shape(item)
    return data.StructLayout(members)


def queued_layout(opcode: Opcode) -> data.StructLayout:
    """What an engine's queue holds: the instruction and its index."""
    return data.StructLayout({"instr": instruction_layout(opcode), "index": INDEX_BITS})


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

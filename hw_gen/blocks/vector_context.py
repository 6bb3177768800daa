"""The settings of the VECTOR instructions that are under way, each in a slot."""

from typing import Any

from amaranth.hdl import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.layouts import LANES, field_shape
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, Opcode
from spec.optional import absent_fields

CONTEXT = [
    "a_one",
    "a_zp",
    "bias",
    "a_scale",
    "a_mult",
    "a_shift",
    "a_clamp",
    "a_min",
    "a_max",
    "a_shl",
    "alu",
    "b_one",
    "b_none",
    "b_zp",
    "b_scale",
    "b_mult",
    "b_shift",
    "reduce",
    "reduce_lanes",
    "o_scale",
    "o_mult",
    "o_shift",
    "o_zp",
    "o_min",
    "o_max",
    "table",
    "o_space",
    "o_type",
    "a_space",
    "a_type",
    "b_type",
]
"""Fields of VECTOR that the engine needs behind the issue of its steps."""


def context_layout(config: NpuConfig) -> data.StructLayout:
    absent = absent_fields(config, Opcode.VECTOR)
    return data.StructLayout(
        {name: field_shape(Opcode.VECTOR, name) for name in CONTEXT if name not in absent}
    )


def slot_shape(config: NpuConfig) -> Shape:
    """The number of a slot: a bit at least."""
    return Shape.cast(range(max(2, config.vector_contexts)))


def part_shape(config: NpuConfig) -> Shape:
    """The number of a part of a vector, where vectors pass the lanes in parts."""
    return Shape.cast(range(config.vector_parts))


def slots_layout(config: NpuConfig) -> data.StructLayout:
    """The contexts of all slots, and the one that comes: `into` which slot, if `takes` is 1."""
    context = context_layout(config)
    return data.StructLayout(
        {
            "held": data.ArrayLayout(context, config.vector_contexts),
            "came": context,
            "into": slot_shape(config),
            "takes": 1,
        }
    )


def tag_layout(config: NpuConfig) -> data.StructLayout:
    """What accompanies a step from its issue to the lanes."""
    return data.StructLayout(
        {
            "slot": slot_shape(config),
            "last": 1,  # of its instruction: the slot is free behind it
            "inside": 1,
            "red_first": 1,
            "red_last": 1,
            "param": config.param_addr_bits,
            "lanes": LANES,
            "o": CHIP_BITS,
            "fires": 1,
        }
    )


class SlotFields:
    """What a block reads of the contexts, by the slot that they are in.

    In the form for FPGAs the block has a small memory of contexts for each `slot` (the same object
    each time) that it reads by. A memory has one wire for each bit, where a choice from registers
    has one from each slot. Bits that the block does not read cost nothing.
    """

    def __init__(self, m: Module, platform: object, slots: Any) -> None:
        self._m = m
        self._slots = slots
        held = slots.shape()["held"].shape
        self._context = held.elem_shape
        self._many = held.length
        self._in_memory = self._many > 1 and asks_for(platform, "for_fpga")
        self._read: dict[int, tuple[Value, Any]] = {}

    @property
    def many(self) -> int:
        """How many slots there are."""
        return self._many

    def field(self, slot: Value, name: str) -> Value:
        """Field `name` of the context in `slot`; 0 where the configuration has no such field."""
        if name not in self._context.members:
            return Const(0, field_shape(Opcode.VECTOR, name))
        if self._in_memory:
            return self._memory(slot)[name]
        if self._many == 1:
            return self._slots.held[0][name]
        return Array(self._slots.held[i][name] for i in range(self._many))[slot]

    def fields(self, slot: Value) -> dict[str, Value]:
        """Every field of the context in `slot`, by name."""
        return {name: self.field(slot, name) for name in CONTEXT}

    def _memory(self, slot: Value) -> Any:
        """The context in `slot`, from a memory that every context is written to."""
        if id(slot) not in self._read:
            m, slots = self._m, self._slots
            contexts: memory.Memory = memory.Memory(
                shape=self._context,
                depth=1 << len(slots.into),
                init=[],
                # Most of its bits are not read: as block RAM it would take some all the same.
                attrs={"ram_style": "distributed"},
            )
            m.submodules[f"contexts_{len(self._read)}"] = contexts
            read, write = contexts.read_port(domain="comb"), contexts.write_port()
            m.d.comb += [
                read.addr.eq(slot),
                write.en.eq(slots.takes),
                write.addr.eq(slots.into),
                write.data.eq(slots.came),
            ]
            self._read[id(slot)] = slot, read.data
        return self._read[id(slot)][1]


class VectorContexts(wiring.Component):
    """Registers for the contexts of `vector_contexts` instructions, which take and leave them in
    order. A single one has no register: what comes is there as long as it is needed.

    Members
    -------
    i : ``In(stream)`` of contexts. slot : where the next one goes.
    slots : the contexts, from the cycle after they came.
    release : the last step of the oldest one has left the lanes.
    """

    def __init__(self, config: NpuConfig):
        self._context = context_layout(config)
        self._many = config.vector_contexts
        super().__init__(
            {
                "i": In(stream.Signature(self._context)),
                "slot": Out(slot_shape(config)),
                "slots": Out(slots_layout(config)),
                "release": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if self._many == 1:
            m.d.comb += [self.slots.held[0].eq(self.i.payload), self.i.ready.eq(1)]
            return m
        held = Signal(range(self._many + 1))
        take = Signal()
        m.d.comb += [
            self.i.ready.eq(held != self._many),
            take.eq(self.i.valid & self.i.ready),
            self.slots.takes.eq(take),
            self.slots.into.eq(self.slot),
            self.slots.came.eq(self.i.payload),
        ]
        m.d.sync += held.eq(held + take - self.release)
        with m.If(take):
            m.d.sync += self.slot.eq(self.slot + 1)
        for i in range(self._many):
            slot = Signal(self._context, name=f"context_{i}", reset_less=True)
            m.d.comb += self.slots.held[i].eq(slot)
            with m.If(take & (self.slot == i)):
                m.d.sync += slot.eq(self.i.payload)
        return m

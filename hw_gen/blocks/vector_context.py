"""The settings of the VECTOR instructions that are under way, each in a slot."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.layouts import LANES, field_shape
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


def slots_layout(config: NpuConfig) -> data.ArrayLayout:
    """The contexts of all slots."""
    return data.ArrayLayout(context_layout(config), config.vector_contexts)


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


def field_of(slots, slot: Value, name: str) -> Value:
    """Field `name` of the context in `slot`; 0 where the configuration has no such field."""
    if name not in slots.shape().elem_shape.members:
        return Const(0, field_shape(Opcode.VECTOR, name))
    if slots.shape().length == 1:
        return slots[0][name]
    return Array(slots[i][name] for i in range(slots.shape().length))[slot]


def fields_of(slots, slot: Value) -> dict[str, Value]:
    """Every field of the context in `slot`, by name."""
    return {name: field_of(slots, slot, name) for name in CONTEXT}


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
            m.d.comb += [self.slots[0].eq(self.i.payload), self.i.ready.eq(1)]
            return m
        held = Signal(range(self._many + 1))
        take = Signal()
        m.d.comb += [
            self.i.ready.eq(held != self._many),
            take.eq(self.i.valid & self.i.ready),
        ]
        m.d.sync += held.eq(held + take - self.release)
        with m.If(take):
            m.d.sync += self.slot.eq(self.slot + 1)
        for i in range(self._many):
            slot = Signal(self._context, name=f"context_{i}", reset_less=True)
            m.d.comb += self.slots[i].eq(slot)
            with m.If(take & (self.slot == i)):
                m.d.sync += slot.eq(self.i.payload)
        return m

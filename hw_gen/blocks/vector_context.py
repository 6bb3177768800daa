"""The settings of the VECTOR instructions that are under way, each in a slot."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.layouts import LANES, field_shape
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, Opcode

SLOTS = 4
"""Instructions that may have steps between their issue and the end of the lanes."""

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


def context_layout() -> data.StructLayout:
    return data.StructLayout({name: field_shape(Opcode.VECTOR, name) for name in CONTEXT})


SLOT = Shape.cast(range(SLOTS))
SLOTS_LAYOUT = data.ArrayLayout(context_layout(), SLOTS)


def tag_layout(config: NpuConfig) -> data.StructLayout:
    """What accompanies a step from its issue to the lanes."""
    return data.StructLayout(
        {
            "slot": SLOT,
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
    """Field `name` of the context in `slot`."""
    return Array(slots[i][name] for i in range(SLOTS))[slot]


def fields_of(slots, slot: Value) -> dict[str, Value]:
    """Every field of the context in `slot`, by name."""
    return {name: field_of(slots, slot, name) for name in CONTEXT}


class VectorContexts(wiring.Component):
    """Registers for the contexts of `SLOTS` instructions, which take and leave them in order.

    Members
    -------
    i : ``In(stream)`` of contexts. slot : where the next one goes.
    slots : the contexts, from the cycle after they came.
    release : the last step of the oldest one has left the lanes.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(context_layout())),
                "slot": Out(SLOT),
                "slots": Out(SLOTS_LAYOUT),
                "release": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        held = Signal(range(SLOTS + 1))
        take = Signal()
        m.d.comb += [
            self.i.ready.eq(held != SLOTS),
            take.eq(self.i.valid & self.i.ready),
        ]
        m.d.sync += held.eq(held + take - self.release)
        with m.If(take):
            m.d.sync += self.slot.eq(self.slot + 1)
        for i in range(SLOTS):
            slot = Signal(context_layout(), name=f"context_{i}", reset_less=True)
            m.d.comb += self.slots[i].eq(slot)
            with m.If(take & (self.slot == i)):
                m.d.sync += slot.eq(self.i.payload)
        return m

"""Vectors pass the lanes in parts where the configuration has fewer lanes than columns."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.vector_context import SlotFields, part_shape, slots_layout, tag_layout
from hw_gen.layouts import field_shape
from spec.config import NpuConfig
from spec.isa import Opcode


def step_layout(config: NpuConfig) -> data.StructLayout:
    """A step on its way to the lanes. a, b: raw operands, sign- or zero-extended to 32 bits,
    `cols` elements. a_zp, b_zp, b_none: fields of its context, which are used at once; merges:
    `merges_b` of them; sums: whether B is added to A (bit 0), and whether it is subtracted (1).
    """
    return _layout(config, config.cols)


def slice_layout(config: NpuConfig) -> data.StructLayout:
    """Elements of a step, one for each lane. Where a vector passes in parts, `part` is the number
    of this one, and `ends` tells the last one of the step; tag.last is that of the last one.
    """
    if config.vector_parts == 1:
        return step_layout(config)
    members = _layout(config, config.lane_count).members
    return data.StructLayout({**members, "part": part_shape(config), "ends": 1})


def _layout(config: NpuConfig, lanes: int) -> data.StructLayout:
    return data.StructLayout(
        {
            "tag": tag_layout(config),
            "a_zp": field_shape(Opcode.VECTOR, "a_zp"),
            "b_zp": field_shape(Opcode.VECTOR, "b_zp"),
            "b_none": 1,
            "merges": 1,
            "sums": 2,
            "a": 32 * lanes,
            "b": 32 * lanes,
        }
    )


class VectorSlicer(wiring.Component):
    """Offers a step part by part, as many parts as have lanes in use. A reduction across lanes
    takes all of them: each has sums of steps before.

    Members
    -------
    slots : contexts of the instructions.
    i : ``In(stream)`` of `step_layout`; it is taken with its last part.
    o : ``Out(stream)`` of `slice_layout`.

    Timing: a part a cycle; i leads to o in the same cycle.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "slots": In(slots_layout(config)),
                "i": In(stream.Signature(step_layout(config))),
                "o": Out(stream.Signature(slice_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        step, out, lanes = self.i.payload, self.o.payload, self._config.lane_count
        part, ends = Signal(part_shape(self._config)), Signal()
        across = SlotFields(m, platform, self.slots).field(step.tag.slot, "reduce_lanes")
        whole = part == self._config.vector_parts - 1
        m.d.comb += [
            ends.eq(whole | (~across & ((part + 1) * lanes >= step.tag.lanes))),
            out.ends.eq(ends),
            out.part.eq(part),
            out.tag.eq(step.tag),
            out.tag.last.eq(step.tag.last & ends),
            out.a.eq(step.a.word_select(part, 32 * lanes)),
            out.b.eq(step.b.word_select(part, 32 * lanes)),
            *(out[name].eq(step[name]) for name in ("a_zp", "b_zp", "b_none", "merges", "sums")),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready & ends),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += part.eq(Mux(ends, 0, part + 1))
        return m


class VectorCollector(wiring.Component):
    """Puts the parts of a result together, in the order in which they leave the lanes.

    Members
    -------
    valid, ends, value : a part; the last one of its result.
    whole : the result, in the cycle after its last part. Elements of parts that did not come are
    undefined.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "valid": In(1),
                "ends": In(1),
                "value": In(32 * config.lane_count),
                "whole": Out(32 * config.cols),
            }
        )

    def elaborate(self, platform):
        m = Module()
        part = Signal(part_shape(self._config))
        parts: list[Value] = []
        for p in range(self._config.vector_parts):
            held = Signal.like(self.value, name=f"part_{p}", reset_less=True)
            with m.If(self.valid & (part == p)):
                m.d.sync += held.eq(self.value)
            parts.append(held)
        m.d.comb += self.whole.eq(Cat(*parts))
        with m.If(self.valid):
            m.d.sync += part.eq(Mux(self.ends, 0, part + 1))
        return m

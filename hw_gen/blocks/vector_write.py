"""Writes the vector engine's results to the scratchpad or the accumulator."""

from collections.abc import Mapping

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.elements import element_bits, log2_bytes
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.vector_context import SlotFields, slots_layout, tag_layout
from hw_gen.blocks.vector_issue import BYTES_BITS
from hw_gen.blocks.vector_lanes import VectorLanes, lane_result
from hw_gen.blocks.vector_table import VectorTable
from hw_gen.checks import check
from hw_gen.interfaces import acc_write, spad_write
from hw_gen.layouts import LANES
from spec.config import NpuConfig
from spec.exhaustive import handles
from spec.isa import CHIP_BITS, DType, Reduce, Space

handles("hw_gen.blocks.vector_write", Space, Space.SPAD, Space.ACC, Space.PARAM, Space.TABLE)

DEPTH = VectorLanes.LATENCY + VectorTable.LATENCY + 6
"""Results in the lanes, two on their way through the queue, and some that wait for a bank."""


_PLACE = data.StructLayout(
    {
        "o": CHIP_BITS,
        "bytes": BYTES_BITS,
        "lanes": LANES,
        "kind": Shape.cast(DType),
        "fires": 1,
        "write": 1,
        "to_acc": 1,
    }
)
"""Where a result goes; `write`: there is one."""


class VectorWriter(wiring.Component):
    """A FIFO with reserved room behind the lanes, then as many writes as a result has words.

    Where a result goes is noted when its step enters the lanes, which keep the order.

    Members
    -------
    room : a step may enter the lanes; claim : one does, `tag`. slots : the contexts.
    i : ``In(lane_result(config))``, from the lanes.
    out, acc : the memories. done : a step with ``fires`` has been written.
    busy : something is claimed or held.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "room": Out(1),
                "claim": In(1),
                "tag": In(tag_layout(config)),
                "slots": In(slots_layout(config)),
                "i": In(lane_result(config)),
                "out": Out(spad_write(config)),
                "acc": Out(acc_write(config)),
                "done": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        values = Fifo(32 * self._config.cols, depth=DEPTH, far=True)
        places = Fifo(_PLACE, depth=DEPTH, far=True)
        m.submodules.values, m.submodules.places = values, places
        head, pop, claimed = Signal(_PLACE), Signal(), Signal(range(DEPTH + 1))
        needed = self._note(m, SlotFields(m, platform, self.slots).fields(self.tag.slot), places)
        m.d.comb += [
            head.eq(places.o.payload),
            values.i.valid.eq(self.i.valid),
            values.i.payload.eq(self.i.value),
            self.room.eq(claimed != DEPTH),
            self.busy.eq((claimed != 0) | ~self.out.empty),
        ]
        m.d.sync += claimed.eq(claimed + needed - pop)
        self._write(m, values, head, places.o.valid, pop)
        m.d.comb += [
            values.o.ready.eq(pop & head.write),
            places.o.ready.eq(pop),
        ]
        check(m, platform, self.room | ~needed, "vector write: claimed without room")
        check(m, platform, claimed <= DEPTH, "vector write: more claimed than the queue holds")
        check(m, platform, values.level <= claimed, "vector write: a result that was not claimed")
        check(
            m, platform, ~values.i.valid | values.i.ready, "vector write: queue written when full"
        )
        return m

    def _note(self, m: Module, context: Mapping[str, Value], places) -> Signal:
        """Where the result of a step goes that enters; returns: one with a result or a post."""
        tag, place = self.tag, Signal(_PLACE, name="place")
        fields = ("reduce", "reduce_lanes", "o_space", "o_type")
        reduce, across, space, kind = (context[name] for name in fields)
        lanes, needed = Signal(LANES), Signal()
        m.d.comb += [
            lanes.eq(Mux(across, 1, tag.lanes)),
            place.o.eq(tag.o),
            place.lanes.eq(lanes),
            place.bytes.eq(lanes << log2_bytes(kind)),
            place.kind.eq(kind),
            place.fires.eq(tag.fires),
            place.write.eq((reduce == Reduce.NONE) | tag.red_last),
            place.to_acc.eq(space == Space.ACC),
            needed.eq(self.claim & (place.write | tag.fires)),
            places.i.valid.eq(needed),
            places.i.payload.eq(place),
        ]
        return needed

    def _packed(self, m: Module, value: Value, kind: Value) -> Signal:
        """Lanes at the element size of the result, contiguous from byte 0."""
        cols = self._config.cols
        out = Signal(32 * cols, name="packed")
        with m.Switch(kind):
            for member in DType:
                bits = element_bits(member)
                with m.Case(member):
                    m.d.comb += out.eq(Cat(value[32 * c : 32 * c + bits] for c in range(cols)))
        return out

    def _write(self, m: Module, values, head, noted: Value, pop: Signal) -> None:
        cfg = self._config
        word = 8 * cfg.word_bytes
        words = -(-32 * cfg.cols // word)
        beat = Signal(range(max(2, words)))
        offset = beat << (cfg.word_bytes - 1).bit_length()
        left = Signal(BYTES_BITS)
        there = noted & values.o.valid & head.write
        to_spad = there & ~head.to_acc
        packed = self._packed(m, values.o.payload, head.kind)
        last, held_back = Signal(), Signal()
        m.d.comb += [
            left.eq(head.bytes - offset),
            last.eq(left <= cfg.word_bytes),
            self.out.valid.eq(to_spad),
            self.out.mark.eq(head.fires & last),
            self.out.addr.eq(head.o + offset),
            self.out.size.eq(Mux(last, left, cfg.word_bytes)),
            self.out.data.eq(packed.word_select(beat, word) if words > 1 else packed),
            self.acc.w_valid.eq(there & head.to_acc & ~held_back),
            self.acc.w_addr.eq(head.o),
            self.acc.w_data.eq(
                Cat(
                    Mux(c < head.lanes, values.o.payload[32 * c : 32 * c + 32], 0)
                    for c in range(cfg.cols)
                )
            ),
        ]
        with m.If(self.out.valid & self.out.ready):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
        written = Mux(head.to_acc, self.acc.w_ready & ~held_back, self.out.ready & last)
        m.d.comb += [
            # Posts stay in order: writes before a step that posts have landed when it does.
            held_back.eq(head.fires & ~self.out.empty),
            pop.eq(Mux(head.write, there & written, noted & ~held_back)),
            self.done.eq(self.out.landed | (pop & head.fires & (~head.write | head.to_acc))),
        ]

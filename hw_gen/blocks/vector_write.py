"""Writes the vector engine's results to the scratchpad or the accumulator."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.elements import element_bits, log2_bytes
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.vector_issue import BYTES_BITS
from hw_gen.blocks.vector_lanes import VectorLanes, lane_result
from hw_gen.checks import check
from hw_gen.interfaces import acc_write, spad_write
from hw_gen.layouts import LANES
from spec.config import NpuConfig
from spec.exhaustive import handles
from spec.isa import CHIP_BITS, DType, Reduce, Space

handles("hw_gen.blocks.vector_write", Space, Space.SPAD, Space.ACC, Space.PARAM, Space.TABLE)

DEPTH = VectorLanes.LATENCY + 6
"""Results in the lanes, two on their way through the queue, and some that wait for a bank."""


class VectorWriter(wiring.Component):
    """A FIFO with reserved room behind the lanes, then as many writes as a result has words.

    Members
    -------
    room : a step may enter the lanes; claim : one did.
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
                "i": In(lane_result(config)),
                "out": Out(spad_write(config)),
                "acc": Out(acc_write(config)),
                "done": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        word = 32 * cfg.cols
        layout = data.StructLayout(
            {
                "value": word,
                "o": CHIP_BITS,
                "bytes": BYTES_BITS,
                "lanes": LANES,
                "fires": 1,
                "write": 1,
                "to_acc": 1,
            }
        )
        m.submodules.queue = queue = Fifo(layout, depth=DEPTH)
        entry, head = Signal(layout), Signal(layout)
        tag, context = self.i.tag, self.i.context
        writes = (context.reduce == Reduce.NONE) | tag.red_last
        needed = writes | tag.fires
        lanes = Mux(context.reduce_lanes, 1, tag.lanes)
        pop, claimed = Signal(), Signal(range(DEPTH + 1))
        m.d.comb += [
            entry.value.eq(self._packed(m)),
            entry.o.eq(tag.o),
            entry.lanes.eq(lanes),
            entry.bytes.eq(lanes << log2_bytes(context.o_type)),
            entry.fires.eq(tag.fires),
            entry.write.eq(writes),
            entry.to_acc.eq(context.o_space == Space.ACC),
            queue.i.valid.eq(self.i.valid & needed),
            queue.i.payload.eq(entry),
            head.eq(queue.o.payload),
            self.room.eq(claimed != DEPTH),
            self.busy.eq(claimed != 0),
        ]
        m.d.sync += claimed.eq(claimed + self.claim - pop - (self.i.valid & ~needed))
        self._write(m, queue, head, pop)
        check(m, platform, self.room | ~self.claim, "vector write: claimed without room")
        check(m, platform, claimed <= DEPTH, "vector write: more claimed than the queue holds")
        check(m, platform, queue.level <= claimed, "vector write: a result that was not claimed")
        check(m, platform, ~queue.i.valid | queue.i.ready, "vector write: queue written when full")
        return m

    def _packed(self, m: Module) -> Signal:
        """Lanes at the element size of the result, contiguous from byte 0."""
        cols = self._config.cols
        out = Signal(32 * cols, name="packed")
        with m.Switch(self.i.context.o_type):
            for kind in DType:
                bits = element_bits(kind)
                with m.Case(kind):
                    m.d.comb += out.eq(
                        Cat(self.i.value[32 * c : 32 * c + bits] for c in range(cols))
                    )
        return out

    def _write(self, m: Module, queue, head, pop: Signal) -> None:
        cfg = self._config
        word = 8 * cfg.word_bytes
        words = -(-32 * cfg.cols // word)
        beat = Signal(range(max(2, words)))
        offset = beat << (cfg.word_bytes - 1).bit_length()
        left = Signal(BYTES_BITS)
        to_spad = queue.o.valid & head.write & ~head.to_acc
        last = Signal()
        m.d.comb += [
            left.eq(head.bytes - offset),
            last.eq(left <= cfg.word_bytes),
            self.out.valid.eq(to_spad),
            self.out.addr.eq(head.o + offset),
            self.out.size.eq(Mux(last, left, cfg.word_bytes)),
            self.out.data.eq(head.value.word_select(beat, word) if words > 1 else head.value),
            self.acc.w_valid.eq(queue.o.valid & head.write & head.to_acc),
            self.acc.w_addr.eq(head.o),
            self.acc.w_data.eq(
                Cat(
                    Mux(c < head.lanes, head.value[32 * c : 32 * c + 32], 0)
                    for c in range(cfg.cols)
                )
            ),
        ]
        with m.If(self.out.valid & self.out.ready):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
        m.d.comb += [
            pop.eq(
                queue.o.valid
                & Mux(
                    head.write,
                    Mux(head.to_acc, self.acc.w_ready, self.out.ready & last),
                    1,
                )
            ),
            queue.o.ready.eq(pop),
            self.done.eq(pop & head.fires),
        ]

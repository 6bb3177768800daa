"""Last part of the depthwise engine: writes outputs to the accumulator, or adds them to it."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.adders import fast_sum
from hw_gen.blocks.depthwise_lanes import depthwise_output, sum_bits
from hw_gen.blocks.fifo import Fifo
from hw_gen.checks import check
from hw_gen.interfaces import acc_update
from spec.config import NpuConfig

DEPTH, PAIRED_DEPTH = 8, 12
"""Outputs on their way from the scan to here or waiting; covers the lanes' latency, and that of
answers that wait for one another."""


class DepthwiseWriter(wiring.Component):
    """A FIFO with reserved room, then a read of the old vector where one is added, then a write.

    Members
    -------
    room : an output may be begun; claim : one was.
    i : ``In(depthwise_output(config))``, from the lanes.
    acc : port of the `Accumulator`.
    done : an output with ``fires`` has been written. busy : something is claimed or held.
    refused : the bank was not free.

    Timing: an output a cycle, also accumulating; one at the address of its predecessor waits
    until that is written.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        self._depth = PAIRED_DEPTH if config.depthwise_pairs else DEPTH
        super().__init__(
            {
                "room": Out(1),
                "claim": In(1),
                "i": In(depthwise_output(config)),
                "acc": Out(acc_update(config)),
                "done": Out(1),
                "busy": Out(1),
                "refused": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        bits = sum_bits(cfg)
        rest = {"addr": cfg.acc_addr_bits, "accumulate": 1, "fires": 1}
        layout = data.StructLayout({"value": bits * cfg.cols, **rest})
        m.submodules.queue = queue = Fifo(layout, depth=self._depth)
        entry, head = Signal(layout), Signal(layout)
        held = Signal(data.StructLayout({"value": 32 * cfg.cols, **rest}))
        holds, leaves, clash, pop = (Signal(name=n) for n in ("holds", "leaves", "clash", "pop"))
        claimed = Signal(range(self._depth + 1))
        acc = self.acc
        m.d.comb += [
            *(entry[name].eq(getattr(self.i, name)) for name, _ in layout),
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(entry),
            head.eq(queue.o.payload),
            self.room.eq(claimed != self._depth),
            self.busy.eq((claimed != 0) | holds),
            leaves.eq(~holds | acc.w_ready),
            # What the held output is about to write is not in the memory yet.
            clash.eq(holds & (held.addr == head.addr)),
            acc.r_valid.eq(queue.o.valid & head.accumulate & leaves & ~clash),
            acc.r_addr.eq(head.addr),
            pop.eq(queue.o.valid & leaves & (~head.accumulate | (acc.r_ready & ~clash))),
            queue.o.ready.eq(pop),
            acc.w_valid.eq(holds),
            acc.w_addr.eq(held.addr),
            self.done.eq(holds & acc.w_ready & held.fires),
            self.refused.eq((acc.w_valid & ~acc.w_ready) | (acc.r_valid & ~acc.r_ready)),
        ]
        for c in range(cfg.cols):
            lane = slice(32 * c, 32 * c + 32)
            old = Mux(held.accumulate, acc.r_data[lane], 0)
            m.d.comb += acc.w_data[lane].eq(
                fast_sum(m, platform, f"total_{c}", held.value[lane], old)
            )
        sums = [head.value.word_select(c, bits).as_signed() for c in range(cfg.cols)]
        with m.If(pop):
            m.d.sync += held.value.eq(Cat(Cat(s, s[-1].replicate(32))[:32] for s in sums))
            m.d.sync += [held[name].eq(head[name]) for name in rest]
            m.d.sync += holds.eq(1)
        with m.Elif(leaves):
            m.d.sync += holds.eq(0)
        with m.Else():
            # The old vector is there in the first cycle only: others read the bank meanwhile.
            m.d.sync += [held.value.eq(acc.w_data), held.accumulate.eq(0)]
        m.d.sync += claimed.eq(claimed + self.claim - pop)
        check(m, platform, self.room | ~self.claim, "depthwise write: claimed without room")
        check(m, platform, queue.level <= claimed, "depthwise write: an output not claimed")
        check(
            m, platform, ~queue.i.valid | queue.i.ready, "depthwise write: queue written when full"
        )
        return m

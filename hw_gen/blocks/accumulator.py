"""The accumulator: two halves, so that one drains while the other fills."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.sram import Sram
from spec.config import NpuConfig


def acc_tag_layout(config: NpuConfig) -> data.StructLayout:
    """What travels with a vector through the array."""
    return data.StructLayout({"valid": 1, "addr": config.acc_addr_bits, "overwrite": 1, "fires": 1})


class Accumulator(wiring.Component):
    """`acc_vectors` vectors of `cols` int32 with accumulation in place, one vector a cycle.

    Members
    -------
    tag : what the array delivers in the *next* cycle; `sums` : the vector itself, a cycle later.
        The matrix engine is never refused.
    done : a vector whose tag has ``fires`` has been written.
    r : vector engine's read: address accepted with valid & ready, data two cycles later
        (``r_data_valid``, ``r_data``). Refused while the matrix engine reads the same half.
    w_valid, w_ready, w_addr, w_data : vector engine's write, refused while the matrix engine
        writes the same half.

    Back-to-back accumulation to one address is exact: the sum on its way is forwarded.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        width = 32 * config.cols
        super().__init__(
            {
                "tag": In(acc_tag_layout(config)),
                "sums": In(width),
                "done": Out(1),
                "r": In(stream.Signature(config.acc_addr_bits)),
                "r_data_valid": Out(1),
                "r_data": Out(width),
                "w_valid": In(1),
                "w_ready": Out(1),
                "w_addr": In(config.acc_addr_bits),
                "w_data": In(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        width = 32 * cfg.cols
        halves = []
        for h in range(2):
            m.submodules[f"half_{h}"] = half = Sram(depth=cfg.acc_half, width=width)
            halves.append(half)
        now = Signal(self.tag.shape())
        m.d.sync += now.eq(self.tag)
        total = self._accumulate(m, now, halves)
        reads = self.tag.valid & ~self.tag.overwrite
        m.d.comb += [
            self.r.ready.eq(~reads | (self.tag.addr[-1] != self.r.payload[-1])),
            self.w_ready.eq(~now.valid | (now.addr[-1] != self.w_addr[-1])),
            self.done.eq(now.valid & now.fires),
        ]
        for h, half in enumerate(halves):
            matrix_reads = reads & (self.tag.addr[-1] == h)
            matrix_writes = now.valid & (now.addr[-1] == h)
            vector_writes = self.w_valid & self.w_ready & (self.w_addr[-1] == h)
            vector_reads = self.r.valid & self.r.ready & (self.r.payload[-1] == h)
            m.d.comb += [
                half.r_en.eq(matrix_reads | vector_reads),
                half.r_addr.eq(Mux(matrix_reads, self.tag.addr, self.r.payload)[:-1]),
                half.w_en.eq(matrix_writes | vector_writes),
                half.w_addr.eq(Mux(matrix_writes, now.addr, self.w_addr)[:-1]),
                half.w_data.eq(Mux(matrix_writes, total, self.w_data)),
            ]
        self._answer(m, halves)
        return m

    def _accumulate(self, m: Module, now: Signal, halves: list[Sram]) -> Signal:
        """Add to what was read, or to the sum written a cycle ago when it has the same address."""
        width = len(self.sums)
        total, previous, old = (Signal(width, name=n) for n in ("total", "previous", "old"))
        last_addr, last_valid = Signal.like(now.addr, name="last_addr"), Signal()
        m.d.sync += [last_valid.eq(now.valid), last_addr.eq(now.addr)]
        with m.If(now.valid):
            m.d.sync += previous.eq(total)
        with m.If(~now.overwrite):
            with m.If(last_valid & (last_addr == now.addr)):
                m.d.comb += old.eq(previous)
            with m.Else():
                m.d.comb += old.eq(Mux(now.addr[-1], halves[1].r_data, halves[0].r_data))
        for c in range(self._config.cols):
            lane = slice(32 * c, 32 * c + 32)
            m.d.comb += total[lane].eq(old[lane] + self.sums[lane])
        return total

    def _answer(self, m: Module, halves: list[Sram]) -> None:
        valid, half = Signal(), Signal()
        m.d.sync += [
            valid.eq(self.r.valid & self.r.ready),
            half.eq(self.r.payload[-1]),
            self.r_data_valid.eq(valid),
        ]
        with m.If(valid):
            m.d.sync += self.r_data.eq(Mux(half, halves[1].r_data, halves[0].r_data))

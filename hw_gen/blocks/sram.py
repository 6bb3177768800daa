"""The one class that owns on-chip memories, so that a macro can replace it."""

from amaranth.hdl import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.checks import check
from hw_gen.platform import RtlPlatform


class Sram(wiring.Component):
    """`depth` words of `width` bits, one read and one write a cycle.

    Parameters
    ----------
    granularity : bits per write enable. Default: the whole word.
    forwards : the user takes what it writes from elsewhere, and may read the word meanwhile.

    Members
    -------
    r_en, r_addr, r_data : data comes one cycle after r_en and is held until the next read. Of a
        word that is written in the cycle of its read, a macro may give anything, and simulation
        gives the old contents. No user depends on it, which is an assertion: queues, counters and
        the scratchpad never read what they write, and a program keeps LOAD and the readers of PARAM
        and TABLE apart by semaphores. The accumulator forwards its sums.
    w_en, w_addr, w_data : one enable bit per `granularity` bits.

    A single-port macro fits where the user drives both addresses alike and never reads and
    writes in one cycle (the scratchpad's banks).
    """

    def __init__(
        self, *, depth: int, width: int, granularity: int | None = None, forwards: bool = False
    ):
        self._depth = depth
        self._width = width
        self._granularity = granularity or width
        self._forwards = forwards
        super().__init__(
            {
                "r_en": In(1),
                "r_addr": In(range(depth)),
                "r_data": Out(width),
                "w_en": In(width // self._granularity),
                "w_addr": In(range(depth)),
                "w_data": In(width),
            }
        )

    def elaborate(self, platform):
        m = self._macro() if isinstance(platform, RtlPlatform) else self._model()
        if not self._forwards:
            apart = ~self.r_en | ~self.w_en.any() | (self.r_addr != self.w_addr)
            check(m, platform, apart, "memory: a word is read while it is written")
        return m

    def _macro(self):
        """For Verilog: an instance of `rtl/systola_sram.sv`, the file to replace by a macro."""
        m = Module()
        m.submodules.ram = Instance(
            "systola_sram",
            p_DEPTH=self._depth,
            p_WIDTH=self._width,
            p_GRANULARITY=self._granularity,
            i_clk=ClockSignal(),
            i_r_en=self.r_en,
            i_r_addr=self.r_addr,
            o_r_data=self.r_data,
            i_w_en=self.w_en,
            i_w_addr=self.w_addr,
            i_w_data=self.w_data,
        )
        return m

    def _model(self):
        """For Amaranth's own simulator."""
        m = Module()
        m.submodules.mem = mem = memory.Memory(
            shape=unsigned(self._width), depth=self._depth, init=[]
        )
        r = mem.read_port()
        w = mem.write_port(
            granularity=None if self._granularity == self._width else self._granularity
        )
        m.d.comb += [
            r.en.eq(self.r_en),
            r.addr.eq(self.r_addr),
            self.r_data.eq(r.data),
            w.en.eq(self.w_en),
            w.addr.eq(self.w_addr),
            w.data.eq(self.w_data),
        ]
        return m

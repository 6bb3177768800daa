"""64-bit counters of a run: what every engine did in every cycle, and traffic."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.interfaces import STALL
from spec.config import NpuConfig
from spec.isa import Engine
from spec.memmap import Stall

COUNTER_BITS = 64
TOTALS = ("CYCLES", "VECTORS", "READ_BYTES", "WRITE_BYTES")


class Counters(wiring.Component):
    """Counts while `run`; `clear` goes first.

    Members
    -------
    stall[engine] : a `Stall`. vector, read_beat : an activation vector entered the array, a beat
        was read. write_bytes : bytes that memory took.
    total[t] : in the order of `TOTALS`. count[engine * 6 + stall] : cycles; an engine's six sum to
        CYCLES.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "run": In(1),
                "clear": In(1),
                "stall": In(STALL).array(len(Engine)),
                "vector": In(1),
                "read_beat": In(1),
                "write_bytes": In(range(config.bus_bytes + 1)),
                "total": Out(COUNTER_BITS).array(len(TOTALS)),
                "count": Out(COUNTER_BITS).array(len(Engine) * len(Stall)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cycles, vectors, read, written = self.total
        with m.If(self.clear):
            m.d.sync += [counter.eq(0) for counter in (*self.total, *self.count)]
        with m.Elif(self.run):
            m.d.sync += cycles.eq(cycles + 1)
            with m.If(self.vector):
                m.d.sync += vectors.eq(vectors + 1)
            with m.If(self.read_beat):
                m.d.sync += read.eq(read + self._config.bus_bytes)
            with m.If(self.write_bytes.any()):
                m.d.sync += written.eq(written + self.write_bytes)
            for engine in Engine:
                with m.Switch(self.stall[engine]):
                    for stall in Stall:
                        counter = self.count[engine * len(Stall) + stall]
                        with m.Case(stall):
                            m.d.sync += counter.eq(counter + 1)
        return m

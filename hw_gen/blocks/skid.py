"""Two entries between a source and a sink: neither sees the other's signals in the same cycle."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Skid(wiring.Component):
    """Passes a stream on; ``i.ready``, ``o.valid`` and the payload come from flip-flops.

    Members
    -------
    i, o : the streams, of `shape`.

    Timing: a payload a cycle, offered in the cycle after it was taken.
    """

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        shape = self.i.payload.shape()
        offered = Signal(shape, name="offered", reset_less=True)
        spare = Signal(shape, name="spare", reset_less=True)
        full, leaves = Signal(), Signal()
        m.d.comb += self.o.payload.eq(offered)
        m.d.comb += [self.i.ready.eq(~full), leaves.eq(~self.o.valid | self.o.ready)]
        with m.If(leaves):
            m.d.sync += [self.o.valid.eq(self.i.valid | full), full.eq(0)]
            with m.If(full):
                m.d.sync += offered.eq(spare)
            with m.Else():
                m.d.sync += offered.eq(self.i.payload)
        with m.Elif(self.i.valid):
            m.d.sync += full.eq(1)
        with m.If(~full):
            m.d.sync += spare.eq(self.i.payload)
        return m

"""A stream whose two ends do not see each other's signals in the same cycle."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.skid import Skid
from hw_gen.platform import asks_for

ITEMS = 4
"""In block RAM: as many as pass in the cycles from one end to the other."""


class Cut(wiring.Component):
    """Passes a stream on: through a `Skid`, or through block RAM, which costs an FPGA no table a
    bit.

    Members
    -------
    i, o : the streams, of `shape`. empty : nothing is held.

    Timing: a payload a cycle. It is offered in the cycle after it was taken, on an FPGA two cycles
    later.
    """

    def __init__(self, shape):
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self.i.payload.shape()
        if asks_for(platform, "for_fpga"):
            m.submodules.items = items = Fifo(shape, depth=ITEMS, far=True)
            m.d.comb += self.empty.eq(items.empty)
        else:
            m.submodules.items = items = Skid(shape)
            m.d.comb += self.empty.eq(~items.o.valid)
        connect(m, flipped(self.i), items.i)
        connect(m, items.o, flipped(self.o))
        return m

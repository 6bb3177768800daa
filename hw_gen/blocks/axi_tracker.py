"""Counts what memory still owes: a soft reset waits until that is nothing."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

_COUNT_BITS = 12


class AxiTracker(wiring.Component):
    """Watches the handshakes of the manager port; never reset softly.

    Members: ``arvalid`` … ``bready`` : ``In(1)``, the signals of those names on the port.
    ``busy`` : a request is offered, or a burst has not had its last beat or its response.
    """

    arvalid: In(1)
    arready: In(1)
    rvalid: In(1)
    rready: In(1)
    rlast: In(1)
    awvalid: In(1)
    awready: In(1)
    bvalid: In(1)
    bready: In(1)
    busy: Out(1)

    def elaborate(self, platform):
        m = Module()
        reads, writes = Signal(_COUNT_BITS), Signal(_COUNT_BITS)
        read_end = self.rvalid & self.rready & self.rlast
        m.d.sync += [
            reads.eq(reads + (self.arvalid & self.arready) - read_end),
            writes.eq(writes + (self.awvalid & self.awready) - (self.bvalid & self.bready)),
        ]
        m.d.comb += self.busy.eq(
            (reads != 0) | (writes != 0) | self.arvalid | self.awvalid | self.rvalid | self.bvalid
        )
        return m

"""Counts what memory still owes: a soft reset waits until that is nothing."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.interfaces import ReadHandshakes, WriteHandshakes

_COUNT_BITS = 12


class AxiTracker(wiring.Component):
    """Watches the handshakes of the manager port; never reset softly.

    Members: ``read``, ``write`` : what happens on the port's channels. ``busy`` : a request is
    offered, or a burst has not had its last beat or its response.
    """

    read: In(ReadHandshakes)
    write: In(WriteHandshakes)
    busy: Out(1)

    def elaborate(self, platform):
        m = Module()
        reads, writes = Signal(_COUNT_BITS), Signal(_COUNT_BITS)
        r, w = self.read, self.write
        read_end = r.rvalid & r.rready & r.rlast
        m.d.sync += [
            reads.eq(reads + (r.arvalid & r.arready) - read_end),
            writes.eq(writes + (w.awvalid & w.awready) - (w.bvalid & w.bready)),
        ]
        offered = r.arvalid | w.awvalid | r.rvalid | w.bvalid
        m.d.comb += self.busy.eq((reads != 0) | (writes != 0) | offered)
        return m

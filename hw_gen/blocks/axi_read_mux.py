"""Two managers share the read channels: fetch goes before load."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.interfaces import axi_read
from spec.config import NpuConfig

FETCH_ID = 0


class AxiReadMux(wiring.Component):
    """Merges the requests of `fetch` (id 0) and `load` (id 1); responses go by their id.

    Members: ``fetch``, ``load`` : ``In(axi_read)``; ``o`` : ``Out(axi_read)``.
    Timing: requests and responses pass in their cycle. A request once offered stays until it is
    accepted. ``o.rready`` does not depend on what `o` says: a response is taken when both managers
    could take it.
    """

    def __init__(self, config: NpuConfig):
        super().__init__(
            {
                "fetch": In(axi_read(config)),
                "load": In(axi_read(config)),
                "o": Out(axi_read(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        offered_load, use_load = Signal(), Signal()
        m.d.comb += use_load.eq(offered_load | ~self.fetch.arvalid)
        m.d.sync += offered_load.eq(use_load & self.load.arvalid & ~self.o.arready)
        fields = ("arvalid", "arid", "araddr", "arlen", "arsize", "arburst")
        with m.If(use_load):
            m.d.comb += [getattr(self.o, f).eq(getattr(self.load, f)) for f in fields]
            m.d.comb += self.load.arready.eq(self.o.arready)
        with m.Else():
            m.d.comb += [getattr(self.o, f).eq(getattr(self.fetch, f)) for f in fields]
            m.d.comb += self.fetch.arready.eq(self.o.arready)
        to_fetch = self.o.rid == FETCH_ID
        sides = ((self.fetch, self.load, to_fetch), (self.load, self.fetch, ~to_fetch))
        for port, other, ours in sides:
            m.d.comb += [
                port.rvalid.eq(self.o.rvalid & ours & other.rready),
                port.rid.eq(self.o.rid),
                port.rdata.eq(self.o.rdata),
                port.rresp.eq(self.o.rresp),
                port.rlast.eq(self.o.rlast),
            ]
        m.d.comb += self.o.rready.eq(self.fetch.rready & self.load.rready)
        return m

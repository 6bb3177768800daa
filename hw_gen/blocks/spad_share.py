"""One scratchpad port for several clients that read little, or seldom."""

from itertools import pairwise

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.interfaces import READ_LATENCY, spad_read
from spec.config import NpuConfig


class SpadShare(wiring.Component):
    """Hands the reads of `clients` clients to one port.

    Members
    -------
    i[k] : ``In(spad_read(config))``. The lowest k that reads goes first, but the last client, who
        reads much, at least every other time.
    o : the port.

    Timing: none of its own.
    """

    def __init__(self, config: NpuConfig, clients: int):
        self._clients = clients
        port = spad_read(config)
        super().__init__({"i": In(port).array(clients), "o": Out(port)})

    def elaborate(self, platform):
        m = Module()
        n, out = self._clients, self.o
        chosen, passed = Signal(range(n)), Signal()
        wants = Cat(client.valid for client in self.i)
        m.d.comb += chosen.eq(n - 1)
        with m.If(~(passed & wants[-1])):
            for k in reversed(range(n)):
                with m.If(wants[k]):
                    m.d.comb += chosen.eq(k)
        taken = out.valid & out.ready
        with m.If(taken):
            m.d.sync += passed.eq(wants[-1] & (chosen != n - 1))
        line = [Signal(range(n), name=f"reader_{i}") for i in range(READ_LATENCY)]
        with m.If(taken):
            m.d.sync += line[0].eq(chosen)
        m.d.sync += [b.eq(a) for a, b in pairwise(line)]
        m.d.comb += out.valid.eq(wants.any())
        for k, client in enumerate(self.i):
            with m.If(chosen == k):
                m.d.comb += [
                    out.addr.eq(client.addr),
                    out.size.eq(client.size),
                    client.ready.eq(out.ready & client.valid),
                ]
            m.d.comb += [
                client.data.eq(out.data),
                client.data_valid.eq(out.data_valid & (line[-1] == k)),
            ]
        return m

"""One scratchpad port for several clients that read little, or seldom."""

from collections.abc import Sequence

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.interfaces import spad_read
from spec.config import NpuConfig


def share_tag(tags: Sequence) -> data.StructLayout:
    """The tag of a shared port: a client's number, and its own tag, one of `tags`."""
    width = max(Shape.cast(tag).width for tag in tags)
    return data.StructLayout({"client": range(len(tags)), "tag": width})


class SpadShare(wiring.Component):
    """Hands the reads of several clients to one port.

    Parameters
    ----------
    tags : of each client, the shape of its tags.

    Members
    -------
    i[k] : ``In(spad_read(config, tags[k]))``, the last one with `lanes`. The lowest k that reads
        goes first, but the last client, who reads much, at least every other time.
    o : the port, with tags of `share_tag` and `lanes`.

    Timing: none of its own.
    """

    def __init__(self, config: NpuConfig, tags: Sequence):
        last = len(tags) - 1
        clients = {
            f"i_{k}": In(spad_read(config, tag, lanes=k == last)) for k, tag in enumerate(tags)
        }
        super().__init__({**clients, "o": Out(spad_read(config, share_tag(tags), lanes=True))})
        self.i = [getattr(self, name) for name in clients]

    def elaborate(self, platform):
        m = Module()
        n, out = len(self.i), self.o
        chosen, passed = Signal(range(n)), Signal()
        wants = Cat(client.valid for client in self.i)
        m.d.comb += chosen.eq(n - 1)
        with m.If(~(passed & wants[-1])):
            for k in reversed(range(n)):
                with m.If(wants[k]):
                    m.d.comb += chosen.eq(k)
        with m.If(out.valid & out.ready):
            m.d.sync += passed.eq(wants[-1] & (chosen != n - 1))
        m.d.comb += [out.valid.eq(wants.any()), out.tag.client.eq(chosen)]
        for k, client in enumerate(self.i):
            with m.If(chosen == k):
                m.d.comb += [
                    out.addr.eq(client.addr),
                    out.size.eq(client.size),
                    out.tag.tag.eq(client.tag),
                    client.ready.eq(out.ready & client.valid),
                ]
                if k == n - 1:
                    m.d.comb += out.lane.eq(client.lane)
            m.d.comb += [
                client.data.eq(out.data),
                client.data_tag.eq(out.data_tag.tag),
                client.data_valid.eq(out.data_valid & (out.data_tag.client == k)),
            ]
        return m

"""Semaphore updates on their way: pushed when a step issues, fired when it completes."""

from collections.abc import Mapping

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.fifo import Fifo
from hw_gen.checks import check, checking
from hw_gen.layouts import PostEntryStream, PostStream, post_entry_layout
from spec.isa import SYNC_SLOTS


def post_queues(m: Module, depth: int, posts: Mapping[str, tuple]) -> Value:
    """A queue for each name: (entries, fire, the engine's port); returns: all are empty."""
    queues = []
    for name, (entries, fire, port) in posts.items():
        m.submodules[f"posts_{name}"] = queue = PostQueue(depth)
        connect(m, entries, queue.i)
        connect(m, queue.o, flipped(port))
        m.d.comb += queue.fire.eq(fire)
        queues.append(queue)
    return Cat(queue.empty for queue in queues).all()


class PostQueue(wiring.Component):
    """Holds up to `depth` entries in order and sends an entry's updates once it has fired.

    Members
    -------
    i : ``In(PostEntryStream)``, one entry per step that posts.
    fire : the oldest entry that has not fired may be sent; at most one a cycle.
    o : ``Out(PostStream)``, one update a cycle.
    empty : nothing is held.
    """

    def __init__(self, depth: int):
        self._depth = depth
        super().__init__(
            {
                "i": In(PostEntryStream),
                "fire": In(1),
                "o": Out(PostStream),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = queue = Fifo(post_entry_layout, depth=self._depth)
        connect(m, flipped(self.i), queue.i)
        entry = Signal(post_entry_layout)
        fired = Signal(range(self._depth + 2))
        sent = Signal(SYNC_SLOTS)
        left = Signal(SYNC_SLOTS)
        pop = Signal()
        m.d.comb += [
            entry.eq(queue.o.payload),
            self.o.payload.index.eq(entry.index),
            left.eq(Cat(entry.slots[s].enable for s in range(SYNC_SLOTS)) & ~sent),
            self.o.valid.eq(queue.o.valid & (fired != 0) & left.any()),
            self.empty.eq(queue.level == 0),
        ]
        lowest = Signal(SYNC_SLOTS)
        for s in reversed(range(SYNC_SLOTS)):
            with m.If(left[s]):
                m.d.comb += [
                    self.o.payload.sem.eq(entry.slots[s].sem),
                    self.o.payload.amount.eq(entry.slots[s].amount),
                    lowest.eq(1 << s),
                ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += sent.eq(sent | lowest)
            with m.If((left & ~lowest) == 0):
                m.d.comb += [pop.eq(1), queue.o.ready.eq(1)]
                m.d.sync += sent.eq(0)
        m.d.sync += fired.eq(fired + self.fire - pop)
        if checking(platform):
            held = Signal(range(self._depth + 2))
            push = self.i.valid & self.i.ready
            m.d.sync += held.eq(held + push - pop)
            check(m, platform, fired + self.fire <= held + push, "post queue: fired but not held")
        return m

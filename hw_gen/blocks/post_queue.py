"""Semaphore updates on their way: pushed when a step issues, fired when it completes."""

from collections.abc import Mapping

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.counting import count
from hw_gen.blocks.fifo import Fifo
from hw_gen.checks import check, checking
from hw_gen.layouts import PostEntryStream, PostStream, posts_layout
from spec.isa import SYNC_SLOTS

INSTRUCTIONS = 16
"""Instructions that a queue holds entries of: more than fetch decodes while memory answers once."""


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

    An entry is kept as the slots that it enables. What these are is kept once for each instruction,
    of which there may be `INSTRUCTIONS`. The oldest entry is in registers, for the way from it to
    the semaphores and back is long; it goes there at once where no other waits.

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
        entry_layout = data.StructLayout({"enable": SYNC_SLOTS, "last": 1})
        m.submodules.entries = entries = Fifo(entry_layout, depth=self._depth)
        m.submodules.posts = posts = Fifo(posts_layout, depth=min(self._depth, INSTRUCTIONS))
        pushed = self.i.payload
        # Whether an engine posts is known late in a cycle: its entry waits in registers.
        waiting, came = Signal(entry_layout, reset_less=True), Signal()
        room, push = Signal(), Signal()
        first = Signal(init=1)  # the next entry is the first one of its instruction
        fired = Signal(range(self._depth + 3))
        # The oldest entry, and which of its slots are yet to be sent.
        held, left, last = Signal(), Signal(SYNC_SLOTS, reset_less=True), Signal(reset_less=True)
        alone, sends, pop = Signal(), Signal(), Signal()
        m.d.comb += [
            room.eq(~came | entries.i.ready),
            self.i.ready.eq(room & (posts.i.ready | ~first)),
            push.eq(self.i.valid & self.i.ready),
            alone.eq(~held & entries.empty),
            entries.i.valid.eq(came & ~alone),
            entries.i.payload.eq(waiting),
            posts.i.valid.eq(push & first),
            posts.i.payload.eq(pushed.posts),
            self.o.payload.index.eq(posts.o.payload.index),
            self.o.valid.eq(held & (fired != 0)),
            sends.eq(self.o.valid & self.o.ready),
            self.empty.eq(alone & ~came),
        ]
        with m.If(room):
            m.d.sync += [
                came.eq(push),
                waiting.enable.eq(pushed.enable),
                waiting.last.eq(pushed.last),
            ]
        with m.If(push):
            m.d.sync += first.eq(pushed.last)
        lowest = Signal(SYNC_SLOTS)
        for s in reversed(range(SYNC_SLOTS)):
            with m.If(left[s]):
                m.d.comb += [
                    self.o.payload.sem.eq(posts.o.payload.slots[s].sem),
                    self.o.payload.amount.eq(posts.o.payload.slots[s].amount),
                    lowest.eq(1 << s),
                ]
        rest = left & ~lowest
        next_ = data.View(entry_layout, Mux(alone, waiting, entries.o.payload))
        m.d.comb += [
            pop.eq(sends & (rest == 0)),
            entries.o.ready.eq(~held | pop),
            posts.o.ready.eq(pop & last),
        ]
        with m.If(~held | pop):
            m.d.sync += [
                held.eq(entries.o.valid | (alone & came)),
                left.eq(next_.enable),
                last.eq(next_.last),
            ]
        with m.Elif(sends):
            m.d.sync += left.eq(rest)
        count(m, platform, fired, self.fire, pop)
        if checking(platform):
            there = Signal(range(self._depth + 3))
            m.d.sync += there.eq(there + push - pop)
            check(m, platform, fired + self.fire <= there + push, "post queue: fired but not held")
            check(m, platform, ~held | left.any(), "post queue: an entry without updates")
            offered = ~self.o.valid | posts.o.valid
            check(m, platform, offered, "post queue: an entry before what it posts")
        return m

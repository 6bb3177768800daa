"""The one class of queues: contents in a memory of the wrapper, the oldest item always visible."""

from typing import Any

from amaranth.hdl import *
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from hw_gen.blocks.counting import count
from hw_gen.blocks.sram import Sram
from hw_gen.platform import asks_for

REGISTER_BITS = 128
"""Queues of at most this many bits are flip-flops: a macro's decoder and sense amplifiers are
larger than they are, and so is the smallest block RAM of an FPGA."""


def in_registers(width: int, depth: int, latency: int) -> bool:
    """Whether no memory holds the items of such a `Fifo`."""
    small = depth * width <= REGISTER_BITS
    if latency == 1:
        return small or depth <= 2
    # Amaranth's of two items would have a memory of one word, with an address of no bits.
    return depth == 1 or (small and depth > 2)


def _rows(words: int) -> int:
    """Small memories of an FPGA, of 16 words each, that lie one behind the other."""
    return -(-words // 16)


class Fifo(wiring.Component):
    """A queue of up to `depth` items.

    Parameters
    ----------
    latency : cycles from the acceptance of an item by the empty queue to its offer, 1 or 2. The
        output of the memory is the output of the queue at 2. At 1, an item that finds nothing
        before it goes through a register as wide as an item, and a multiplexer follows.
    far : on an FPGA, whose block RAMs answer late in a cycle, the output is a register behind the
        memory: one item more, and a cycle later.

    Members
    -------
    i, o : ``In(stream)``, ``Out(stream)`` of `shape`. level : items held. empty : none is.

    Timing: an item in and one out every cycle. i.ready depends on registers only. At latency 2
    `depth` items fit once one of them is offered, `depth` - 1 before (at a depth of 1 the queue
    takes an item in two cycles, as it does at latency 1).

    Small queues, and those of two items at latency 1 (a register each), are registers.
    """

    def __init__(self, shape: Any, *, depth: int, latency: int = 2, far: bool = False):
        assert depth > 0 and latency in (1, 2) and (latency == 2 or not far)
        self._width = Shape.cast(shape).width
        self._depth = depth
        self._latency = latency
        self._far = far
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1 + far)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if in_registers(self._width, self._depth, self._latency):
            self._registers(m)
        elif self._far and asks_for(platform, "for_fpga"):
            self._behind_memory(m)
        else:
            self._memory(m, platform)
        return m

    def _behind_memory(self, m: Module) -> None:
        """A queue in a memory, and the register that takes its items."""
        shape = self.i.payload.shape()
        m.submodules.queue = queue = Fifo(shape, depth=self._depth)
        offered = Signal(shape, name="offered", reset_less=True)
        connect(m, flipped(self.i), queue.i)
        m.d.comb += [
            queue.o.ready.eq(~self.o.valid | self.o.ready),
            self.o.payload.eq(offered),
            self.level.eq(queue.level + self.o.valid),
            self.empty.eq(queue.empty & ~self.o.valid),
        ]
        with m.If(queue.o.ready):
            m.d.sync += [self.o.valid.eq(queue.o.valid), offered.eq(queue.o.payload)]

    def _registers(self, m: Module) -> None:
        kind: Any = fifo.SyncFIFO if self._latency == 1 else fifo.SyncFIFOBuffered
        m.submodules.items = items = kind(width=self._width, depth=self._depth)
        m.d.comb += [
            items.w_data.eq(self.i.payload),
            items.w_en.eq(self.i.valid),
            self.i.ready.eq(items.w_rdy),
            Value.cast(self.o.payload).eq(items.r_data),
            self.o.valid.eq(items.r_rdy),
            items.r_en.eq(self.o.ready),
            self.level.eq(items.level),
            self.empty.eq(items.level == 0),
        ]

    def _memory(self, m: Module, platform) -> None:
        """All items but the offered one are in the memory, whose output offers it.

        A word is never read in the cycle in which it is written.
        """
        words = self._depth - 1
        # An address has at least one bit, and turns around by itself where that costs nothing.
        size = 1 << ceil_log2(max(2, words))
        whole = asks_for(platform, "for_fpga") and _rows(size) == _rows(words)
        m.submodules.items = items = Sram(depth=size if whole else max(2, words), width=self._width)
        behind = Signal(range(words + 1))
        write, read = Signal(), Signal()
        m.d.comb += [
            items.w_en.eq(write),
            items.w_data.eq(self.i.payload),
            items.r_en.eq(read),
            read.eq((behind != 0) & (~self.o.valid | self.o.ready)),
            self.level.eq(behind + self.o.valid),
            self.empty.eq((behind == 0) & ~self.o.valid),
        ]
        count(m, platform, behind, write, read)
        for address, step in ((items.w_addr, write), (items.r_addr, read)):
            at = Signal.like(address)
            m.d.comb += address.eq(at)
            with m.If(step):
                m.d.sync += at.eq(at + 1 if whole else Mux(at == words - 1, 0, at + 1))
        offered = self.i.valid & self.i.ready
        past: Value = Const(0, 1)
        if self._latency == 1:
            past = self._past(m, offered & (behind == 0), items)
        else:
            m.d.comb += Value.cast(self.o.payload).eq(items.r_data)
        m.d.comb += write.eq(offered & ~past)
        m.d.comb += self.i.ready.eq(
            self.level != self._depth if self._latency == 1 else behind != words
        )
        with m.If(read | past):
            m.d.sync += self.o.valid.eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)

    def _past(self, m: Module, first: Value, items: Sram) -> Value:
        """The way past the memory; returns: an item takes it."""
        past, passed = Signal(), Signal()
        item = Signal(self._width, reset_less=True)
        m.d.comb += [
            past.eq(first & (~self.o.valid | self.o.ready)),
            Value.cast(self.o.payload).eq(Mux(passed, item, items.r_data)),
        ]
        with m.If(past):
            m.d.sync += [item.eq(self.i.payload), passed.eq(1)]
        with m.Elif(items.r_en):
            m.d.sync += passed.eq(0)
        return past

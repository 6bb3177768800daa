"""Queues: what comes out, and in which cycle, with every depth, width and way of storage."""

import random
from collections import deque

import pytest
from amaranth.hdl import Module
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out
from hw_bench import FPGA, sample, simulate

from hw_gen.blocks.cut import Cut
from hw_gen.blocks.fifo import REGISTER_BITS, Fifo, in_registers


class Beside(wiring.Component):
    """A queue and Amaranth's of the same latency, which both see the same."""

    def __init__(self, width: int, depth: int, latency: int):
        self.ours = Fifo(width, depth=depth, latency=latency)
        kind = fifo.SyncFIFO if latency == 1 else fifo.SyncFIFOBuffered
        self.theirs = kind(width=width, depth=depth)
        super().__init__(
            {"i": In(stream.Signature(width)), "o": Out(stream.Signature(width)), "differs": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ours, m.submodules.theirs = ours, theirs = self.ours, self.theirs
        wiring.connect(m, wiring.flipped(self.i), ours.i)
        wiring.connect(m, ours.o, wiring.flipped(self.o))
        m.d.comb += [
            theirs.w_en.eq(self.i.valid),
            theirs.w_data.eq(self.i.payload),
            theirs.r_en.eq(self.o.ready),
            self.differs.eq(
                (ours.i.ready != theirs.w_rdy)
                | (ours.o.valid != theirs.r_rdy)
                | (ours.level != theirs.level)
                | (ours.o.valid & (ours.o.payload != theirs.r_data))
            ),
        ]
        return m


def _far(width: int):
    return Fifo(width, depth=5, far=True)


@pytest.mark.parametrize("form", [None, FPGA], ids=["silicon", "fpga"])
@pytest.mark.parametrize("kind", [Cut, _far], ids=["cut", "far"])
def test_the_two_ends_of_a_cut_are_apart(kind, form):
    """Items leave in order, one a cycle while both ends work; neither end sees the other."""
    dut = kind(60)
    rng = random.Random(3)
    held: deque[int] = deque()
    passed = []

    async def run(ctx):
        for n in range(2000):
            busy = n % 200 < 60
            item = rng.getrandbits(60)
            ctx.set(dut.i.valid, busy or rng.random() < 0.5)
            ctx.set(dut.i.payload, item)
            ctx.set(dut.o.ready, 0)
            before = ctx.get(dut.i.ready)
            assert (ctx.get(dut.empty) if kind is Cut else ctx.get(dut.level) == 0) == (not held)
            ctx.set(dut.o.ready, busy or rng.random() < 0.5)
            valid, ready, offered, taken, first = await sample(
                ctx, dut.i.valid, dut.i.ready, dut.o.valid, dut.o.ready, dut.o.payload
            )
            assert ready == before
            if offered and taken:
                assert first == held.popleft()
            passed.append(offered and taken)
            if valid and ready:
                held.append(item)
        assert all(all(passed[at + 10 : at + 60]) for at in range(0, 2000, 200))

    simulate(dut, run, platform=form)


@pytest.mark.parametrize("latency", [1, 2])
@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8, 16, 256])
@pytest.mark.parametrize("width", [8, 150])
def test_items_leave_in_order_and_in_the_cycle_of_amaranths_queue(width, depth, latency):
    dut = Beside(width, depth, latency)
    rng = random.Random(depth)
    held: deque[int] = deque()
    seen = {"full": 0, "empty": 0, "both": 0, "items": 0}

    async def run(ctx):
        for n in range(600 + 7 * depth):
            # Phases in which it fills, drains, is kept full and empty, and all of it at random.
            push, pop = [(0.9, 0.2), (0.2, 0.9), (1, 1), (0.5, 0.5), (1, 0.5)][n // 40 % 5]
            if depth > 100 and n < 5 * depth:
                push, pop = (1, 0.1) if n < 1.5 * depth else (0.5, 1)
            ctx.set(dut.i.valid, rng.random() < push)
            ctx.set(dut.o.ready, rng.random() < pop)
            ctx.set(dut.i.payload, rng.getrandbits(width))
            signals = (dut.i.valid, dut.i.ready, dut.i.payload, dut.o.valid, dut.o.ready)
            valid, ready, item, offered, taken, first, level, differs = await sample(
                ctx, *signals, dut.o.payload, dut.ours.level, dut.differs
            )
            assert not differs, f"cycle {n}"
            assert level == len(held)
            seen["full"] += not ready
            seen["empty"] += not offered
            seen["both"] += valid and ready and offered and taken
            if offered and taken:
                assert first == held.popleft()
            if valid and ready:
                held.append(item)
                seen["items"] += 1

    simulate(dut, run)
    assert min(seen["full"], seen["empty"]) > 10 and seen["items"] > 100
    assert depth == 1 or seen["both"] > 50


@pytest.mark.parametrize(
    ("width", "depth", "latency", "registers"),
    [
        (REGISTER_BITS // 4, 4, 1, True),
        (REGISTER_BITS // 4 + 1, 4, 1, False),
        (REGISTER_BITS // 4, 4, 2, True),
        (REGISTER_BITS // 4 + 1, 4, 2, False),
        (1000, 2, 1, True),
        (1000, 1, 2, True),
        (1000, 2, 2, False),
    ],
)
def test_what_is_small_is_registers(width, depth, latency, registers):
    assert in_registers(width, depth, latency) == registers

"""Semaphores and post queues against simple models."""

import random

import pytest
from amaranth.hdl import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from hw_bench import FPGA, sample, simulate

from hw_gen.blocks.post_queue import INSTRUCTIONS, PostQueue
from hw_gen.blocks.semaphores import Semaphores
from spec import NpuConfig
from spec.isa import Engine

FORMS = pytest.mark.parametrize("form", [None, FPGA], ids=["silicon", "fpga"])
CLEARED = 33
"""Cycles after a reset until small memories are cleared."""


def test_semaphores_count_and_never_grant_too_much():
    config = NpuConfig()
    dut = Semaphores(config, waiters=2, posters=[Engine.LOAD, Engine.STORE])
    rng = random.Random(2)
    count = [0] * config.semaphores

    async def run(ctx):
        grants, granted, last, coming = 0, [0, 0], None, []
        await ctx.tick().repeat(CLEARED)
        for _ in range(1500):
            for port in dut.wait:
                ctx.set(port.valid, rng.random() < 0.6)
                ctx.set(port.sem, rng.randint(0, 3))
                ctx.set(port.amount, rng.randint(1, 3))
            for port in dut.post:
                ctx.set(port.valid, rng.random() < 0.5 and sum(count[:4]) < 100)
                ctx.set(port.payload, {"sem": rng.randint(0, 3), "amount": rng.randint(1, 4)})
            await ctx.delay(1e-8)
            assert [ctx.get(port.grant) for port in dut.wait] == granted
            # What is asked for beside a grant does not count, nor the semaphore that was just taken
            # from; of the others the first that can.
            able = [
                ctx.get(p.valid)
                and not had
                and ctx.get(p.sem) != last
                and count[ctx.get(p.sem)] >= ctx.get(p.amount)
                for p, had in zip(dut.wait, granted, strict=True)
            ]
            last = next((ctx.get(p.sem) for p, ok in zip(dut.wait, able, strict=True) if ok), None)
            granted = [int(ok and not any(able[:i])) for i, ok in enumerate(able)]
            posted = [p for p in dut.post if ctx.get(p.valid) and ctx.get(p.ready)]
            assert len(posted) <= 1
            for sem, amount in coming:
                count[sem] += amount
            coming = [(ctx.get(p.payload.sem), ctx.get(p.payload.amount)) for p in posted]
            for p, taken in zip(dut.wait, granted, strict=True):
                count[ctx.get(p.sem)] -= ctx.get(p.amount) * taken
                grants += taken
            assert not ctx.get(dut.overflow.strobe)
            await ctx.tick()
        assert grants > 200

    simulate(dut, run)


@FORMS
def test_what_waits_is_granted_once_when_it_is_there(form):
    """Waiters ask until they are granted, posters until they are served, as they do."""
    dut = Semaphores(NpuConfig(), waiters=3, posters=[Engine.LOAD, Engine.STORE])
    rng = random.Random(5)
    count, asked, grants = [0] * 4, [None] * 3, []

    async def cycle(ctx, asks: bool, posts: float):
        for w, port in enumerate(dut.wait):
            if asked[w] is None and asks and rng.random() < 0.5:
                asked[w] = rng.randint(0, 3), rng.randint(1, 3)
            ctx.set(port.valid, asked[w] is not None)
            sem, amount = asked[w] or (rng.randint(0, 3), rng.randint(0, 3))
            ctx.set(port.sem, sem)
            ctx.set(port.amount, amount)
        low = [sem for sem in range(4) if count[sem] < 20]
        for port in dut.post:
            if not ctx.get(port.valid):
                ctx.set(port.valid, bool(low) and rng.random() < posts)
                ctx.set(port.payload, {"sem": rng.choice(low or [0]), "amount": rng.randint(1, 4)})
        await ctx.delay(1e-8)
        for w, port in enumerate(dut.wait):
            if ctx.get(port.grant):
                sem, amount = asked[w]
                count[sem] -= amount
                assert count[sem] >= 0
                asked[w] = None
                grants.append(w)
        taken = []
        for port in dut.post:
            if ctx.get(port.valid) and ctx.get(port.ready):
                count[ctx.get(port.payload.sem)] += ctx.get(port.payload.amount)
                taken.append(port)
        await ctx.tick()
        for port in taken:
            ctx.set(port.valid, 0)

    async def run(ctx):
        await ctx.tick().repeat(CLEARED)
        for _ in range(2000):
            await cycle(ctx, True, 0.3)
        while min(count) < 9:
            await cycle(ctx, False, 0.5)
        for _ in range(15):
            await cycle(ctx, False, 0)
        assert asked == [None] * 3
        assert min(grants.count(w) for w in range(3)) > 200

    simulate(dut, run, platform=form)


@FORMS
def test_semaphore_overflow_is_reported(form):
    dut = Semaphores(NpuConfig(), waiters=1, posters=[Engine.LOAD, Engine.STORE])

    async def run(ctx):
        await ctx.tick().repeat(CLEARED)
        ctx.set(dut.post[1].payload, {"sem": 7, "amount": 100, "index": 9})
        ctx.set(dut.post[1].valid, 1)
        flags, out = [], dut.overflow
        later = 4 if form else 0
        for _ in range(4 + later):
            flags.append(await sample(ctx, out.strobe, out.engine, out.index))
        said = [strobe and (Engine(engine), index) for strobe, engine, index in flags]
        assert said == [0] * (3 + later) + [(Engine.STORE, 9)]

    simulate(dut, run, platform=form)


def test_small_memories_are_cleared_after_a_reset():
    dut = Semaphores(NpuConfig(semaphores=20), waiters=1, posters=[Engine.LOAD])
    post, wait = dut.post[0], dut.wait[0]

    class Top(wiring.Component):
        def __init__(self):
            super().__init__({"reset": In(1)})

        def elaborate(self, platform):
            m = Module()
            m.submodules.dut = ResetInserter(self.reset)(dut)
            return m

    top = Top()

    async def run(ctx):
        for sem, again in ((3, False), (19, False), (3, True), (19, True)):
            ctx.set(top.reset, again)
            await ctx.tick()
            ctx.set(top.reset, 0)
            # Neither a post nor a grant before all are cleared.
            ctx.set(wait.sem, sem)
            ctx.set(wait.amount, 1)
            ctx.set(wait.valid, 1)
            granted = [(await sample(ctx, wait.grant))[0] for _ in range(CLEARED + 4)]
            assert not any(granted)
            ctx.set(wait.valid, 0)
            ctx.set(post.payload, {"sem": sem, "amount": 5})
            ctx.set(post.valid, 1)
            while not (await sample(ctx, post.ready))[0]:
                pass
            ctx.set(post.valid, 0)
            await ctx.tick().repeat(3)

    simulate(top, run, platform=FPGA)


def test_post_queue_sends_in_order_only_what_fired():
    dut = PostQueue(4)
    sent = []

    async def run(ctx):
        ctx.set(dut.o.ready, 1)
        for n in range(3):
            slots = [{"sem": 10 * n + s, "amount": 1} for s in range(4)]
            entry = {"posts": {"slots": slots, "index": 100 + n}, "enable": (2 << n) - 1, "last": 1}
            ctx.set(dut.i.payload, entry)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
        ctx.set(dut.i.valid, 0)
        for cycle in range(30):
            ctx.set(dut.fire, cycle in (5, 6))
            valid, payload = await sample(ctx, dut.o.valid, dut.o.payload)
            if valid:
                sent.append((payload.sem, payload.index))

    simulate(dut, run)
    assert sent == [(0, 100), (10, 101), (11, 101)]


@pytest.mark.parametrize("depth", [4, 2 * INSTRUCTIONS])
def test_post_queue_sends_what_random_instructions_post(depth):
    """Instructions with different numbers of entries, of which many wait before they fire."""
    dut = PostQueue(depth)
    rng = random.Random(depth)
    expected, sent, held = [], [], []
    entries = []
    for index in range(60):
        slots = [{"sem": rng.randrange(64), "amount": rng.randrange(1, 128)} for _ in range(6)]
        number = rng.choice([1, 1, 1, 2, 3 * depth])
        for n in range(number):
            entry = {"posts": {"slots": slots, "index": index}, "enable": rng.randrange(1, 64)}
            entries.append(entry | {"last": n == number - 1})
            expected += [
                (slot["sem"], slot["amount"], index)
                for s, slot in enumerate(slots)
                if entry["enable"] >> s & 1
            ]

    async def run(ctx):
        waiting, pushed, full = 0, 0, 0
        while len(sent) < len(expected):
            busy = len(sent) * 3 // len(expected) == 1  # in the middle: full nearly all the time
            offers = pushed < len(entries) and rng.random() < 0.9
            if offers:
                ctx.set(dut.i.payload, entries[pushed])
            ctx.set(dut.i.valid, offers)
            fires = waiting > 0 and rng.random() < (0.05 if busy else 0.8)
            ctx.set(dut.fire, fires)
            ctx.set(dut.o.ready, rng.random() < 0.8)
            ready, valid, taken, payload, empty = await sample(
                ctx, dut.i.ready, dut.o.valid, dut.o.ready, dut.o.payload, dut.empty
            )
            if valid and taken:
                sent.append((payload.sem, payload.amount, payload.index))
            full += offers and not ready
            assert not empty or not waiting
            waiting += (offers and ready) - fires
            pushed += offers and ready
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.fire, 0)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.empty)
        held.append(full)

    simulate(dut, run, deadline=200_000)
    assert sent == expected
    assert held[0] > 100


def test_post_queue_refuses_more_instructions_than_it_holds():
    dut = PostQueue(4 * INSTRUCTIONS)

    async def run(ctx):
        ctx.set(dut.i.valid, 1)
        taken = []
        for last in (1, 0, 0):
            ctx.set(dut.i.payload, {"enable": 1, "last": last})
            for _ in range(INSTRUCTIONS + 4 if last else 1):
                taken += await sample(ctx, dut.i.ready)
        assert sum(taken) == INSTRUCTIONS

    simulate(dut, run)

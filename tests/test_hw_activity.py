"""Pipelines that rest: the same block with and without enables gives the same in every cycle."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib.wiring import In
from hw_bench import simulate
from test_hw_vector_lanes import operand_fields, pack, random_context, random_steps

from hw_gen.blocks.activity import awake, resting
from hw_gen.blocks.depthwise import DepthwiseEngine
from hw_gen.blocks.depthwise_lanes import DepthwiseLanes
from hw_gen.blocks.vector import VectorEngine
from hw_gen.blocks.vector_lanes import VectorLanes
from hw_gen.platform import RtlPlatform
from spec import preset

TINY = preset("tiny")
GATED = SimpleNamespace(clock_enables=True)
PAUSES = [0] * 8 + [1, 2, 5, 10, 20, 21, 22, 23, 24, 25, 30, 60]


class Twins(Elaboratable):
    """Two blocks of a kind with the same inputs; the second one rests.

    agree : their outputs are the same now. rests : the second one's registers hold.
    """

    def __init__(self, first, second, works, cycles, outputs):
        self.first, self.second, self.works, self.cycles = first, second, works, cycles
        self.outputs, self.agree, self.rests = outputs, Signal(), Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.first = self.first
        m.submodules.second = resting(m, GATED, self.second, self.works, "second", self.cycles)
        pairs = zip(
            self.first.signature.flatten(self.first),
            self.second.signature.flatten(self.second),
            strict=True,
        )
        for (_, member, one), (_, _, two) in pairs:
            if member.flow is In:
                m.d.comb += Value.cast(two).eq(Value.cast(one))
        m.d.comb += [
            self.agree.eq(Cat(a == b for a, b in self.outputs).all()),
            self.rests.eq(~awake(m, self.works, "watch", self.cycles)),
        ]
        return m


def vector_twins(config, cycles=None) -> Twins:
    one, two = VectorLanes(config), VectorLanes(config)
    outputs = [
        (one.i.ready, two.i.ready),
        (one.release, two.release),
        (one.o.valid, two.o.valid),
        (Mux(one.o.valid, one.o.value, 0), Mux(two.o.valid, two.o.value, 0)),
    ]
    return Twins(one, two, two.works, cycles or two.settled, outputs)


async def watched(ctx, twins, seen) -> bool:
    """One cycle; whether a step entered."""
    seen["agree"] &= ctx.get(twins.agree)
    seen["rested"] += ctx.get(twins.rests)
    entered = ctx.get(twins.first.i.valid & twins.first.i.ready)
    await ctx.tick()
    return bool(entered)


def vector_traffic(twins, config, seed, seen):
    """Steps with pauses of all lengths, contexts that change while nothing is under way, memories
    that are written in between."""
    rng = random.Random(seed)
    lanes = twins.first

    async def idle(ctx, cycles):
        ctx.set(lanes.i.valid, 0)
        for _ in range(cycles):
            ctx.set(lanes.room, rng.random() < 0.9)
            await watched(ctx, twins, seen)

    async def write(ctx, port, limit):
        ctx.set(port.addr, rng.randrange(limit // config.bus_bytes) * config.bus_bytes)
        ctx.set(port.data, rng.getrandbits(8 * config.bus_bytes))
        ctx.set(port.strobe, (1 << config.bus_bytes) - 1)
        ctx.set(port.valid, 1)
        await idle(ctx, 1)
        ctx.set(port.valid, 0)

    async def drive(ctx):
        for _ in range(9):
            await idle(ctx, 60)
            await write(ctx, lanes.param_write, config.param_entries * config.param_entry_bytes)
            await idle(ctx, rng.choice(PAUSES))
            await write(ctx, lanes.table_write, 512)
            await idle(ctx, rng.choice([0, 60]))
            slot, context = rng.randrange(config.vector_contexts), random_context(rng)
            ctx.set(lanes.slots.held[slot], context)
            steps = random_steps(rng, config, context)
            for n, step in enumerate(steps):
                await idle(ctx, rng.choice(PAUSES))
                fields = operand_fields(context)
                fields |= {name: pack(step[name]) for name in "ab"}
                for name, value in fields.items():
                    ctx.set(lanes.i.payload[name], value)
                flags = ("inside", "red_first", "red_last", "param", "lanes")
                tag = {"slot": slot, "last": n == len(steps) - 1}
                ctx.set(lanes.i.payload.tag, tag | {k: step[k] for k in flags})
                ctx.set(lanes.i.valid, 1)
                entered = False
                while not entered:
                    ctx.set(lanes.room, rng.random() < 0.5)
                    entered = await watched(ctx, twins, seen)
        await idle(ctx, 60)

    return drive


@pytest.mark.parametrize(("vector_lanes", "seed"), [(0, 1), (2, 3)])
def test_vector_lanes_that_rest_give_the_same(vector_lanes, seed):
    config = replace(TINY, vector_lanes=vector_lanes)
    twins, seen = vector_twins(config), {"agree": 1, "rested": 0}
    simulate(twins, vector_traffic(twins, config, seed, seen))
    assert seen["agree"] and seen["rested"] > 200


def test_vector_lanes_that_rest_too_early_are_noticed():
    twins, seen = vector_twins(TINY, 6), {"agree": 1, "rested": 0}
    simulate(twins, vector_traffic(twins, TINY, 1, seen))
    assert not seen["agree"]


@pytest.mark.parametrize(("cycles", "same"), [(DepthwiseLanes.SETTLED, 1), (1, 0)])
def test_depthwise_lanes_that_rest_give_the_same(cycles, same):
    rng = random.Random(5)
    one, two = DepthwiseLanes(TINY), DepthwiseLanes(TINY)
    outputs = [(one.o.valid, two.o.valid)]
    outputs += [
        (Mux(one.o.valid, a, 0), Mux(one.o.valid, b, 0))
        for a, b in ((getattr(one.o, n), getattr(two.o, n)) for n in ("value", "addr", "fires"))
    ]
    twins, seen = Twins(one, two, two.valid, cycles, outputs), {"agree": 1, "rested": 0, "out": 0}

    async def drive(ctx):
        for _ in range(300):
            ctx.set(one.valid, rng.random() < 0.4)
            ctx.set(one.data, rng.getrandbits(8 * TINY.word_bytes))
            ctx.set(one.tag.as_value(), rng.getrandbits(len(one.tag.as_value())))
            # What is read from the scratchpad is an operand or weights.
            ctx.set(one.tag.weight.valid, rng.random() < 0.2 and not ctx.get(one.tag.access.valid))
            seen["agree"] &= ctx.get(twins.agree)
            seen["rested"] += ctx.get(twins.rests)
            seen["out"] += ctx.get(one.o.valid)
            await ctx.tick()

    simulate(twins, drive)
    assert seen["agree"] == same and seen["rested"] > 10 and seen["out"] > 10


def test_nothing_rests_unless_the_platform_asks_for_it():
    block = object()
    for platform in (None, RtlPlatform(), RtlPlatform(loops=True)):
        assert resting(None, platform, block, 1, "block", 3) is block


@pytest.mark.parametrize("engine", [DepthwiseEngine, VectorEngine])
def test_lanes_of_engines_rest(engine):
    text = rtlil.convert(engine(TINY), platform=RtlPlatform(clock_enables=True))
    assert "lanes_awake" in text

"""The sequencer against plain nested loops: addresses, first/last flags, waits, posts."""

import random

import pytest
from hw_bench import FPGA, instruct, sample, simulate

from hw_gen.blocks.sequencer import Sequencer
from hw_gen.layouts import STREAM_FIELDS, WEIGHT_FIELDS
from spec.isa import Instruction, Opcode, Point, Sync


def loop_steps(loops):
    """Index tuples in order; `last` counts while the next outer loop is in its last iteration."""

    def walk(level, outer_last):
        if level == len(loops):
            yield ()
            return
        loop = loops[level]
        count = loop["last"] if outer_last and level else loop["count"]
        for i in range(count):
            for rest in walk(level + 1, i == count - 1):
                yield (i, *rest)

    return list(walk(0, True))


def random_load(rng, slots=()):
    loops = []
    for level in range(4):
        count = rng.choice([1, 1, 2, 3, 4])
        loops.append(
            {
                "count": count,
                "last": rng.choice([count, rng.randint(1, 4)]) if level else count,
                "mem": rng.randint(-5000, 5000),
                "chip": rng.randint(-500, 500),
            }
        )
    return Instruction(
        Opcode.LOAD,
        {
            "mem_base": rng.randint(0, 1 << 30),
            "chip_base": rng.randint(0, 1 << 20),
            "run": 4,
            "loop": loops,
            "wait": [s for kind, s in slots if kind == "wait"],
            "post": [s for kind, s in slots if kind == "post"],
        },
    )


def walked(dut, program, form, rng, names):
    """(index, values of `names`) of every step of the program; each is taken now or later."""
    seen, total = [], sum(len(loop_steps(p["loop"])) for p in program)

    async def feed(ctx):
        for index, instruction in enumerate(program):
            await instruct(ctx, dut.i, instruction, index, platform=form)

    async def take(ctx):
        ctx.set(dut.post[0].ready, 1)
        while len(seen) < total:
            ctx.set(dut.o.ready, rng.random() < 0.7)
            valid, step, ready, index = await sample(
                ctx, dut.o.valid, dut.o.payload, dut.o.ready, dut.index
            )
            if valid and ready:
                seen.append((index, *(getattr(step, name) for name in names)))

    simulate(dut, feed, take, platform=form)
    return seen


FORMS = pytest.mark.parametrize("form", [None, FPGA], ids=["silicon", "fpga"])


@FORMS
@pytest.mark.parametrize("seed", range(6))
def test_steps_equal_nested_loops(seed, form):
    rng = random.Random(seed)
    program = [random_load(rng) for _ in range(6)]
    dut = Sequencer(Opcode.LOAD, {"mem": "mem_base", "chip": "chip_base"})
    seen = walked(dut, program, form, rng, ("mem", "chip", "first", "last"))
    expected = []
    for index, p in enumerate(program):
        steps = loop_steps(p["loop"])
        for n, idx in enumerate(steps):
            mem = p["mem_base"] + sum(i * loop["mem"] for i, loop in zip(idx, p["loop"]))
            chip = p["chip_base"] + sum(i * loop["chip"] for i, loop in zip(idx, p["loop"]))
            expected.append(
                (index, mem % (1 << 40), chip % (1 << 24), int(n == 0), int(n == len(steps) - 1))
            )
    assert seen == expected


def random_matrix(rng):
    loops = []
    for level in range(6):
        count = rng.choice([1, 1, 2, 3])
        loops.append(
            {
                "count": count,
                "last": rng.choice([count, rng.randint(1, 3)]) if level else count,
                "act": rng.randint(-5000, 5000),
                "acc": rng.randint(-50, 50),
                "dy": rng.randint(-3, 3),
            }
        )
    return Instruction(
        Opcode.MATRIX,
        {
            "act_base": rng.randint(0, 1 << 20),
            "acc_base": rng.randint(0, 1 << 10),
            "y0": rng.randint(-4, 4),
            "rows": 4,
            "cols": 4,
            "fold_loops": 2,
            "loop": loops,
        },
    )


@FORMS
@pytest.mark.parametrize("seed", range(4))
def test_loops_that_come_one_by_one(seed, form):
    """A loop of MATRIX is a granule wide: on an FPGA its fields are in small memories."""
    rng = random.Random(seed)
    program = [random_matrix(rng) for _ in range(5)]
    bases = {"act": "act_base", "acc": "acc_base", "dy": "y0"}
    dut = Sequencer(Opcode.MATRIX, bases, without=WEIGHT_FIELDS)
    seen = walked(dut, program, form, rng, bases)
    expected = []
    for index, p in enumerate(program):
        for idx in loop_steps(p["loop"]):
            values = (
                p[base] + sum(i * loop[name] for i, loop in zip(idx, p["loop"], strict=True))
                for name, base in bases.items()
            )
            act, acc, dy = values
            expected.append((index, act % (1 << 24), acc % (1 << 16), dy % (1 << 16)))
    assert seen == expected


def test_no_bubble_between_steps_and_instructions():
    program = [random_load(random.Random(n)) for n in range(4)]
    dut = Sequencer(Opcode.LOAD, {"mem": "mem_base", "chip": "chip_base"})
    total = sum(len(loop_steps(p["loop"])) for p in program)
    valid_cycles = []

    async def feed(ctx):
        for index, instruction in enumerate(program):
            await instruct(ctx, dut.i, instruction, index)

    async def take(ctx):
        ctx.set(dut.post[0].ready, 1)
        ctx.set(dut.o.ready, 1)
        cycle = 0
        while len(valid_cycles) < total:
            (valid,) = await sample(ctx, dut.o.valid)
            if valid:
                valid_cycles.append(cycle)
            cycle += 1

    simulate(dut, feed, take)
    assert valid_cycles == list(range(valid_cycles[0], valid_cycles[0] + total))


@FORMS
def test_waits_and_posts_follow_their_levels(form):
    loops = [{"count": 2}, {"count": 3}, {"count": 2}, {"count": 1}]
    instruction = Instruction(
        Opcode.LOAD,
        {
            "run": 4,
            "loop": loops,
            "wait": [Sync(sem=1, level=0), Sync(sem=2, level=2, amount=3)],
            "post": [Sync(sem=4, level=1), Sync(sem=5, level=3, amount=2)],
        },
    )
    dut = Sequencer(Opcode.LOAD, {"mem": "mem_base"})
    log = []

    async def run(ctx):
        await instruct(ctx, dut.i, instruction, 0, platform=form)
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.post[0].ready, 1)
        rng = random.Random(3)
        steps = 0
        while steps < 12:
            if ctx.get(dut.wait.valid) and rng.random() < 0.5:
                ctx.set(dut.wait.grant, 1)
                log.append(("take", steps, ctx.get(dut.wait.sem), ctx.get(dut.wait.amount)))
            else:
                ctx.set(dut.wait.grant, 0)
            if ctx.get(dut.post[0].valid):
                entry = ctx.get(dut.post[0].payload)
                slots = enumerate(entry.posts.slots)
                log.extend(
                    ("post", steps, s.sem, s.amount) for i, s in slots if entry.enable >> i & 1
                )
            posts = ctx.get(dut.post[0].valid)  # each step does
            await ctx.tick()
            steps += posts

    simulate(dut, run, platform=form)
    takes = [entry for entry in log if entry[0] == "take"]
    posts = [entry for entry in log if entry[0] == "post"]
    assert takes == [("take", 0, 1, 1)] + [("take", s, 2, 3) for s in range(0, 12, 2)]
    expected_posts = []
    for s in range(12):
        if s % 6 == 5:
            expected_posts.append(("post", s, 4, 1))
        expected_posts.append(("post", s, 5, 2))
    assert sorted(posts) == sorted(expected_posts)


@FORMS
def test_weight_sequencer_walks_folds_only(form):
    instruction = Instruction(
        Opcode.MATRIX,
        {
            "rows": 4,
            "cols": 4,
            "fold_loops": 2,
            "loop": [{"count": 3, "wgt": 100}, {"count": 2, "wgt": 7}, {"count": 50, "act": 4}],
        },
    )
    dut = Sequencer(
        Opcode.MATRIX,
        {"wgt": "wgt_base"},
        post_points=(Point.WEIGHTS,),
        folds=True,
        without=STREAM_FIELDS,
    )
    seen = []

    async def run(ctx):
        await instruct(ctx, dut.i, instruction, 0, platform=form)
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.post[0].ready, 1)
        for _ in range(20):
            if ctx.get(dut.o.valid):
                seen.append(ctx.get(dut.o.payload.wgt))
            await ctx.tick()

    simulate(dut, run, platform=form)
    assert seen == [0, 7, 100, 107, 200, 207]

"""The vector lanes against NumPy: every type of step, back to back, with changing contexts."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hw_bench import FORMS, reused, simulate

from hw_gen.blocks.vector_context import CONTEXT
from hw_gen.blocks.vector_lanes import VectorLanes
from spec import NpuConfig, preset
from spec.isa import INTERPOLATED, Alu, DType, Reduce, Scale, Table, adds_b, merges_b
from spec.numerics import apply_scale, interpolate, leading_zeros, multiply, wrap32

TINY = preset("tiny")
ODD = preset("odd")
I32 = (-(1 << 31), (1 << 31) - 1)
ALU = {
    Alu.PASS: lambda a, b: a,
    Alu.ADD: lambda a, b: wrap32(a + b),
    Alu.SUB: lambda a, b: wrap32(a - b),
    Alu.MIN: np.minimum,
    Alu.MAX: np.maximum,
    Alu.ASR: lambda a, b: a >> (b & 31),
    Alu.ASR_ROUND: lambda a, b: ((a << 1 >> (b & 31)) + 1) >> 1,
    Alu.LSL: lambda a, b: wrap32(a << (b & 31)),
    Alu.LSR: lambda a, b: wrap32((a & 0xFFFFFFFF) >> (b & 31)),
    Alu.AND: lambda a, b: a & b,
    Alu.OR: lambda a, b: a | b,
    Alu.XOR: lambda a, b: a ^ b,
    Alu.EQ: lambda a, b: np.where(a == b, 1, 0),
    Alu.GT: lambda a, b: np.where(a > b, 1, 0),
    Alu.GE: lambda a, b: np.where(a >= b, 1, 0),
    Alu.CLZ: lambda a, b: leading_zeros(a),
    Alu.ABS: lambda a, b: wrap32(np.abs(a)),
}
SUMMED = dict.fromkeys(("bias", "a_scale", "a_clamp", "a_shl", "b_scale", "b_none"), 0)
"""With these, operands are added or subtracted before RESCALE (`adds_b`)."""

RAW = {"a_zp": 0, "b_zp": 0, "bias": 0, "a_scale": Scale.OFF, "b_scale": Scale.OFF, "a_shl": 0}
"""Fields with which operands reach the ALU as they were read."""
REDUCE = {Reduce.SUM: ALU[Alu.ADD], Reduce.MAX: np.maximum, Reduce.MIN: np.minimum}


def test_every_operation_of_the_alu_has_a_reference():
    assert set(ALU) == set(Alu)


def random_context(rng):
    bound = sorted(rng.sample(range(-300, 300), 2))
    reach = rng.choice([300, 1 << 17])
    a_bound = sorted(rng.sample(range(-reach, reach), 2))
    context = dict.fromkeys(CONTEXT, 0)
    context.update(
        a_type=DType.I32,
        b_type=DType.I32,
        a_zp=rng.randint(-128, 127),
        bias=rng.randint(0, 1),
        a_scale=rng.choice(list(Scale)),
        a_mult=rng.randint(1 << 20, (1 << 31) - 1),
        a_shift=rng.randint(30, 45),
        a_min=a_bound[0],
        a_max=a_bound[1],
        a_clamp=rng.randint(0, 1),
        a_shl=rng.choice([0, 0, rng.randint(1, 31)]),
        alu=rng.choice([*ALU, Alu.MAX]),
        b_zp=rng.randint(-128, 127),
        b_scale=rng.choice([Scale.OFF, Scale.TENSOR]),
        b_mult=rng.randint(-(1 << 31), (1 << 31) - 1),
        b_shift=rng.randint(2, 62),
        reduce=rng.choice(list(Reduce)),
        o_scale=rng.choice(list(Scale)[:3]),
        o_mult=rng.randint(1 << 20, (1 << 31) - 1),
        o_shift=rng.randint(2, 62),
        o_zp=rng.randint(-128, 127),
        o_min=bound[0],
        o_max=bound[1],
        table=rng.choice([Table.OFF, Table.OFF, *Table]),
        b_none=rng.random() < 0.2,
    )
    context["reduce_lanes"] = int(context["reduce"] != Reduce.NONE and rng.random() < 0.5)
    if context["a_scale"] == Scale.OPERAND:
        context["a_shift"] = rng.choice([0, 1, 63, rng.randint(0, 12)])
    if context["alu"] in (Alu.EQ, Alu.GE) and rng.random() < 0.7:
        context.update(RAW)
    if context["alu"] == Alu.MAX:
        narrow = (DType.I8, DType.U8, DType.I16, DType.U16)
        context.update(RAW, a_clamp=0, a_type=rng.choice(narrow), b_type=rng.choice(narrow))
        # Each alone makes B an operand of its own.
        context.update(rng.choice([{}, {}, {"bias": 1}, {"a_clamp": 1}, {"b_zp": 3}, {"a_shl": 1}]))
    if context["alu"] in (Alu.ADD, Alu.SUB) and rng.random() < 0.7:
        context.update(SUMMED)
        context.update(rng.choice([{}, {}, {}, {"bias": 1}, {"b_scale": 1}, {"a_shl": 1}]))
    if context["alu"] > Alu.MAX and rng.random() < 0.7:
        context.update(o_scale=Scale.OFF, o_min=I32[0], o_max=I32[1], table=Table.OFF)
    if context["table"] == Table.I8:
        context.update(o_min=-128, o_max=127)
    if context["table"] in INTERPOLATED:
        context.update(o_min=-(1 << 15), o_max=(1 << 15) - 1, o_zp=rng.randint(-(1 << 15), 1 << 15))
    return context


def reference(config, context, steps, params, table):
    """Results of the steps that carry one, lane by lane, from `spec.numerics` alone."""
    out, running = [], None
    for step in steps:
        bias, mult, shift = params[step["param"]]
        a, b = step["a"], step["b"]
        b = b * 0 if context["b_none"] else b
        a = wrap32(a - context["a_zp"]) * step["inside"]
        b = wrap32(b - context["b_zp"]) * step["inside"]
        if context["bias"]:
            a = wrap32(a + bias)
        if context["a_scale"] == Scale.TENSOR:
            a = apply_scale(a, context["a_mult"], context["a_shift"])
        elif context["a_scale"] == Scale.CHANNEL:
            a = apply_scale(a, mult, shift)
        elif context["a_scale"] == Scale.OPERAND:
            a = multiply(a, b, context["a_shift"])
        if context["a_clamp"]:
            a = np.clip(a, context["a_min"], context["a_max"])
        a = wrap32(a << context["a_shl"])
        if context["b_scale"]:
            b = apply_scale(b, context["b_mult"], context["b_shift"])
        v = ALU[context["alu"]](a, b)
        if context["reduce"] != Reduce.NONE:
            if step["red_first"]:
                start = {Reduce.SUM: 0, Reduce.MAX: I32[0], Reduce.MIN: I32[1]}
                running = np.full(config.cols, start[context["reduce"]], np.int64)
            if step["inside"]:
                used = np.arange(config.cols) < (
                    step["lanes"] if context["reduce_lanes"] else config.cols
                )
                running = np.where(used, REDUCE[context["reduce"]](running, v), running)
            v = running
            if context["reduce_lanes"]:
                combine = {Reduce.SUM: np.sum, Reduce.MAX: np.max, Reduce.MIN: np.min}
                v = np.concatenate([[wrap32(combine[context["reduce"]](v))], v[1:]])
        if context["o_scale"] == Scale.TENSOR:
            v = apply_scale(v, context["o_mult"], context["o_shift"])
        elif context["o_scale"] == Scale.CHANNEL:
            v = apply_scale(v, mult, shift)
        v = np.clip(wrap32(v + context["o_zp"]), context["o_min"], context["o_max"])
        if context["table"] == Table.I8:
            v = table.view(np.int8)[v + 128]
        elif context["table"] in INTERPOLATED:
            v = interpolate(table, v)
            v = v >> 15 if context["table"] == Table.I16_I8 else v
        if context["reduce"] == Reduce.NONE or step["red_last"]:
            out.append(list(v[: 1 if context["reduce_lanes"] else step["lanes"]]))
    return out


def random_values(rng, lanes, reach):
    return np.array([rng.randint(-reach, reach - 1) for _ in range(lanes)])


def random_elements(rng, lanes, kind, reach):
    """Of a type, below `reach` where that is int32; many of the narrow ones at its ends."""
    if kind == DType.I32:
        return random_values(rng, lanes, reach)
    ends = (kind.low, kind.high)
    return np.array([rng.choice([rng.randint(*ends), *ends]) for _ in range(lanes)])


def random_steps(rng, config, context):
    group = rng.randint(1, 4)
    big, small = rng.choice([0, 0, 20]), rng.random() < 0.2
    steps = []
    for _ in range(rng.randint(1, 3)):
        param = rng.randrange(config.param_entries)
        used = sorted((rng.randint(1, config.cols) for _ in range(group)), reverse=True)
        for i in range(group):
            steps.append(
                {
                    "a": random_elements(
                        rng,
                        config.cols,
                        context["a_type"],
                        2 if small else rng.choice([1 << 20, 1 << 31]),
                    ),
                    "b": random_elements(rng, config.cols, context["b_type"], 128)
                    << (big if context["b_type"] == DType.I32 else 0),
                    "param": param,
                    "lanes": used[i],
                    "inside": int(rng.random() < 0.85),
                    "red_first": int(i == 0),
                    "red_last": int(i == group - 1),
                }
            )
    return steps


def pack(values, bits=32):
    return sum((int(v) & ((1 << bits) - 1)) << (bits * i) for i, v in enumerate(values))


def operand_fields(context):
    """What comes with the operands of a step: fields of its context, and what follows from them."""
    fields = {name: context[name] for name in ("a_zp", "b_zp", "b_none")}
    sums = int(adds_b(context)) << int(context["alu"] == Alu.SUB)
    return {**fields, "merges": int(merges_b(context)), "sums": sums}


async def write_memory(ctx, config, port, image):
    """Write `image` (bytes) from address 0 in bus words."""
    bus = config.bus_bytes
    for at in range(0, len(image), bus):
        ctx.set(port.addr, at)
        ctx.set(port.data, int.from_bytes(image[at : at + bus], "little"))
        ctx.set(port.strobe, (1 << bus) - 1)
        ctx.set(port.valid, 1)
        await ctx.tick()
    ctx.set(port.valid, 0)


@pytest.mark.parametrize(
    ("config", "lanes", "seed"),
    [
        *((TINY, 0, seed) for seed in range(8)),
        *((TINY, lanes, seed) for lanes in (1, 2) for seed in (1, 2, 4)),
        (ODD, 1, 2),
        (ODD, 4, 4),
    ],
    ids=lambda value: value.name if isinstance(value, NpuConfig) else str(value),
)
def test_lanes_equal_the_specification(config, lanes, seed):
    """Contexts change from step to step, with bubbles and, half the time, without any. Odd seeds
    have the form for simulators.
    """
    # One lane, one context: the smallest engine.
    contexts = 1 if lanes == 1 else config.vector_contexts
    config = replace(config, vector_lanes=lanes, vector_contexts=contexts)
    bubbles = 0.2 * (seed % 2)
    rng = random.Random(seed)
    params, image = [], b""
    for _ in range(config.param_entries):
        bias = np.array([rng.randint(-(1 << 16), 1 << 16) for _ in range(config.cols)])
        mult = np.array([rng.randint(1 << 24, (1 << 31) - 1) for _ in range(config.cols)])
        shift = np.array([rng.randint(28, 50) for _ in range(config.cols)])
        params.append((bias, mult, shift))
        entry = bias.astype("<i4").tobytes() + mult.astype("<i4").tobytes()
        entry += shift.astype("i1").tobytes()
        image += entry.ljust(config.param_entry_bytes, b"\0")
    table = np.array([rng.randint(-(1 << 15), (1 << 15) - 1) for _ in range(513)], "<i2")
    contexts = [random_context(rng) for _ in range(25)]
    program = [(context, random_steps(rng, config, context)) for context in contexts]
    dut = reused(VectorLanes, config)
    got, expected = [], []
    for context, steps in program:
        expected += reference(config, context, steps, params, table)
    # Results come without their context: how many lanes each has.
    widths = [len(lanes) for lanes in expected]
    left = []

    async def drive(ctx):
        await write_memory(ctx, config, dut.param_write, image)
        await write_memory(ctx, config, dut.table_write, table.tobytes())
        for number, (context, steps) in enumerate(program):
            while number - len(left) >= config.vector_contexts:
                ctx.set(dut.i.valid, 0)
                await tick(ctx)
            ctx.set(dut.slots.held[number % config.vector_contexts], context)
            for n, step in enumerate(steps):
                while rng.random() < bubbles:
                    ctx.set(dut.i.valid, 0)
                    await tick(ctx)
                flags = ("inside", "red_first", "red_last", "param", "lanes")
                tag = {"slot": number % config.vector_contexts, "last": n == len(steps) - 1}
                fields = operand_fields(context)
                lanes = {name: pack(step[name]) for name in "ab"}
                for name, value in (fields | lanes).items():
                    ctx.set(dut.i.payload[name], value)
                ctx.set(dut.i.payload.tag, tag | {k: step[k] for k in flags})
                ctx.set(dut.i.valid, 1)
                while not await tick(ctx):
                    pass
        ctx.set(dut.i.valid, 0)
        for _ in range(40):
            await tick(ctx)

    async def tick(ctx):
        """One cycle; returns whether the step has entered."""
        ctx.set(dut.room, rng.random() >= bubbles)
        if ctx.get(dut.o.valid):
            word = ctx.get(dut.o.value)
            lanes = [(word >> (32 * c)) & 0xFFFFFFFF for c in range(config.cols)]
            lanes = lanes[: widths[len(got)]]
            got.append([v - (1 << 32) if v >> 31 else v for v in lanes])
        if ctx.get(dut.release):
            left.append(len(left))
        taken = ctx.get(dut.i.valid & dut.i.ready)
        await ctx.tick()
        return taken

    simulate(dut, drive, platform=FORMS[seed % 2])
    assert len(expected) > 30
    assert got == expected
    assert len(left) == len(program)

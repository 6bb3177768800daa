"""The adders against integers: sums, differences, ends of runs, and what passes a limit."""

import random

import pytest
from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.sim import Simulator
from hw_bench import FORMS, FPGA

from hw_gen.blocks.adders import (
    Increment,
    fast_difference,
    fast_sum,
    passes_end,
    sum_exceeds,
    sum_less_one,
    two_of,
)
from hw_gen.platform import RtlPlatform


def values(width):
    """Numbers of so many bits: around the ends of parts, and any."""
    rng = random.Random(width)
    edges = {0, 1, (1 << width) - 1, 1 << (width - 1), *(1 << i for i in range(0, width, 11))}
    near = {(e + d) % (1 << width) for e in edges for d in (-1, 0, 1)}
    return [*sorted(near), *(rng.getrandbits(width) for _ in range(20))]


def settle(m, inputs, rows, output):
    """`output` for each row of values of the inputs."""
    found = []

    async def bench(ctx):
        for row in rows:
            for signal, value in zip(inputs, row, strict=True):
                ctx.set(signal, value)
            await ctx.delay(1e-9)
            found.append(ctx.get(output))

    sim = Simulator(m)
    sim.add_testbench(bench)
    sim.run()
    return found


@pytest.mark.parametrize("platform", [None, RtlPlatform(plain_sums=True)])
@pytest.mark.parametrize("width", [1, 10, 11, 12, 24, 34])
def test_sums_and_differences_of_all_widths(width, platform):
    m, a, b, carry = Module(), Signal(width), Signal(width), Signal()
    outs = Cat(
        fast_sum(m, platform, "plain", a, b),
        fast_sum(m, platform, "carried", a, b, carry),
        fast_difference(m, platform, "less", a, b),
        sum_less_one(m, platform, "last", a, b),
    )
    rows = [(x, y, (x ^ y) & 1) for x in values(width) for y in values(width)]
    for (x, y, c), found in zip(rows, settle(m, (a, b, carry), rows, outs), strict=True):
        wanted = (x + y, x + y + c, x - y, x + y - 1)
        mask = (1 << width) - 1
        assert [found >> width * i & mask for i in range(4)] == [w & mask for w in wanted], (x, y)


def test_a_narrow_number_is_added_and_the_sum_has_the_sign_of_the_first():
    m, a, b = Module(), Signal(signed(20)), Signal(5)
    total = fast_sum(m, None, "total", a, b)
    rows = [(x - (1 << 19), y) for x in values(20) for y in (0, 1, 31)]
    found = settle(m, (a, b), rows, total)
    wrapped = [((x + y + (1 << 19)) % (1 << 20)) - (1 << 19) for x, y in rows]
    assert found == wrapped


@pytest.mark.parametrize("platform", [None, RtlPlatform(plain_sums=True)])
@pytest.mark.parametrize(("width", "narrow"), [(32, 18), (20, 5), (12, 11), (6, 1)])
def test_a_narrow_signed_number_is_added_and_subtracted(width, narrow, platform):
    m, a, b, carry = Module(), Signal(signed(width)), Signal(signed(narrow)), Signal()
    outs = Cat(
        fast_sum(m, platform, "plain", a, b),
        fast_sum(m, platform, "carried", a, b, carry),
        fast_difference(m, platform, "less", a, b),
    )
    half = 1 << (narrow - 1)
    near = {n for n in (-half, 1 - half, -2, -1, 0, 1, half - 2, half - 1) if -half <= n < half}
    borders = {(y << (narrow % width)) + d for y in (0, 1, 2, -1) for d in (-1, 0, 1)}
    firsts = [*values(width), *(x % (1 << width) for x in sorted(borders))]
    rows = [
        (x - ((x >> (width - 1)) << width), y, (x ^ y) & 1) for x in firsts for y in sorted(near)
    ]
    mask = (1 << width) - 1
    for (x, y, c), found in zip(rows, settle(m, (a, b, carry), rows, outs), strict=True):
        wanted = (x + y, x + y + c, x - y)
        assert [found >> width * i & mask for i in range(3)] == [w & mask for w in wanted], (x, y)


@pytest.mark.parametrize("platform", [None, RtlPlatform(plain_sums=True)])
@pytest.mark.parametrize("width", [4, 24])
def test_a_sum_passes_a_limit(width, platform):
    m, a, b, limit = Module(), Signal(width), Signal(width), Signal(width + 1)
    passed = sum_exceeds(m, platform, "end", a, b, limit)
    rows = []
    for x in values(width):
        for y in values(width)[::3]:
            near = {x + y + d for d in (-1, 0, 1)} | {0, 1 << width, (1 << (width + 1)) - 1}
            rows += [(x, y, top) for top in near if 0 <= top < 1 << (width + 1)]
    assert settle(m, (a, b, limit), rows, passed) == [x + y > top for x, y, top in rows]


@pytest.mark.parametrize("platform", [*FORMS, FPGA], ids=["silicon", "simulated", "fpga"])
@pytest.mark.parametrize("end", [1 << 6, 1 << 10, 1 << 14])
def test_an_access_passes_the_end_of_a_memory(end, platform):
    m, addr, size = Module(), Signal(16), Signal(8)
    passed = passes_end(m, platform, "end", addr, size, end)
    sizes = (0, 1, 2, 3, 127, 128, 255)
    near = {n + d for n in (0, end, 2 * end, (1 << 16) - 1) for d in (-256, -3, -1, 0, 1, 2, 200)}
    near |= {end - n + d for n in sizes for d in (-1, 0, 1)} | set(values(16))
    rows = [(x, n) for x in sorted(near) if 0 <= x < 1 << 16 for n in sizes]
    assert settle(m, (addr, size), rows, passed) == [x + n > end for x, n in rows]


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_the_sum_of_many_is_that_of_two(count):
    m, numbers = Module(), [Signal(12) for _ in range(count)]
    total = sum(two_of(numbers, 12))[:12]
    rng = random.Random(count)
    rows = [[rng.getrandbits(12) for _ in range(count)] for _ in range(200)]
    assert settle(m, numbers, rows, total) == [sum(row) % (1 << 12) for row in rows]


def test_an_increment_is_one_more():
    m, source = Module(), Signal(27)
    m.submodules.increment = increment = Increment(27)
    m.d.comb += increment.i.eq(source)
    found = settle(m, [source], [[x] for x in values(27)], increment.o)
    assert found == [(x + 1) % (1 << 27) for x in values(27)]

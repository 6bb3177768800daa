"""Registers of what a configuration leaves out."""

from dataclasses import replace

from hw_dma_bench import small
from hw_registers_bench import run

from spec.isa import Engine
from spec.memmap import Control, Stall


def test_without_counters_of_engines_they_read_as_zero():
    async def test(host, ctx):
        await host.write("CONTROL", Control.START)
        ctx.set(host.dut.vector_taken, 1)
        await ctx.tick().repeat(100)
        ctx.set(host.dut.vector_taken, 0)
        await host.pulse(host.dut.program.done)
        assert 100 < await host.wide("CYCLES") < 120
        assert await host.wide("VECTORS") == 100
        for e in Engine:
            assert not any([await host.wide(f"COUNT_{e.name}_{s.name}") for s in Stall])

    run(test, replace(small(), engine_counters=False))


def test_registers_of_regions_that_are_not_there_stay_zero():
    async def test(host, ctx):
        names = [f"{name}{i}" for i in (3, 4, 7) for name in ("BASE", "LIMIT")]
        for name in names:
            name = f"{name}_LO" if name.startswith("BASE") else name
            assert await host.write(name, 0xFFFF_FFFF) == 0
            value = 0 if "4" in name or "7" in name else 0xFFFF_FFFF
            if name.startswith("BASE"):
                value &= 0xFFFF_FFC0
            assert await host.read(name) == value

    run(test, replace(small(), regions=4))

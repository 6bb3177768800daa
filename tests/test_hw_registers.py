"""Registers: the map, start, counters, faults, interrupt, watchdog, soft reset."""

import pytest
from hw_bench import FPGA, sample
from hw_dma_bench import small
from hw_registers_bench import run

from spec.isa import ISA_DIGEST, ISA_VERSION, Engine
from spec.memmap import (
    ID_VALUE,
    OFFSETS,
    REGISTERS,
    WATCHDOG_CYCLES,
    Control,
    Fault,
    Stall,
    Status,
)

SLVERR = 2
FORMS = pytest.mark.parametrize("form", [None, FPGA], ids=["silicon", "fpga"])


def test_identity_registers():
    config = small()

    async def test(host, ctx):
        assert await host.read("ID") == ID_VALUE
        assert await host.read("ISA_VERSION") == ISA_VERSION[0] << 16 | ISA_VERSION[1]
        assert await host.wide("ISA_DIGEST") == ISA_DIGEST
        assert await host.wide("CONFIG_DIGEST") == config.digest()

    run(test, config)


def test_every_register_answers_and_nothing_else_does():
    async def test(host, ctx):
        mapped = {r.offset for r in REGISTERS}
        for offset in range(0, 0x400, 4):
            await host.read(offset, response=0 if offset in mapped else SLVERR)
        assert await host.write(0x3FC, 1) == SLVERR
        assert await host.write("ID", 0) == 0
        assert await host.read("ID") == ID_VALUE

    run(test)


def test_read_write_registers_hold_bytes_by_strobe():
    async def test(host, ctx):
        names = [r.name for r in REGISTERS if r.access == "rw" and r.name != "IRQ_ENABLE"]
        for n, name in enumerate(names):
            await host.write(name, 0x0101_0101 * (n + 1), gap=n % 3)
        for n, name in enumerate(names):
            mask = 0xFF if name.endswith("_HI") else 0xFFFF_FFFF  # 40 address bits
            if name.startswith("BASE") and name.endswith("_LO"):
                mask = 0xFFFF_FFC0
            assert await host.read(name) == 0x0101_0101 * (n + 1) & mask
        await host.write("PROGRAM_BYTES", 0xAABB_CCDD, strobe=0b0110)
        old = 0x0101_0101 * (names.index("PROGRAM_BYTES") + 1)
        assert await host.read("PROGRAM_BYTES") == old & 0xFF00_00FF | 0x00BB_CC00
        low, high = (names.index(f"BASE3_{half}") + 1 for half in ("LO", "HI"))
        address = (0x0101_0101 * high << 32 | 0x0101_0101 * low) & 0xFF_FFFF_FFC0
        await host.write("CONTROL", Control.START)
        assert ctx.get(host.dut.regions.base[3]) == address
        assert ctx.get(host.dut.regions.limit[3]) == 0x0101_0101 * (names.index("LIMIT3") + 1)

    run(test)


@FORMS
def test_counters_sum_to_the_cycles_of_the_run(form):
    async def test(host, ctx):
        for first in range(2):
            await once(host, ctx, first)

    async def once(host, ctx, first):
        dut = host.dut
        await host.write("CONTROL", Control.START)
        assert await host.read("STATUS") == Status.BUSY
        for n in range(200):
            for e in Engine:
                ctx.set(dut.engines[e].stall, (first + n * (e + 1) // 7) % 6)
            ctx.set(dut.vector_taken, n % 2)
            ctx.set(dut.read_beat, n % 4 == 0)
            ctx.set(dut.write_bytes, n % 8)
            await ctx.tick()
        ctx.set(dut.vector_taken, 0)
        ctx.set(dut.read_beat, 0)
        ctx.set(dut.write_bytes, 0)
        await host.pulse(dut.program.done)
        assert await host.read("STATUS") == Status.DONE
        cycles = await host.wide("CYCLES")
        assert 200 < cycles < 220
        for e in Engine:
            counts = [await host.wide(f"COUNT_{e.name}_{s.name}") for s in Stall]
            assert sum(counts) == cycles
            assert all(counts)
        assert await host.wide("VECTORS") == 100
        assert await host.wide("READ_BYTES") == 50 * 8
        assert await host.wide("WRITE_BYTES") == 25 * sum(range(8))
        assert await host.wide("CYCLES") == cycles
        await host.write("CONTROL", Control.START)
        assert await host.wide("CYCLES") < 10
        await host.pulse(dut.program.done)

    run(test, form=form)


@FORMS
@pytest.mark.parametrize("bus_bytes", [8, 64])
def test_counters_are_exact_however_often_they_are_read(bus_bytes, form):
    """Everything counts at its highest rate for many rounds; a host reads all the time."""
    config = small(bus_bytes=bus_bytes, max_burst=16)
    cycles = 3_000

    async def test(host, ctx):
        dut = host.dut
        for engine in dut.engines:
            ctx.set(engine.stall, Stall.BUSY)
        for signal, value in (
            (dut.vector_taken, 1),
            (dut.read_beat, 1),
            (dut.write_bytes, bus_bytes),
        ):
            ctx.set(signal, value)
        await host.write("CONTROL", Control.START)
        before, reads = 0, 0
        while before < cycles:
            now = await host.read("CYCLES_LO")
            assert 0 < now - before <= 8
            before, reads = now, reads + 1
        assert reads > cycles / 8
        await host.pulse(dut.program.done)
        await ctx.tick()
        total = await host.wide("CYCLES")
        assert before < total < before + 8
        assert await host.wide("VECTORS") == total
        assert await host.wide("READ_BYTES") == total * bus_bytes
        assert await host.wide("WRITE_BYTES") == total * bus_bytes
        for engine in Engine:
            for stall in Stall:
                count = await host.wide(f"COUNT_{engine.name}_{stall.name}")
                assert count == (total if stall is Stall.BUSY else 0)

    run(test, config, form)


def test_start_is_one_pulse_and_ignored_while_running():
    async def test(host, ctx):
        pulses = []

        async def count(cycles):
            for _ in range(cycles):
                (start,) = await sample(ctx, host.dut.program.start)
                pulses.append(start)

        axil = host.axil
        for _ in range(2):
            ctx.set(axil.awaddr, OFFSETS["CONTROL"])
            ctx.set(axil.wdata, Control.START)
            ctx.set(axil.wstrb, 15)
            ctx.set(axil.awvalid, 1)
            ctx.set(axil.wvalid, 1)
            await count(2)  # `ready` is a flip-flop
            ctx.set(axil.awvalid, 0)
            ctx.set(axil.wvalid, 0)
            ctx.set(axil.bready, 1)
            await count(4)
        assert pulses == [0, 1] + [0] * 10

    run(test)


def test_interrupt():
    async def test(host, ctx):
        dut = host.dut
        await host.write("CONTROL", Control.START)
        await host.pulse(dut.program.done)
        assert not ctx.get(dut.irq)  # not enabled
        assert await host.read("IRQ_STATUS") == 1
        await host.write("IRQ_ENABLE", 1)
        assert ctx.get(dut.irq)
        await host.write("IRQ_STATUS", 0)
        assert ctx.get(dut.irq)
        await host.write("IRQ_STATUS", 1)
        assert not ctx.get(dut.irq)
        await host.write("CONTROL", Control.START)
        await host.fail(Engine.STORE, Fault.AXI_ERROR, 5)
        await ctx.tick()
        assert ctx.get(dut.irq)

    run(test)


def test_first_fault_wins_and_lower_engines_go_first():
    async def test(host, ctx):
        dut = host.dut
        await host.write("CONTROL", Control.START)
        for engine, cause, index in (
            (Engine.VECTOR, Fault.CHIP_ADDRESS, 9),
            (Engine.LOAD, Fault.AXI_ERROR, 7),
        ):
            status = dut.engines[engine]
            ctx.set(status.cause, cause)
            ctx.set(status.fault_index, index)
            ctx.set(status.fault, 1)
        await ctx.tick()
        for engine in (Engine.VECTOR, Engine.LOAD):
            ctx.set(dut.engines[engine].fault, 0)
        assert not ctx.get(dut.halt)
        await ctx.tick()
        assert ctx.get(dut.halt)
        await host.fail(Engine.MATRIX, Fault.CHIP_ADDRESS, 3)
        assert await host.read("STATUS") == Status.FAULT
        assert await host.read("FAULT_CAUSE") == Fault.AXI_ERROR
        assert await host.read("FAULT_ENGINE") == Engine.LOAD
        assert await host.read("FAULT_INSTRUCTION") == 7
        cycles = await host.wide("CYCLES")
        await ctx.tick().repeat(20)
        assert await host.wide("CYCLES") == cycles
        await host.write("CONTROL", Control.START)  # refused until the reset
        assert await host.read("STATUS") == Status.FAULT

    run(test)


def test_an_engine_that_is_idle_after_its_fault_does_not_end_the_run_as_done():
    async def test(host, ctx):
        await host.write("CONTROL", Control.START)
        await host.fail(Engine.STORE, Fault.AXI_ERROR, 5)
        await host.pulse(host.dut.program.done)
        assert ctx.get(host.dut.halt)
        assert await host.read("STATUS") == Status.FAULT
        assert await host.read("FAULT_INSTRUCTION") == 5

    run(test)


def test_semaphore_overflow():
    async def test(host, ctx):
        await host.write("CONTROL", Control.START)
        ctx.set(host.dut.overflow.engine, Engine.MATRIX)
        ctx.set(host.dut.overflow.index, 20)
        ctx.set(host.dut.engines[Engine.MATRIX].index, 21)
        await host.pulse(host.dut.overflow.strobe)
        assert await host.read("FAULT_CAUSE") == Fault.SEMAPHORE_OVERFLOW
        assert await host.read("FAULT_ENGINE") == Engine.MATRIX
        assert await host.read("FAULT_INSTRUCTION") == 20
        assert await host.read("PC_MATRIX") == 21

    run(test)


def test_watchdog_fires_after_its_cycles_without_progress():
    async def test(host, ctx):
        dut = host.dut
        await host.write("WATCHDOG", 50)
        await ctx.tick().repeat(100)  # not running
        await host.write("CONTROL", Control.START)
        for _ in range(5):  # progress now and then
            await ctx.tick().repeat(40)
            ctx.set(dut.engines[Engine.LOAD].stall, Stall.BUSY)
            await ctx.tick()
            ctx.set(dut.engines[Engine.LOAD].stall, Stall.IDLE)
        assert not ctx.get(dut.halt)
        ctx.set(dut.engines[Engine.STORE].stall, Stall.SEMAPHORE)
        ctx.set(dut.engines[Engine.STORE].index, 4)
        waited = 0
        while not ctx.get(dut.halt):
            await ctx.tick()
            waited += 1
        assert 50 <= waited <= 53
        assert await host.read("FAULT_CAUSE") == Fault.WATCHDOG
        assert await host.read("FAULT_ENGINE") == Engine.STORE
        assert await host.read("FAULT_INSTRUCTION") == 4

    run(test)


@pytest.mark.parametrize(
    ("stalls", "named"),
    [
        ({"FETCH": Stall.PIPELINE, "LOAD": Stall.PIPELINE, "VECTOR": Stall.SEMAPHORE}, "VECTOR"),
        ({"LOAD": Stall.PIPELINE, "STORE": Stall.MEMORY, "VECTOR": Stall.BANK}, "STORE"),
        ({"FETCH": Stall.PIPELINE, "MATRIX": Stall.BANK}, "MATRIX"),
        ({"MATRIX": Stall.SEMAPHORE, "VECTOR": Stall.SEMAPHORE}, "MATRIX"),
    ],
)
def test_the_watchdog_names_who_waits_rather_than_who_is_held_up(stalls, named):
    async def test(host, ctx):
        dut = host.dut
        await host.write("WATCHDOG", 20)
        await host.write("CONTROL", Control.START)
        for engine in Engine:
            ctx.set(dut.engines[engine].stall, stalls.get(engine.name, Stall.IDLE))
            ctx.set(dut.engines[engine].index, 10 + engine)
        for _ in range(30):
            await ctx.tick()
        assert ctx.get(dut.halt)
        assert await host.read("FAULT_CAUSE") == Fault.WATCHDOG
        assert await host.read("FAULT_ENGINE") == Engine[named]
        assert await host.read("FAULT_INSTRUCTION") == 10 + Engine[named]

    run(test)


@pytest.mark.parametrize("faulted", [True, False])
def test_soft_reset_waits_for_memory_and_keeps_the_bases(faulted):
    async def test(host, ctx):
        dut = host.dut
        await host.write("BASE2_LO", 0x1240)
        await host.write("LIMIT2", 99)
        await host.write("PROGRAM_BYTES", 64)
        await host.write("WATCHDOG", 64)
        await host.write("CONTROL", Control.START)
        if faulted:
            await host.fail(Engine.LOAD, Fault.AXI_ERROR, 2)
        ctx.set(dut.axi_busy, 1)
        await host.write("CONTROL", Control.RESET)
        assert ctx.get(dut.halt)
        for _ in range(60):
            (reset,) = await sample(ctx, dut.soft_reset)
            assert not reset
        assert await host.read("STATUS") & Status.BUSY
        ctx.set(dut.axi_busy, 0)
        seen, halted = [], []
        for _ in range(30):
            reset, halt = await sample(ctx, dut.soft_reset, dut.halt)
            seen.append(reset)
            halted.append(halt)
        assert sum(seen) >= 4 and seen[:3] == [0, 0, 0]
        # The blocks are in reset for a cycle more, in which no START may reach them.
        assert sum(halted) == 30 - seen[::-1].index(1) + 1
        assert not ctx.get(dut.halt)
        assert await host.read("STATUS") == 0
        assert await host.read("FAULT_CAUSE") == 0
        assert await host.read("IRQ_STATUS") == 0
        assert await host.wide("CYCLES") == 0
        assert await host.read("PROGRAM_BYTES") == 0
        assert await host.read("WATCHDOG") == WATCHDOG_CYCLES
        assert await host.read("BASE2_LO") == 0x1240
        assert await host.read("LIMIT2") == 99
        await host.write("CONTROL", Control.START)
        assert await host.read("STATUS") == Status.BUSY

    run(test)


def test_the_watchdog_is_on_and_every_other_limit_is_zero():
    async def test(host, ctx):
        for register in REGISTERS:
            if register.access == "rw":
                on = register.name == "WATCHDOG"
                assert await host.read(register.name) == (WATCHDOG_CYCLES if on else 0)

    run(test)


@pytest.mark.parametrize("cycles", [1, 2, 77])
def test_a_run_ends_at_its_time_limit_however_busy_it_is(cycles):
    async def test(host, ctx):
        dut = host.dut
        ctx.set(dut.engines[Engine.MATRIX].stall, Stall.BUSY)
        ctx.set(dut.engines[Engine.STORE].stall, Stall.SEMAPHORE)
        ctx.set(dut.engines[Engine.STORE].index, 12)
        await host.write("TIME_LIMIT", cycles)
        await ctx.tick().repeat(100)  # not running
        await host.write("CONTROL", Control.START)
        await host.write("TIME_LIMIT", 0)  # of the next run
        while not ctx.get(dut.halt):
            await ctx.tick()
        assert await host.read("STATUS") == Status.FAULT
        assert cycles <= await host.wide("CYCLES") <= cycles + 3
        assert await host.read("FAULT_CAUSE") == Fault.TIME_LIMIT
        assert await host.read("FAULT_ENGINE") == Engine.STORE
        assert await host.read("FAULT_INSTRUCTION") == 12
        await host.write("CONTROL", Control.RESET)
        await ctx.tick().repeat(60)
        await host.write("CONTROL", Control.START)
        await ctx.tick().repeat(300)
        assert not ctx.get(dut.halt)

    run(test)


def test_what_is_written_during_a_run_is_for_the_next_one():
    async def test(host, ctx):
        dut = host.dut
        await host.write("BASE1_LO", 0x1000)
        await host.write("LIMIT1", 0x200)
        await host.write("WATCHDOG", 60)
        await host.write("CONTROL", Control.START)
        for name, value in (("BASE1_LO", 0x8000), ("LIMIT1", 0x7FFF), ("WATCHDOG", 0)):
            await host.write(name, value)
            assert await host.read(name) == value
        assert ctx.get(dut.regions.base[1]) == 0x1000
        assert ctx.get(dut.regions.limit[1]) == 0x200
        await ctx.tick().repeat(60)
        assert ctx.get(dut.halt)  # by the watchdog as it was
        await host.write("CONTROL", Control.RESET)
        await ctx.tick().repeat(60)
        await host.write("CONTROL", Control.START)
        assert ctx.get(dut.regions.base[1]) == 0x8000
        assert ctx.get(dut.regions.limit[1]) == 0x7FFF

    run(test)


def test_regions_and_numbers_of_a_refused_run_can_be_read():
    async def test(host, ctx):
        dut = host.dut
        for n, outside in enumerate(dut.outside):
            ctx.set(outside.region, 3 + n)
            ctx.set(outside.offset, 0x12_3456_789A + n)
        for n, engine in enumerate((Engine.LOAD, Engine.STORE)):
            for cause in (Fault.OUTSIDE_REGION, Fault.AXI_ERROR):
                await host.write("CONTROL", Control.START)
                await host.fail(engine, cause, 5)
                refused = cause is Fault.OUTSIDE_REGION
                assert await host.read("FAULT_REGION") == (3 + n if refused else 0)
                assert await host.wide("FAULT_OFFSET") == (0x12_3456_789A + n if refused else 0)
                await host.write("CONTROL", Control.RESET)
                await ctx.tick().repeat(60)

    run(test)

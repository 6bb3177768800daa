"""The whole NPU copying memory: faults in every place, soft reset, and the next run correct."""

import random

import pytest

from hw_gen.top import Npu
from spec import preset
from spec.isa import ISA_DIGEST, Engine, Instruction, Opcode, Sync, encode_program
from spec.memmap import Control, Fault, Stall, Status
from tests.hw_axi import AxiMemory, on, run_benches
from tests.hw_bench import sample
from tests.test_hw_registers import Host

CONFIG = preset("tiny")
MEMORY = 1 << 15
PROGRAM, SOURCE, TARGET = 0x400, 0x2000, 0x5000
COUNT, RUN = 24, 40


def copy_program(**changes):
    """Copies COUNT runs of RUN bytes from SOURCE to TARGET in chunks that chase each other."""
    loops = [{"count": COUNT, "mem": 64, "chip": 48}]
    load = {"region": 0, "run": RUN, "loop": loops, "post": [Sync(sem=0, level=1)]}
    store = {"region": 1, "run": RUN, "loop": loops, "wait": [Sync(sem=0, level=1)]}
    begin = {"isa_digest": ISA_DIGEST & 0xFFFF_FFFF, "config_digest": CONFIG.digest()}
    return [
        Instruction(Opcode.BEGIN, begin),
        Instruction(Opcode.LOAD, {**load, **changes.get("load", {})}),
        Instruction(Opcode.STORE, {**store, **changes.get("store", {})}),
        Instruction(Opcode.END),
    ]


class NpuBench:
    """An NPU with memory and a host; `test(host, ctx, bench)` is the test."""

    def __init__(self, *, latency=20, stall=0.0, seed=0):
        self.dut = Npu(CONFIG)
        self.memory = AxiMemory(CONFIG, MEMORY, latency=latency, stall=stall, seed=seed)
        self.host = Host(self.dut, self.dut.control)

    def run(self, test):
        async def bench(ctx):
            self.host.ctx = ctx
            await test(self.host, ctx, self)

        tasks = [on(self.memory.reads, self.dut.read), on(self.memory.writes, self.dut.write)]
        run_benches(self.dut, [bench], tasks, deadline=30_000)

    async def prepare(self, code):
        """Write the program and its registers."""
        self.memory.data[PROGRAM : PROGRAM + len(code)] = code
        host = self.host
        await host.write("BASE0_LO", SOURCE)
        await host.write("BASE1_LO", TARGET)
        await host.write("PROGRAM_LO", PROGRAM)
        await host.write("PROGRAM_BYTES", len(code))
        await host.write("IRQ_ENABLE", 1)

    async def until_interrupt(self, cycles=8000):
        for _ in range(cycles):
            (irq,) = await sample(self.host.ctx, self.dut.irq)
            if irq:
                return
        raise AssertionError(f"no interrupt within {cycles} cycles")

    async def reset(self):
        await self.host.write("CONTROL", Control.RESET)
        for _ in range(500):
            if await self.host.read("STATUS") == 0:
                break
        else:
            raise AssertionError("the soft reset does not end")
        assert self.memory.owed == 0

    async def good_run(self):
        """The copy, with its bytes and counters checked."""
        host, data = self.host, self.memory.data
        for n in range(COUNT):
            data[TARGET + 64 * n : TARGET + 64 * n + RUN] = bytes(RUN)
        await self.prepare(encode_program(copy_program()))
        await host.write("CONTROL", Control.START)
        await self.until_interrupt()
        assert await host.read("STATUS") == Status.DONE
        for n in range(COUNT):
            at = 64 * n
            assert data[TARGET + at : TARGET + at + RUN] == data[SOURCE + at : SOURCE + at + RUN]
        assert await host.wide("WRITE_BYTES") == COUNT * RUN
        cycles = await host.wide("CYCLES")
        for e in Engine:
            counts = [await host.wide(f"COUNT_{e.name}_{s.name}") for s in Stall]
            assert sum(counts) == cycles

    async def expect_fault(self, cause, engine, index):
        host = self.host
        await host.write("CONTROL", Control.START)
        await self.until_interrupt()
        assert await host.read("STATUS") == Status.FAULT
        found = (
            await host.read("FAULT_CAUSE"),
            await host.read("FAULT_ENGINE"),
            await host.read("FAULT_INSTRUCTION"),
        )
        assert found == (cause, engine, index)


@pytest.mark.parametrize(("latency", "stall"), [(1, 0.0), (60, 0.3)])
def test_copies_twice_without_reset(latency, stall):
    async def test(host, ctx, bench):
        await bench.good_run()
        await host.write("IRQ_STATUS", 1)
        await bench.good_run()

    NpuBench(latency=latency, stall=stall).run(test)


def _illegal(program):
    code = bytearray(encode_program(program))
    code[len(program[0].encode()) + len(program[1].encode())] = 0x7F
    return bytes(code)


FAULTS = {
    "illegal opcode": (Fault.ILLEGAL_INSTRUCTION, Engine.FETCH, 2),
    "program without END": (Fault.ILLEGAL_INSTRUCTION, Engine.FETCH, 3),
    "foreign digest": (Fault.DIGEST_MISMATCH, Engine.FETCH, 0),
    "load outside": (Fault.CHIP_ADDRESS, Engine.LOAD, 1),
    "store outside": (Fault.CHIP_ADDRESS, Engine.STORE, 2),
    "read error": (Fault.AXI_ERROR, Engine.LOAD, 1),
    "write error": (Fault.AXI_ERROR, Engine.STORE, 2),
    "fetch error": (Fault.AXI_ERROR, Engine.FETCH, 1),
    "overflow": (Fault.SEMAPHORE_OVERFLOW, Engine.LOAD, 1),
    "never posted": (Fault.WATCHDOG, Engine.STORE, 2),
}


async def _provoke(bench, name):
    host, memory = bench.host, bench.memory
    changes = {}
    if name == "load outside":
        changes = {"load": {"chip_base": CONFIG.spad_bytes - 48 * (COUNT // 2)}}
    if name == "store outside":
        changes = {"store": {"chip_base": CONFIG.spad_bytes - 48 * (COUNT // 2)}}
    if name == "overflow":
        changes = {"load": {"post": [Sync(sem=0, level=1, amount=100)]}}
    if name == "never posted":
        changes = {"load": {"post": []}}
    program = copy_program(**changes)
    if name == "foreign digest":
        values = dict(program[0].values)
        program[0] = Instruction(Opcode.BEGIN, {**values, "config_digest": 1})
    code = encode_program(program)
    if name == "illegal opcode":
        code = _illegal(program)
    if name == "program without END":
        code = encode_program(program[:-1])
    await bench.prepare(code)
    await host.write("WATCHDOG", 600)
    errors = {"read error": SOURCE + 64 * 7, "write error": TARGET + 64 * 7, "fetch error": 0x418}
    memory.errors = frozenset([errors[name]]) if name in errors else frozenset()
    await bench.expect_fault(*FAULTS[name])
    memory.errors = frozenset()


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_reported_and_the_next_run_is_correct(name, stall):
    async def test(host, ctx, bench):
        await _provoke(bench, name)
        await bench.reset()
        await bench.good_run()

    NpuBench(latency=35, stall=stall, seed=len(name)).run(test)


@pytest.mark.parametrize("seed", range(6))
def test_reset_in_the_middle_of_a_run(seed):
    async def test(host, ctx, bench):
        await bench.prepare(encode_program(copy_program()))
        await host.write("CONTROL", Control.START)
        await ctx.tick().repeat(random.Random(seed).randint(1, 400))
        await bench.reset()
        await bench.good_run()

    NpuBench(latency=50, stall=0.3, seed=seed).run(test)

"""The NPU moves memory through cocotbext-axi models: random copies under back-pressure, faults in
every place, resets at any time, and after each of them the next run correct.

Needs SYSTOLA_PRESET, the name of the configuration that `systola_npu` was generated for.
"""

import logging
import os
import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, First, RisingEdge, Timer
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave
from hw_dma_bench import random_copy, runs_of

from spec import preset
from spec.isa import ISA_DIGEST, Engine, Instruction, Opcode, Sync, encode_program
from spec.memmap import OFFSETS, Control, Fault, Stall, Status

CONFIG = preset(os.environ["SYSTOLA_PRESET"])
PROGRAM, SOURCE, TARGET, SIZE = 0x400, 0x4000, 0xC000, 0x1C000
COUNT, RUN = 24, 40
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


class Memory:
    """Target of the AXI model: bytes, a random delay per access, error addresses."""

    def __init__(self, clk: Any, rng: random.Random, delay: int) -> None:
        self.data = bytearray(rng.randbytes(SIZE))
        self.errors: frozenset[int] = frozenset()
        self._clk, self._rng, self._delay = clk, rng, delay

    async def _pause(self) -> None:
        cycles = self._rng.choice([0, 0, 0, self._delay])
        if cycles:
            await ClockCycles(self._clk, cycles)

    def _check(self, address: int, length: int) -> None:
        if address + length > SIZE:
            raise IndexError(f"access of {address:#x} is outside the memory")
        if any(address <= e < address + length for e in self.errors):
            raise ValueError("injected")

    async def read(self, address: int, length: int) -> bytes:
        await self._pause()
        self._check(address, length)
        return bytes(self.data[address : address + length])

    async def write(self, address: int, data: bytes) -> None:
        self._check(address, len(data))
        self.data[address : address + len(data)] = data


class Bench:
    """Clock, reset, memory with back-pressure on every channel, and the host."""

    def __init__(self, dut: Any, seed: int, stall: float) -> None:
        self.dut, self.rng, self.stall = dut, random.Random(seed), stall
        dut._log.info("seed %d", seed)
        for name in ("m_axi", "s_axil"):
            logging.getLogger(f"cocotb.{dut._name}.{name}").setLevel(logging.ERROR)

    async def start(self) -> "Bench":
        dut = self.dut
        Clock(dut.clk, 10, unit="ns").start()
        self.memory = Memory(dut.clk, self.rng, delay=0 if not self.stall else 9)
        slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, target=self.memory)
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        if self.stall:
            for channel in (
                slave.write_if.aw_channel,
                slave.write_if.w_channel,
                slave.write_if.b_channel,
                slave.read_if.ar_channel,
                slave.read_if.r_channel,
            ):
                channel.set_pause_generator(self._pauses())
        dut.rst.value = 1
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0
        await ClockCycles(dut.clk, 2)
        return self

    def _pauses(self) -> Any:
        rng = random.Random(self.rng.random())
        while True:
            yield rng.random() < self.stall

    async def write(self, name: str, value: int) -> None:
        await self.host.write_dword(OFFSETS[name], value)

    async def read(self, name: str) -> int:
        return int(await self.host.read_dword(OFFSETS[name]))

    async def wide(self, name: str) -> int:
        return await self.read(f"{name}_LO") | await self.read(f"{name}_HI") << 32

    async def run(self, code: bytes) -> int:
        """Write and start the program; returns STATUS at the interrupt."""
        self.memory.data[PROGRAM : PROGRAM + len(code)] = code
        for name, value in (
            ("BASE0_LO", SOURCE),
            ("BASE1_LO", TARGET),
            ("LIMIT0", TARGET - SOURCE),
            ("LIMIT1", SIZE - TARGET),
            ("PROGRAM_LO", PROGRAM),
            ("PROGRAM_BYTES", len(code)),
            ("IRQ_ENABLE", 1),
            ("WATCHDOG", 2000),
            ("CONTROL", Control.START),
        ):
            await self.write(name, value)
        dut = self.dut
        if not int(dut.irq.value):
            late = Timer(2, "ms")
            assert await First(RisingEdge(dut.irq), late) is not late, "no interrupt"
        status = await self.read("STATUS")
        await self.write("IRQ_STATUS", 1)
        return status

    async def reset(self) -> None:
        await self.write("CONTROL", Control.RESET)
        for _ in range(500):
            if await self.read("STATUS") == 0:
                return
            await ClockCycles(self.dut.clk, 20)
        raise AssertionError("the soft reset does not end")

    async def good_run(self) -> None:
        """A chunked copy with its bytes and counters checked."""
        data = self.memory.data
        spans = [(SOURCE + 64 * n, TARGET + 64 * n) for n in range(COUNT)]
        for source, target in spans:
            data[source : source + RUN] = self.rng.randbytes(RUN)
            data[target : target + RUN] = bytes(RUN)
        assert await self.run(encode_program(chunks())) == Status.DONE
        for source, target in spans:
            assert data[target : target + RUN] == data[source : source + RUN]
        await self.check_counters(COUNT * RUN)

    async def check_counters(self, written: int) -> None:
        assert await self.wide("WRITE_BYTES") == written
        cycles = await self.wide("CYCLES")
        for engine in Engine:
            counts = [await self.wide(f"COUNT_{engine.name}_{s.name}") for s in Stall]
            assert sum(counts) == cycles, f"{engine.name}: {counts} do not sum to {cycles}"


def begin() -> Instruction:
    digests = {"isa_digest": ISA_DIGEST & 0xFFFF_FFFF, "config_digest": CONFIG.digest()}
    return Instruction(Opcode.BEGIN, digests)


def chunks(**changes: Any) -> list[Instruction]:
    """COUNT runs of RUN bytes from SOURCE to TARGET, the store chasing the load."""
    loops = [{"count": COUNT, "mem": 64, "chip": 48}]
    load = {"region": 0, "run": RUN, "loop": loops, "post": [Sync(sem=0, level=1)]}
    store = {"region": 1, "run": RUN, "loop": loops, "wait": [Sync(sem=0, level=1)]}
    return [
        begin(),
        Instruction(Opcode.LOAD, {**load, **changes.get("load", {})}),
        Instruction(Opcode.STORE, {**store, **changes.get("store", {})}),
        Instruction(Opcode.END),
    ]


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.3, 0.7], seed=[1, 2, 3])
async def random_copies(dut: Any, stall: float, seed: int) -> None:
    """Random strides and alignments through the scratchpad, loads and fills, then stores."""
    bench = await Bench(dut, seed, stall).start()
    rng = bench.rng
    count = 6
    loads = [
        random_copy(
            rng, Opcode.LOAD, CONFIG, limit=150, region=0, fill=n % 3 == 2, fill_value=n,
            post=[Sync(sem=5, level=0)],
        )
        for n in range(count)
    ]  # fmt: skip
    stores = [
        random_copy(
            rng, Opcode.STORE, CONFIG, limit=150, region=1,
            wait=[] if n else [Sync(sem=5, level=0, amount=count)],
        )
        for n in range(count)
    ]  # fmt: skip
    # The scratchpad's bytes are unknown at first: make them known.
    clear = Instruction(Opcode.LOAD, {"fill": 1, "run": CONFIG.spad_bytes})
    program = [begin(), clear, *loads, *stores, Instruction(Opcode.END)]
    spad, written = bytearray(CONFIG.spad_bytes), 0
    expected = bytearray(bench.memory.data)
    code = encode_program(program)
    expected[PROGRAM : PROGRAM + len(code)] = code
    for each in loads:
        for mem, chip in runs_of(each):
            data = expected[SOURCE + mem : SOURCE + mem + each["run"]]
            spad[chip : chip + each["run"]] = (
                bytes([each["fill_value"]]) * each["run"] if each["fill"] else data
            )
    for each in stores:
        for mem, chip in runs_of(each):
            expected[TARGET + mem : TARGET + mem + each["run"]] = spad[chip : chip + each["run"]]
            written += each["run"]
    assert await bench.run(code) == Status.DONE
    wrong = [i for i, (a, b) in enumerate(zip(bench.memory.data, expected, strict=True)) if a != b]
    assert not wrong, f"{len(wrong)} bytes differ, the first at {wrong[0]:#x}"
    await bench.check_counters(written)


async def provoke(bench: Bench, name: str) -> None:
    """Run a program that ends in the fault `name`; check what the registers report."""
    outside = {"chip_base": CONFIG.spad_bytes - 48 * (COUNT // 2)}
    changes = {
        "load outside": {"load": outside},
        "store outside": {"store": outside},
        "overflow": {"load": {"post": [Sync(sem=0, level=1, amount=100)]}},
        "never posted": {"load": {"post": []}},
    }
    program = chunks(**changes.get(name, {}))
    if name == "foreign digest":
        program[0] = Instruction(Opcode.BEGIN, {**program[0].values, "config_digest": 1})
    if name == "program without END":
        program.pop()
    if name == "overflow":
        program.insert(2, program[1])  # the engine is at this one when the first's posts overflow
    code = bytearray(encode_program(program))
    if name == "illegal opcode":
        code[len(encode_program(program[:2]))] = 0x7F
    errors = {
        "read error": SOURCE + 64 * 7,
        "write error": TARGET + 64 * 7,
        "fetch error": PROGRAM + 0x18,
    }
    bench.memory.errors = frozenset([errors[name]] if name in errors else [])
    assert await bench.run(bytes(code)) == Status.FAULT
    found = tuple([await bench.read(f"FAULT_{n}") for n in ("CAUSE", "ENGINE", "INSTRUCTION")])
    assert found == FAULTS[name], f"{name}: cause, engine, instruction are {found}"
    bench.memory.errors = frozenset()


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.4], name=list(FAULTS))
async def faults_are_reported_and_the_next_run_is_correct(
    dut: Any, stall: float, name: str
) -> None:
    bench = await Bench(dut, len(name), stall).start()
    await provoke(bench, name)
    await bench.reset()
    await bench.good_run()
    await bench.good_run()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def semaphores_are_zero_at_start(dut: Any) -> None:
    bench = await Bench(dut, 5, 0.3).start()
    left_over = chunks(load={"post": [Sync(sem=0, level=1, amount=5)]})
    assert await bench.run(encode_program(left_over)) == Status.DONE
    await bench.good_run()


@cocotb.test(timeout_time=50, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.4])
async def reset_at_any_time_of_a_run(dut: Any, stall: float) -> None:
    bench = await Bench(dut, 11, stall).start()
    code = encode_program(chunks())
    for _ in range(25):
        waiting = cocotb.start_soon(bench.run(code))
        # Registers take about 60 cycles to write, the run about 400.
        await ClockCycles(dut.clk, bench.rng.randint(60, 500))
        if waiting.done() or int(dut.irq.value):
            await waiting
            continue
        waiting.cancel()
        await ClockCycles(dut.clk, 12)  # an access of the cancelled task may still be under way
        await bench.reset()
    await bench.good_run()

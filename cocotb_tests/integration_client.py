"""A host for `systola_npu`, written from docs/integration.md alone: nothing of Systola is imported.

SYSTOLA_JOBS is a folder with a folder for each program: `image`, `in_<name>` and `out_<name>` with
the bytes of every input and of every expected output.
"""

import json
import logging
import os
import random
import struct
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiResp, AxiSlave

ID, ISA_DIGEST, CONFIG_DIGEST = 0x000, 0x008, 0x010
CONTROL, STATUS, IRQ_ENABLE, IRQ_STATUS = 0x018, 0x01C, 0x020, 0x024
FAULT_CAUSE, FAULT_ENGINE, FAULT_REGION, FAULT_OFFSET = 0x028, 0x02C, 0x034, 0x068
PROGRAM, PROGRAM_BYTES, WATCHDOG, TIME_LIMIT = 0x038, 0x040, 0x044, 0x070
BASE, LIMIT = 0x080, 0x100
START, RESET = 1, 2
BUSY, DONE, FAULT = 1, 2, 4
SIZES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4}
MEMORY = 0x4000_0000
"""Where memory begins; what the client places there begins with a bus word of at most 64 bytes."""


class Image:
    """A program image, by the section on its file."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        (size,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + size])
        meta = header["__metadata__"]
        assert meta["format"] == "systola-image"
        body = data[8 + size :]
        self.program = body[slice(*header["program"]["data_offsets"])]
        constants = body[slice(*header["constants"]["data_offsets"])]
        self.digests = int(meta["isa_digest"], 16), int(meta["config_digest"], 16)
        self.inputs, self.outputs = json.loads(meta["inputs"]), json.loads(meta["outputs"])
        inputs, outputs = bytearray(extent(self.inputs)), bytearray(extent(self.outputs))
        self.regions = [bytearray(constants), inputs, outputs, bytearray(int(meta["temp_bytes"]))]


def port_bytes(port: dict[str, Any]) -> int:
    count = SIZES[port["dtype"]]
    for size in port["shape"]:
        count *= size
    return count


def extent(ports: list[dict[str, Any]]) -> int:
    return max((port["offset"] + port_bytes(port) for port in ports), default=0)


class Memory:
    """Regions apart from each other; whatever lies in no bus word of one is an error."""

    def __init__(self, word: int) -> None:
        self.word = word
        self.places: list[tuple[int, bytearray]] = []
        self.outside = 0

    def place(self, data: bytes | bytearray) -> int:
        last = max((at + len(old) for at, old in self.places), default=MEMORY)
        at = (last + 4095) // 64 * 64
        self.places.append((at, bytearray(data)))
        return at

    def data(self, at: int) -> bytearray:
        return next(data for start, data in self.places if start == at)

    async def read(self, address: int, length: int) -> bytes:
        """Bytes of a region; beside it, in its first and last word, something else."""
        for at, data in self.places:
            end = -(-(at + len(data)) // self.word) * self.word
            if at // self.word * self.word <= address and address + length <= end:
                inside = data[max(address - at, 0) : address + length - at]
                return inside.rjust(min(length, at + len(data) - address), b"\x5a").ljust(
                    length, b"\x5a"
                )
        self.outside += 1
        raise IndexError(f"read of {length} bytes at {address:#x} is outside every region")

    async def write(self, address: int, content: bytes) -> None:
        for at, data in self.places:
            if at <= address and address + len(content) <= at + len(data):
                data[address - at : address - at + len(content)] = content
                return
        self.outside += 1
        raise IndexError(f"write of {len(content)} bytes at {address:#x} is outside every region")


class Client:
    """What the page tells a host to do."""

    def __init__(self, dut: Any, seed: int, stall: float) -> None:
        self.dut, self.rng = dut, random.Random(seed)
        for name in ("m_axi", "s_axil"):
            logging.getLogger(f"cocotb.{dut._name}.{name}").setLevel(logging.ERROR)
        Clock(dut.clk, 10, unit="ns").start()
        self.memory = Memory(len(dut.m_axi_rdata) // 8)
        bus = AxiBus.from_prefix(dut, "m_axi")
        slave = AxiSlave(bus, dut.clk, dut.rst, target=self.memory)
        self.port = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        host = self.port.write_if, self.port.read_if
        if stall:
            channels = [slave.write_if.aw_channel, slave.write_if.w_channel]
            channels += [slave.write_if.b_channel, slave.read_if.ar_channel]
            channels += [slave.read_if.r_channel, host[0].aw_channel, host[0].w_channel]
            channels += [host[0].b_channel, host[1].ar_channel, host[1].r_channel]
            for channel in channels:
                channel.set_pause_generator(self._pauses(stall))

    def _pauses(self, stall: float) -> Any:
        rng = random.Random(self.rng.random())
        while True:
            yield rng.random() < stall

    async def reset(self) -> None:
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)
        assert await self.read(ID) == 0x53595354

    async def write(self, offset: int, value: int) -> None:
        await self.port.write_dword(offset, value)

    async def write_wide(self, offset: int, value: int) -> None:
        await self.write(offset, value & 0xFFFF_FFFF)
        await self.write(offset + 4, value >> 32)

    async def read(self, offset: int) -> int:
        return int(await self.port.read_dword(offset))

    async def read_wide(self, offset: int) -> int:
        return await self.read(offset) | await self.read(offset + 4) << 32

    async def set_up(self, image: Image) -> list[int]:
        """Place an image and say where; returns the addresses of its regions."""
        digests = await self.read_wide(ISA_DIGEST), await self.read_wide(CONFIG_DIGEST)
        assert digests == image.digests, "the image is of another NPU"
        await self.write_wide(PROGRAM, self.memory.place(image.program))
        await self.write(PROGRAM_BYTES, len(image.program))
        bases = [self.memory.place(data) for data in image.regions]
        for region, (base, data) in enumerate(zip(bases, image.regions, strict=True)):
            await self.write_wide(BASE + 8 * region, base)
            await self.write(LIMIT + 4 * region, len(data))
        return bases

    async def start(self) -> int:
        """START, and STATUS at the interrupt."""
        await self.write(IRQ_ENABLE, 1)
        await self.write(CONTROL, START)
        if not int(self.dut.irq.value):
            await with_timeout(RisingEdge(self.dut.irq), 5, "ms")
        status = await self.read(STATUS)
        await self.write(IRQ_STATUS, 1)
        assert not int(self.dut.irq.value)
        return status

    async def stop(self) -> None:
        await self.write(CONTROL, RESET)
        while await self.read(STATUS):
            await ClockCycles(self.dut.clk, 10)


def jobs() -> list[Path]:
    return sorted(path for path in Path(os.environ["SYSTOLA_JOBS"]).iterdir() if path.is_dir())


def fill(image: Image, job: Path) -> None:
    for port in image.inputs:
        content = (job / f"in_{port['name']}").read_bytes()
        assert len(content) == port_bytes(port)
        image.regions[1][port["offset"] : port["offset"] + len(content)] = content


def check(client: Client, image: Image, job: Path, outputs: int) -> None:
    for port in image.outputs:
        want = (job / f"out_{port['name']}").read_bytes()
        got = client.memory.data(outputs)[port["offset"] : port["offset"] + port_bytes(port)]
        assert got == want, f"{job.name}: output {port['name']} is wrong"
    assert client.memory.outside == 0


@cocotb.test(timeout_time=100, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.4])
async def programs_are_right(dut: Any, stall: float) -> None:
    client = Client(dut, seed=7, stall=stall)
    await client.reset()
    assert len(jobs()) == 6
    for job in jobs():
        image = Image(job / "image")
        fill(image, job)
        bases = await client.set_up(image)
        assert await client.start() == DONE
        check(client, image, job, bases[2])
        # Again with what is already set up.
        client.memory.data(bases[2])[:] = bytes(len(image.regions[2]))
        assert await client.start() == DONE
        check(client, image, job, bases[2])


@cocotb.test(timeout_time=100, timeout_unit="ms")
async def faults_end_and_the_next_program_runs(dut: Any) -> None:
    client = Client(dut, seed=8, stall=0.3)
    await client.reset()
    job = jobs()[0]
    image = Image(job / "image")
    fill(image, job)
    bases = await client.set_up(image)
    size = len(image.regions[2])
    await client.write(LIMIT + 4 * 2, size - 1)
    assert await client.start() == FAULT
    assert (await client.read(FAULT_CAUSE), await client.read(FAULT_ENGINE)) == (7, 2)
    assert await client.read(FAULT_REGION) == 2
    assert await client.read_wide(FAULT_OFFSET) < size
    await client.stop()

    async def again(expected: int, **registers: int) -> None:
        at = next(at for at, data in client.memory.places if data == image.program)
        await client.write_wide(PROGRAM, at)
        await client.write(PROGRAM_BYTES, len(image.program))
        await client.write(LIMIT + 4 * 2, size)
        await client.write(TIME_LIMIT, registers.get("limit", 0))
        assert await client.start() == expected

    await again(FAULT, limit=60)
    assert await client.read(FAULT_CAUSE) == 8
    await client.stop()
    assert await client.read(WATCHDOG) == 1_048_576
    await again(DONE)
    check(client, image, job, bases[2])


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def the_register_port_answers_as_stated(dut: Any) -> None:
    client = Client(dut, seed=9, stall=0.3)
    await client.reset()
    for offset in (0x3FC, 0xFFC):
        answer = await client.port.read(offset, 4)
        assert (answer.resp, bytes(answer.data)) == (AxiResp.SLVERR, bytes(4))
        assert (await client.port.write(offset, b"abcd")).resp == AxiResp.SLVERR
    assert (await client.port.write(ID, bytes(4))).resp == AxiResp.OKAY
    assert await client.read(ID) == 0x53595354
    assert await client.read(CONTROL) == 0
    await client.write(BASE, 0xFFFF_FFFF)
    assert await client.read(BASE) == 0xFFFF_FFC0
    await client.port.write(LIMIT + 1, b"\x12")  # one byte of a register
    assert await client.read(LIMIT) == 0x1200
    await client.write(CONTROL, START)  # no program: its fault
    while (status := await client.read(STATUS)) & BUSY:
        pass
    assert (status, await client.read(FAULT_CAUSE)) == (FAULT, 1)

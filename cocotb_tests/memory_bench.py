"""Benches of the simulated memory: contents, timing, order, faults, protocol checks.

Needs the plus-args of dpi_memory.sv and SYSTOLA_MEMORY, the folder with its two files.
"""

import logging
import os
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from cocotbext.axi import AxiBus, AxiMaster, AxiResp

from sw.runtime.simulator.control import READ, WRITE, SharedMemory, Window

BASE = 1 << 30
CHANNELS = ("aw", "w", "ar")


def shared() -> SharedMemory:
    memory = SharedMemory.attach(Path(os.environ["SYSTOLA_MEMORY"]))
    memory.data[:] = 0
    memory.configure(latency=100, stall=0.0, seed=0, errors=(0, 0, 0), windows=(), lenient=False)
    return memory


async def start(dut: Any) -> None:
    """Start the clock, reset."""
    logging.getLogger(f"cocotb.{dut._name}").setLevel(logging.WARNING)  # not every transfer
    Clock(dut.clk, 10, unit="ns").start()
    await reset(dut)


async def reset(dut: Any) -> None:
    for channel in CHANNELS:
        getattr(dut, f"{channel}valid").value = 0
    dut.rready.value = dut.bready.value = 0
    dut.rst.value = 1
    for _ in range(4):
        await RisingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = 0


class Port:
    """Drives one handshake at a time on falling edges; `now` is the number of rising edges."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.bytes = len(dut.rdata) // 8
        self.now = 0

    async def tick(self) -> None:
        await FallingEdge(self.dut.clk)
        self.now += 1

    async def address(self, channel: str, addr: int, beats: int, ident: int = 0) -> int:
        """Give an address; returns the rising edge at which it is taken."""
        dut = self.dut
        for name, value in (
            ("addr", addr),
            ("len", beats - 1),
            ("size", self.bytes.bit_length() - 1),
            ("burst", 1),
            ("id", ident),
            ("valid", 1),
        ):
            getattr(dut, channel + name).value = value
        while not int(getattr(dut, f"{channel}ready").value):
            await self.tick()
        taken = self.now
        await self.tick()
        getattr(dut, f"{channel}valid").value = 0
        return taken

    async def beats(self, count: int) -> list[tuple[int, int, bytes, int]]:
        """Take read beats: (rising edge, id, data, response) of each."""
        dut = self.dut
        dut.rready.value = 1
        out = []
        while len(out) < count:
            if int(dut.rvalid.value):
                data = int(dut.rdata.value).to_bytes(self.bytes, "little")
                out.append((self.now, int(dut.rid.value), data, int(dut.rresp.value)))
            await self.tick()
        dut.rready.value = 0
        return out

    async def send(
        self, words: list[bytes], last_at: int | None = None, strobe: int | None = None
    ) -> int:
        """Give write data; returns the rising edge at which the last word is taken."""
        dut = self.dut
        dut.wvalid.value = 1
        dut.wstrb.value = (1 << self.bytes) - 1 if strobe is None else strobe
        for i, word in enumerate(words):
            dut.wdata.value = int.from_bytes(word, "little")
            dut.wlast.value = i == (len(words) - 1 if last_at is None else last_at)
            while not int(dut.wready.value):
                await self.tick()
            taken = self.now
            await self.tick()
        dut.wvalid.value = 0
        return taken

    async def response(self) -> tuple[int, int]:
        """Take a write response: (rising edge, response)."""
        self.dut.bready.value = 1
        while not int(self.dut.bvalid.value):
            await self.tick()
        out = self.now, int(self.dut.bresp.value)
        await self.tick()
        self.dut.bready.value = 0
        return out


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def random_traffic_of_two_ids_reads_back_what_was_written(dut: Any) -> None:
    memory = shared()
    await start(dut)
    master = AxiMaster(AxiBus.from_entity(dut), dut.clk, dut.rst, max_burst_len=16)
    area = 1 << 15
    mirror = np.zeros(area, np.uint8)
    for stall, seed in ((0.0, 0), (0.3, 1), (0.8, 2)):
        memory.configure(latency=1 + 20 * seed, stall=stall, seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(12):
            writes = []
            for ident in (0, 1):
                # Each id has its own half: between ids AXI promises no order.
                size = int(rng.integers(1, 700))
                at = ident * area // 2 + int(rng.integers(0, area // 2 - size))
                data = rng.integers(0, 256, size, dtype=np.uint8)
                mirror[at : at + size] = data
                writes.append(
                    cocotb.start_soon(master.write(BASE + at, data.tobytes(), awid=ident))
                )
            for task in writes:
                await task
            spans = [(int(rng.integers(0, area - 900)), int(rng.integers(1, 900))) for _ in "123"]
            reads = [
                cocotb.start_soon(master.read(BASE + at, size, arid=i % 2))
                for i, (at, size) in enumerate(spans)
            ]
            for task, (at, size) in zip(reads, spans, strict=True):
                got = np.frombuffer((await task).data, np.uint8)
                assert np.array_equal(got, mirror[at : at + size]), f"{size} bytes at {at}"
        assert np.array_equal(memory.data[:area], mirror)
        report = memory.report()
        assert (report.violations, report.rejected, report.message) == (0, 0, "")
        assert report.read_bursts > 36 and report.write_bursts > 24


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def latency_is_exact_and_bandwidth_one_word_a_cycle(dut: Any) -> None:
    memory = shared()
    await start(dut)
    port = Port(dut)
    words = np.arange(16 * port.bytes, dtype=np.uint8)
    memory.data[: words.size] = words
    for latency in (1, 2, 7, 100):
        memory.configure(latency=latency)
        await port.tick()
        taken = await port.address("ar", BASE, 16)
        second = await port.address("ar", BASE, 16)
        beats = await port.beats(32)
        assert beats[0][0] == max(taken + latency, second + 1), f"latency {latency}"
        assert [b[0] for b in beats] == list(range(beats[0][0], beats[0][0] + 32))
        assert b"".join(b[2] for b in beats) == words.tobytes() * 2
        await port.address("aw", BASE + 4096, 4)
        last = await port.send([bytes([i] * port.bytes) for i in range(4)])
        assert (await port.response())[0] == last + latency


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def only_the_response_makes_a_write_visible(dut: Any) -> None:
    memory = shared()
    memory.configure(latency=40)
    await start(dut)
    port = Port(dut)
    old, new = bytes(port.bytes), bytes([0x5A] * port.bytes)
    await port.address("aw", BASE, 1)
    await port.send([new])
    await port.address("ar", BASE, 1)
    assert (await port.beats(1))[0][2] == old, "a read before the response sees the old bytes"
    await port.response()
    await port.address("ar", BASE, 1)
    assert (await port.beats(1))[0][2] == new


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def stalls_follow_their_seed(dut: Any) -> None:
    memory = shared()
    await start(dut)
    port = Port(dut)
    seen = []
    memory.configure(latency=10, stall=0.5)
    await reset(dut)
    for seed, pause in ((5, 20), (5, 33), (6, 20)):
        for _ in range(pause):
            await port.tick()
        memory.configure(seed=seed)
        port.now = 0
        for i in range(6):
            await port.address("ar", BASE + 256 * i, 2, ident=i % 2)
        beats = await port.beats(12)
        seen.append([(b[0], b[1]) for b in beats])
        assert sorted(b[1] for b in beats) == [0] * 6 + [1] * 6
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def bad_addresses_answer_slverr(dut: Any) -> None:
    memory = shared()
    await start(dut)
    master = AxiMaster(AxiBus.from_entity(dut), dut.clk, dut.rst)
    end = BASE + memory.data.size

    async def responses(addr: int) -> tuple[AxiResp, AxiResp]:
        read = (await master.read(addr, 8)).resp
        return read, (await master.write(addr, bytes(8))).resp

    okay, bad = AxiResp.OKAY, AxiResp.SLVERR
    assert await responses(BASE) == (okay, okay)
    assert await responses(end - 64) == (okay, okay)
    assert await responses(end) == (bad, bad)
    assert await responses(BASE - 64) == (bad, bad)
    assert memory.report().rejected == 4
    assert f"{end:#x}" in memory.report().message

    memory.configure(errors=(BASE + 128, BASE + 192, WRITE))
    assert await responses(BASE + 128) == (okay, bad)
    assert await responses(BASE + 192) == (okay, okay)
    assert memory.report().rejected == 0, "an injected error is no fault of the program"

    memory.configure(
        errors=(0, 0, 0),
        windows=[
            Window(low=BASE, high=BASE + 4096, access=READ),
            Window(low=BASE + 8192, high=BASE + 12288),
        ],
    )
    memory.data[0] = 7
    assert await responses(BASE) == (okay, bad)
    assert memory.data[0] == 7, "a refused write must not reach the memory"
    assert await responses(BASE + 4096) == (bad, bad)
    assert await responses(BASE + 8192) == (okay, okay)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(lenient=[False, True])
async def windows_are_exact_to_the_byte(dut: Any, lenient: bool) -> None:
    memory = shared()
    await start(dut)
    port = Port(dut)
    word, first, size = port.bytes, 2 * port.bytes + 3, 3 * port.bytes
    window = Window(low=BASE + first, high=BASE + first + size)
    memory.configure(latency=1, windows=[window], lenient=lenient)
    bad = AxiResp.OKAY if lenient else AxiResp.SLVERR
    memory.data[:4096] = 0x55

    async def read(at: int, beats: int) -> tuple[bytes, int]:
        await port.address("ar", BASE + at * word, beats)
        got = await port.beats(beats)
        return b"".join(data for _, _, data, _ in got), max(response for *_, response in got)

    inside = bytes([0xEE]) * 3 + bytes([0x55]) * size + bytes([0xEE]) * (word - 3)
    assert await read(2, 4) == (inside, AxiResp.OKAY)
    for at, beats in ((1, 1), (6, 1), (1, 2), (5, 2)):
        assert await read(at, beats) == (bytes([0xEE]) * beats * word, bad)
    assert memory.report().rejected == 4

    async def write(at: int, strobe: int) -> int:
        await port.address("aw", BASE + at * word, 1)
        await port.send([bytes([9]) * word], strobe=strobe)
        return (await port.response())[1]

    whole = (1 << word) - 1
    for at, allowed in ((1, 0), (2, whole & ~7), (3, whole), (5, 7), (6, 0)):
        before = memory.data[:4096].copy()
        rejected = memory.report().rejected
        assert await write(at, allowed) == (AxiResp.OKAY if allowed else bad)
        assert memory.report().rejected == rejected + (not allowed)
        for byte in range(word):
            before[at * word + byte] = 9 if allowed >> byte & 1 else before[at * word + byte]
        assert (memory.data[:4096] == before).all()
        if allowed not in (0, whole):
            beside = whole & ~allowed
            assert await write(at, beside) == bad
            assert memory.report().rejected == rejected + beside.bit_count()
            assert (memory.data[:4096] == before).all(), "a byte outside must not be written"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def broken_axi_rules_are_reported(dut: Any) -> None:
    memory = shared()
    await start(dut)
    port = Port(dut)

    async def complaint() -> str:
        text = memory.report().message if memory.report().violations else ""
        memory.configure(latency=1)
        await port.tick()
        return text

    await port.address("ar", BASE + 4096 - port.bytes, 2)
    await port.beats(2)
    assert "4 KiB" in await complaint()

    await port.address("aw", BASE, 3)
    await port.send([bytes(port.bytes)] * 3, last_at=1)
    await port.response()
    assert "wlast is 1 on beat 2 of 3" in await complaint()

    memory.configure(stall=0.95, seed=1)
    dut.araddr.value = BASE
    dut.arvalid.value = 1
    for i in range(20):
        await port.tick()
        dut.araddr.value = BASE + 4096 * i
    dut.arvalid.value = 0
    memory_complaint = await complaint()
    assert "changed before it was taken" in memory_complaint

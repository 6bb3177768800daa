"""The interconnect of several NPUs: managers that read and write at random against one memory.

Needs the plus-args of dpi_memory.sv, SYSTOLA_MEMORY, the folder with its two files, and
SYSTOLA_NPUS, "N K": managers, and bus words in a memory word.
"""

import os
import random
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly

from sw.runtime.simulator.control import SharedMemory

N, K = map(int, os.environ["SYSTOLA_NPUS"].split())
BUS, ADDR_BITS, MAX_BURST = 8, 40, 16
READABLE = 1 << 14
"""Bytes that everybody reads; behind them each manager has as many of its own to write."""
SLVERR = 2


@dataclass
class Burst:
    """A transfer: address in the memory file, bus words, id of a read; what a write writes."""

    at: int
    beats: int
    id: int = 0
    data: list[bytes] = field(default_factory=list)
    strobes: list[int] = field(default_factory=list)


class Manager:
    """One NPU's side: offers what it has at random times, checks what comes."""

    def __init__(self, number: int, rng: random.Random, memory: Any, pace: float) -> None:
        self.number, self.rng, self.memory, self.pace = number, rng, memory, pace
        self.reads: deque[Burst] = deque()  # not yet taken
        self.owed: tuple[deque[Burst], deque[Burst]] = (deque(), deque())
        self.got = [0, 0]  # words of the oldest burst of each id
        self.addresses: deque[Burst] = deque()
        self.words: deque[tuple[bytes, int, bool]] = deque()
        self.known = 0  # words whose address has been offered
        self.unanswered = 0
        self.read_words = self.finished = 0
        self.expected = np.array(memory)
        self.held: dict[str, bool] = dict.fromkeys(("ar", "aw", "w"), False)

    def fill(self, count: int, beats: int | None = None) -> None:
        """Think of `count` reads and as many writes."""
        rng, own = self.rng, READABLE * (1 + self.number)
        for _ in range(count):
            length = beats or rng.randint(1, MAX_BURST)
            self.reads.append(Burst(self._place(0, length), length, rng.randint(0, 1)))
            length = beats or rng.randint(1, MAX_BURST)
            data = [rng.randbytes(BUS) for _ in range(length)]
            strobes = [rng.choice([255, 255, rng.randint(0, 255)]) for _ in range(length)]
            burst = Burst(self._place(own, length), length, 0, data, strobes)
            self.addresses.append(burst)
            for i, (word, strobe) in enumerate(zip(data, strobes, strict=True)):
                self.words.append((word, strobe, i == length - 1))
                for lane in range(BUS):
                    if strobe >> lane & 1:
                        self.expected[burst.at + i * BUS + lane] = word[lane]

    def _place(self, base: int, beats: int) -> int:
        """An address from which a burst does not leave its 4 KiB."""
        words = 4096 // BUS
        page = self.rng.randrange(READABLE // 4096)
        return base + page * 4096 + BUS * self.rng.randint(0, words - beats)

    @property
    def done(self) -> bool:
        waiting = (self.reads, *self.owed, self.addresses, self.words)
        return not any(waiting) and not self.unanswered

    def offers(self, channel: str, there: bool) -> bool:
        """Once offered, it stays."""
        self.held[channel] = there and (self.held[channel] or self.rng.random() < self.pace)
        return self.held[channel]

    def read_word(self, id: int, data: bytes, response: int, last: bool) -> None:
        """Compare one word with what memory held."""
        assert self.owed[id], f"manager {self.number}: id {id} gets a word that it did not ask for"
        burst = self.owed[id][0]
        at = burst.at + BUS * self.got[id]
        want = bytes(self.memory[at : at + BUS])
        assert response == 0, f"manager {self.number}: response {response} at {at:#x}"
        assert data == want, f"manager {self.number}, id {id}, {at:#x}: {data.hex()}, {want.hex()}"
        self.got[id] += 1
        assert last == (self.got[id] == burst.beats), f"manager {self.number}: last is {last}"
        self.read_words += 1
        if last:
            self.owed[id].popleft()
            self.got[id] = 0
            self.finished += 1


class Bench:
    """All managers, one clock cycle at a time."""

    def __init__(self, dut: Any, seed: int, pace: float) -> None:
        self.dut, self.pace = dut, pace
        self.rng = random.Random(seed)
        self.shared = SharedMemory.attach(Path(os.environ["SYSTOLA_MEMORY"]))
        self.shared.data[:] = np.frombuffer(self.rng.randbytes(self.shared.data.size), np.uint8)
        self.managers = [
            Manager(i, random.Random(seed + 99 * i), self.shared.data, pace) for i in range(N)
        ]
        dut._log.info("seed %d", seed)

    async def start(self, **settings: Any) -> None:
        self.shared.configure(**settings)
        Clock(self.dut.clk, 10, unit="ns").start()
        for name in ("arvalid", "rready", "awvalid", "wvalid", "bready"):
            getattr(self.dut, name).value = 0
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 3)
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def run(self, limit: int, until: Any = None) -> int:
        """Until every manager has all that it wants; the cycles that this took."""
        for cycle in range(limit):
            if until() if until else all(m.done for m in self.managers):
                return cycle
            ready = self._drive()
            await ReadOnly()
            self._observe(ready)
            await FallingEdge(self.dut.clk)
        raise AssertionError(f"not done after {limit} cycles")

    def _drive(self) -> list[tuple[bool, bool]]:
        """Set every signal for the next edge; (rready, bready) of each manager."""
        dut, base = self.dut, self.shared.base
        flags = dict.fromkeys(("arvalid", "arid", "awvalid", "wvalid", "wlast"), 0)
        wide = dict.fromkeys(("araddr", "arlen", "awaddr", "awlen", "wdata", "wstrb"), 0)
        ready = []
        for i, m in enumerate(self.managers):
            if m.offers("ar", bool(m.reads)):
                flags["arvalid"] |= 1 << i
                flags["arid"] |= m.reads[0].id << i
                wide["araddr"] |= (base + m.reads[0].at) << i * ADDR_BITS
                wide["arlen"] |= (m.reads[0].beats - 1) << 8 * i
            if m.offers("aw", bool(m.addresses)):
                flags["awvalid"] |= 1 << i
                wide["awaddr"] |= (base + m.addresses[0].at) << i * ADDR_BITS
                wide["awlen"] |= (m.addresses[0].beats - 1) << 8 * i
            # Data may be offered together with their address, before it is taken.
            known = m.known + (m.addresses[0].beats if m.held["aw"] else 0)
            if m.offers("w", bool(m.words) and known > 0):
                word, strobe, last = m.words[0]
                flags["wvalid"] |= 1 << i
                flags["wlast"] |= last << i
                wide["wdata"] |= int.from_bytes(word, "little") << 8 * BUS * i
                wide["wstrb"] |= strobe << BUS * i
            ready.append((m.rng.random() < m.pace, m.rng.random() < m.pace))
        for name, value in (flags | wide).items():
            getattr(dut, name).value = value
        dut.rready.value = sum(r << i for i, (r, _) in enumerate(ready))
        dut.bready.value = sum(b << i for i, (_, b) in enumerate(ready))
        return ready

    def _observe(self, ready: list[tuple[bool, bool]]) -> None:
        """What is handed over at the next rising edge."""
        dut = self.dut
        names = ("arready", "rvalid", "rid", "rlast", "awready", "wready", "bvalid")
        now = {name: int(getattr(dut, name).value) for name in names}
        data, responses = int(dut.rdata.value) if now["rvalid"] else 0, int(dut.rresp.value)
        for i, m in enumerate(self.managers):
            if m.held["ar"] and now["arready"] >> i & 1:
                burst = m.reads.popleft()
                m.owed[burst.id].append(burst)
                m.held["ar"] = False
            if m.held["aw"] and now["awready"] >> i & 1:
                m.known += m.addresses.popleft().beats
                m.unanswered += 1
                m.held["aw"] = False
            if m.held["w"] and now["wready"] >> i & 1:
                m.words.popleft()
                m.known -= 1
                m.held["w"] = False
            if ready[i][0] and now["rvalid"] >> i & 1:
                word = (data >> 8 * BUS * i) & (1 << 8 * BUS) - 1
                m.read_word(
                    now["rid"] >> i & 1,
                    word.to_bytes(BUS, "little"),
                    responses >> 2 * i & 3,
                    bool(now["rlast"] >> i & 1),
                )
            if ready[i][1] and now["bvalid"] >> i & 1:
                assert int(dut.bresp.value) == 0
                assert m.unanswered > 0, f"manager {i}: an answer of no write"
                m.unanswered -= 1

    def check(self) -> None:
        """Memory holds what each manager wrote, and the memory saw no rule broken."""
        for i, m in enumerate(self.managers):
            own = slice(READABLE * (1 + i), READABLE * (2 + i))
            wrong = np.flatnonzero(self.shared.data[own] != m.expected[own])
            assert not wrong.size, f"manager {i}: {wrong.size} bytes differ, first {wrong[0]:#x}"
        report = self.shared.report()
        assert (report.violations, report.rejected) == (0, 0), report.message


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.3, 0.7], pace=[1.0, 0.4], seed=[1, 2])
async def random_bursts(dut: Any, stall: float, pace: float, seed: int) -> None:
    """Bursts of all lengths and both ids, under back-pressure from all sides."""
    bench = Bench(dut, seed, pace)
    await bench.start(latency=5, stall=stall, seed=seed)
    for manager in bench.managers:
        manager.fill(30)
    await bench.run(60_000)
    bench.check()


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(beats=[1, 16])
async def everybody_gets_the_same(dut: Any, beats: int) -> None:
    """Managers that always ask finish bursts in turn, and the memory gives a word a cycle."""
    bench = Bench(dut, 7, 1.0)
    await bench.start(latency=5, stall=0.0, seed=0)
    for manager in bench.managers:
        manager.fill(100, beats)
        manager.addresses.clear()
        manager.words.clear()
    total = sum(m.finished for m in bench.managers)
    first = await bench.run(20_000, lambda: bench.managers[0].finished >= 50)
    counts = [m.finished for m in bench.managers]
    assert max(counts) - min(counts) <= 2, counts
    moved = sum(m.read_words for m in bench.managers) - total
    # One of one word uses a whole memory word; those of 16 share memory words.
    best = min(N, K if beats > 1 else 1)
    assert moved / first > 0.7 * best, f"{moved} words in {first} cycles"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def one_that_takes_nothing_delays_nobody(dut: Any) -> None:
    """Data of a manager that is not ready wait in its own queue."""
    if N == 1:
        return
    bench = Bench(dut, 3, 1.0)
    await bench.start(latency=5, stall=0.0, seed=0)
    for manager in bench.managers:
        manager.fill(100, 16)
        manager.addresses.clear()
        manager.words.clear()
    stuck = bench.managers[0]
    stuck.rng.random = lambda: 1.0  # type: ignore[method-assign]  # never ready
    stuck.held["ar"] = True
    others = bench.managers[1:]
    await bench.run(20_000, lambda: all(m.finished == 100 for m in others))
    assert stuck.finished == 0

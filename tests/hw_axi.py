"""AXI4 memory and scratchpad port models for the block benches; they check the protocol."""

import random
from collections import deque

from hw_bench import sample, simulate

from hw_gen.interfaces import READ_LATENCY

READ = ("araddr", "arlen", "arsize", "arburst", "arid")
WRITE = ("awaddr", "awlen", "awsize", "awburst", "awid")


class AxiMemory:
    """`size` bytes behind the manager port of a device under test.

    latency: cycles from request to first answer; stall: probability of a cycle's pause, per
    channel; errors: byte addresses whose beats answer SLVERR.
    Checks: bursts are INCR, bus wide, aligned, at most `max_burst` beats and inside 4 KiB; what is
    offered stays offered; write data fit the requested bursts.
    """

    def __init__(self, config, size, *, latency=20, stall=0.0, seed=0, errors=()):
        self.config = config
        self.data = bytearray(random.Random(seed).randbytes(size))
        self.latency, self.stall, self.errors = latency, stall, frozenset(errors)
        self.rng = random.Random(seed + 1)
        self.requests = []  # (kind, address, beats, cycle)
        self.read_beats = self.write_beats = self.written_bytes = 0
        self.owed = 0
        self.most_owed = 0
        self.cycle = 0

    def _go(self):
        return self.rng.random() >= self.stall

    def _request(self, kind, address, length, size, burst):
        bus = self.config.bus_bytes
        assert burst == 1 and 1 << size == bus, (burst, size)
        assert address % bus == 0, hex(address)
        assert length + 1 <= self.config.max_burst
        end = address + (length + 1) * bus
        assert address >> 12 == (end - 1) >> 12, f"burst {address:#x}+{end - address} crosses 4 KiB"
        assert end <= len(self.data), f"{kind} of {address:#x} is outside the memory"
        self.requests.append((kind, address, length + 1, self.cycle))
        self.owed += 1
        self.most_owed = max(self.most_owed, self.owed)

    def _error(self, address):
        return any(address <= e < address + self.config.bus_bytes for e in self.errors)

    async def reads(self, ctx, axi):
        """AR and R, for ever."""
        bus = self.config.bus_bytes
        pending = deque()  # (due, address, left, id)
        held = None
        offering = False
        while True:
            self.cycle += 1
            ctx.set(axi.arready, self._go())
            offering = offering or bool(pending and pending[0][0] <= self.cycle and self._go())
            ctx.set(axi.rvalid, offering)
            if offering:
                _, address, left, rid = pending[0]
                ctx.set(axi.rdata, int.from_bytes(self.data[address : address + bus], "little"))
                ctx.set(axi.rresp, 2 if self._error(address) else 0)
                ctx.set(axi.rlast, left == 1)
                ctx.set(axi.rid, rid)
            arvalid, arready, rready, *request = await sample(
                ctx, axi.arvalid, axi.arready, axi.rready, *(getattr(axi, f) for f in READ)
            )
            assert held is None or (arvalid and request == held), "AR changed while it was offered"
            held = request if arvalid and not arready else None
            if offering and rready:
                due, address, left, rid = pending.popleft()
                self.read_beats += 1
                offering = False
                if left > 1:
                    pending.appendleft((due, address + bus, left - 1, rid))
                else:
                    self.owed -= 1
            if arvalid and arready:
                address, length, size, burst, rid = request
                self._request("read", address, length, size, burst)
                pending.append((self.cycle + self.latency, address, length + 1, rid))

    async def writes(self, ctx, axi):
        """AW, W and B, for ever. Data is taken before its address too, as AXI4 has it."""
        bus = self.config.bus_bytes
        bursts, beats, answers = deque(), deque(), deque()
        held_aw = held_w = None
        offering = False
        cycle = 0
        while True:
            cycle += 1
            ctx.set(axi.awready, self._go())
            ctx.set(axi.wready, self._go())
            offering = offering or bool(answers and answers[0][0] <= cycle and self._go())
            ctx.set(axi.bvalid, offering)
            ctx.set(axi.bresp, answers[0][1] if offering else 0)
            awv, awr, wv, wr, bready, data, strobe, last, *request = await sample(
                ctx, axi.awvalid, axi.awready, axi.wvalid, axi.wready, axi.bready,
                axi.wdata, axi.wstrb, axi.wlast, *(getattr(axi, f) for f in WRITE),
            )  # fmt: skip
            assert held_aw is None or (awv and request == held_aw), "AW changed while offered"
            assert held_w is None or (wv and (data, strobe, last) == held_w), "W changed"
            held_aw = request if awv and not awr else None
            held_w = (data, strobe, last) if wv and not wr else None
            if offering and bready:
                answers.popleft()
                offering = False
                self.owed -= 1
            if awv and awr:
                address, length, size, burst, _ = request
                self._request("write", address, length, size, burst)
                bursts.append([address, length + 1, False])
            if wv and wr:
                beats.append((data, strobe, last))
                self.write_beats += 1
            while bursts and beats:
                data, strobe, last = beats.popleft()
                burst = bursts[0]
                address = burst[0]
                burst[2] |= self._error(address)
                for lane in range(bus):
                    if strobe >> lane & 1:
                        self.data[address + lane] = data >> (8 * lane) & 0xFF
                        self.written_bytes += 1
                burst[0] += bus
                burst[1] -= 1
                assert bool(last) == (burst[1] == 0), "wlast is not on the burst's last beat"
                if last:
                    answers.append((cycle + self.latency, 2 if burst[2] else 0))
                    bursts.popleft()


class SpadModel:
    """The bytes behind scratchpad ports; `stall`: probability that an access is refused a cycle."""

    def __init__(self, config, *, stall=0.0, seed=0):
        self.config = config
        self.data = bytearray(random.Random(seed + 77).randbytes(config.spad_bytes))
        self.stall = stall
        self.rng = random.Random(seed + 2)
        self.accesses = 0
        self.cycles = []  # cycle of every access
        self.events = []  # (cycle, what) for order checks
        self.cycle = 0

    async def posted(self, ctx, port):
        """Posted writes; each lands some cycles after it was taken, in order."""
        flying, marked = deque(), False
        while True:
            self.cycle += 1
            landed = False
            while flying and self.rng.random() >= self.stall and not landed:
                addr, content, landed = flying.popleft()
                self.data[addr : addr + len(content)] = content
                self.cycles.append(self.cycle)
            ctx.set(port.landed, landed)
            ctx.set(port.empty, not flying)
            marked = marked and not landed
            free = len(flying) < 8 and self.rng.random() >= self.stall
            ctx.set(port.ready, free and not (marked and ctx.get(port.mark)))
            valid, ready, addr, size, lane, data, mark = await sample(
                *(ctx, port.valid, port.ready, port.addr, port.size, port.lane, port.data),
                port.mark,
            )
            if valid and ready:
                assert 1 <= size <= self.config.word_bytes
                assert addr + size <= self.config.spad_bytes
                word = data.to_bytes(self.config.word_bytes, "little")
                content = (word[lane:] + word[:lane])[:size]
                flying.append((addr, content, bool(mark)))
                marked = marked or bool(mark)
                self.accesses += 1

    async def reads(self, ctx, port):
        line, width = deque([None] * READ_LATENCY), self.config.word_bytes
        while True:
            self.cycle += 1
            ctx.set(port.ready, self.rng.random() >= self.stall)
            now = line.popleft()
            ctx.set(port.data_valid, now is not None)
            # Other bytes are undefined: show that nobody uses them.
            word = bytearray(self.rng.randbytes(width))
            if now is not None:
                addr, size, lane, tag = now
                ctx.set(port.data_tag, tag)
                for place in range(size):
                    word[(lane + place) % width] = self.data[addr + place]
            ctx.set(port.data, int.from_bytes(word, "little"))
            lane = ctx.get(port.lane) if hasattr(port, "lane") else 0
            valid, ready, addr, size, tag = await sample(
                ctx, port.valid, port.ready, port.addr, port.size, port.tag
            )
            line.append(None)
            if valid and ready:
                assert size <= self.config.word_bytes
                assert addr + size <= self.config.spad_bytes
                line[-1] = (addr, size, lane, tag)
                if not size:
                    continue
                self.accesses += 1
                self.cycles.append(self.cycle)


def table_model(config, size):
    """Bytes of PARAM or TABLE and the background bench that writes them."""
    data = bytearray(size)

    async def writes(ctx, port):
        while True:
            valid, addr, value, strobe = await sample(
                ctx, port.valid, port.addr, port.data, port.strobe
            )
            if valid:
                assert addr % config.bus_bytes == 0
                for lane in range(config.bus_bytes):
                    if strobe >> lane & 1:
                        data[addr + lane] = value >> (8 * lane) & 0xFF

    return data, writes


def run_benches(dut, benches, background, *, deadline=100_000, platform=None):
    """Run `benches` to their ends beside the endless `background` ones; fails after `deadline`."""
    background = tuple(background)
    simulate(dut, *benches, background=background, deadline=deadline, platform=platform)


def on(task, port):
    """A bench that runs `task` on `port`."""

    async def bench(ctx):
        await task(ctx, port)

    return bench

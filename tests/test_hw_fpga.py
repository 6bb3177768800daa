"""What surrounds the NPU on an FPGA: line, loader, memory; in Amaranth's simulator."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import connect
from hw_bench import simulate

from hw_gen.fpga.loader import ACKNOWLEDGED, MAGIC, REFUSED, Loader
from hw_gen.fpga.memory import DECERR, BlockMemory
from hw_gen.fpga.uart import UartReceiver, UartSender
from spec import preset

BYTES = 256
TINY = preset("micro")
DIVISOR = 6


class Loop(wiring.Component):
    """A line that is connected to itself."""

    def __init__(self):
        self.sender, self.receiver = UartSender(DIVISOR), UartReceiver(DIVISOR)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules += [self.sender, self.receiver]
        m.d.comb += self.receiver.rx.eq(self.sender.tx)
        return m


def test_bytes_come_out_of_the_line_as_they_went_in():
    dut = Loop()
    sent = [0, 255, 0x55, 0xAA, *random.Random(1).randbytes(20)]
    got = []

    async def send(ctx):
        for byte in sent:
            ctx.set(dut.sender.i.payload, byte)
            ctx.set(dut.sender.i.valid, 1)
            await ctx.tick().until(dut.sender.i.ready)
        ctx.set(dut.sender.i.valid, 0)

    async def receive(ctx):
        ctx.set(dut.receiver.o.ready, 1)
        while len(got) < len(sent):
            (byte,) = await ctx.tick().sample(dut.receiver.o.payload).until(dut.receiver.o.valid)
            got.append(byte)

    simulate(dut, send, receive)
    assert got == sent


def test_a_byte_without_a_stop_bit_is_dropped():
    dut = UartReceiver(DIVISOR)
    got = []

    async def line(ctx):
        ctx.set(dut.rx, 1)
        await ctx.tick().repeat(4)
        for bits in ([0, *[1, 0] * 4, 0, 1, 1, 1], [0, *[1] * 8, 1]):
            for bit in bits:
                ctx.set(dut.rx, bit)
                await ctx.tick().repeat(DIVISOR)
        await ctx.tick().repeat(3 * DIVISOR)

    async def receive(ctx):
        ctx.set(dut.o.ready, 1)
        for _ in range(29 * DIVISOR):
            _, _, valid, byte = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid:
                got.append(byte)

    simulate(dut, line, receive)
    assert got == [0xFF]


class Served(wiring.Component):
    """A loader with its memory; the NPU's ports are those of the test."""

    def __init__(self):
        self.loader, self.memory = Loader(BYTES), BlockMemory(TINY, BYTES)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules += [self.loader, self.memory]
        connect(m, self.loader.memory, self.memory.loader)
        return m


async def say(ctx, loader, data: bytes) -> None:
    for byte in data:
        ctx.set(loader.i.payload, byte)
        ctx.set(loader.i.valid, 1)
        await ctx.tick().until(loader.i.ready)
        ctx.set(loader.i.valid, 0)


async def hear(ctx, loader, count: int) -> bytes:
    ctx.set(loader.o.ready, 1)
    out = bytearray()
    while len(out) < count:
        (byte,) = await ctx.tick().sample(loader.o.payload).until(loader.o.valid)
        out.append(byte)
    ctx.set(loader.o.ready, 0)
    return bytes(out)


def command(letter: str, address: int = 0, number: int = 0) -> bytes:
    return letter.encode() + address.to_bytes(4, "little") + number.to_bytes(4, "little")


def test_memory_is_written_and_read_by_commands():
    dut = Served()
    data = random.Random(2).randbytes(40)

    async def host(ctx):
        await say(ctx, dut.loader, command("I"))
        assert await hear(ctx, dut.loader, 8) == MAGIC + BYTES.to_bytes(4, "little")
        await say(ctx, dut.loader, command("W", 13, 40) + data)
        assert await hear(ctx, dut.loader, 1) == bytes([ACKNOWLEDGED])
        await say(ctx, dut.loader, command("R", 12, 43))
        assert await hear(ctx, dut.loader, 43) == b"\0" + data + b"\0\0"
        # Behind the end nothing is written, and zeros are read.
        await say(ctx, dut.loader, command("W", BYTES - 1, 3) + b"\x11\x22\x33")
        assert await hear(ctx, dut.loader, 1) == bytes([ACKNOWLEDGED])
        await say(ctx, dut.loader, command("R", BYTES - 1, 2))
        assert await hear(ctx, dut.loader, 2) == b"\x11\0"
        await say(ctx, dut.loader, b"\0")
        assert await hear(ctx, dut.loader, 1) == bytes([REFUSED])
        await say(ctx, dut.loader, command("R", 0, 1))
        assert await hear(ctx, dut.loader, 1) == b"\0"

    simulate(dut, host)


@pytest.mark.parametrize("seed", range(3))
def test_bursts_meet_what_the_host_wrote(seed):
    """Reads and writes of the NPU at once, with pauses, and the host's bytes between them."""
    dut = Served()
    rng = random.Random(seed)
    width = TINY.bus_bytes
    contents = bytearray(rng.randbytes(BYTES))
    halves = BYTES // 2
    done = []

    async def host(ctx):
        await say(ctx, dut.loader, command("W", 0, BYTES) + contents)
        await hear(ctx, dut.loader, 1)
        done.append("loaded")
        while len(done) < 3:
            at = rng.randrange(halves)
            await say(ctx, dut.loader, command("R", at, 1))
            assert await hear(ctx, dut.loader, 1) == contents[at : at + 1]

    async def reads(ctx):
        axi = dut.memory.read
        while not done:
            await ctx.tick()
        for number in range(12):
            count = rng.randint(1, 6)
            at = rng.randrange(halves // width - count + 1) * width
            at += BYTES if number == 7 else 0
            ctx.set(axi.araddr, at)
            ctx.set(axi.arlen, count - 1)
            ctx.set(axi.arid, number & 1)
            ctx.set(axi.arvalid, 1)
            await ctx.tick().until(axi.arready)
            ctx.set(axi.arvalid, 0)
            for beat in range(count):
                ctx.set(axi.rready, 0)
                await ctx.tick().repeat(rng.randint(1, 4))
                ctx.set(axi.rready, 1)
                sampled = ctx.tick().sample(axi.rdata, axi.rlast, axi.rid, axi.rresp)
                data, last, name, resp = await sampled.until(axi.rvalid)
                want = contents[at + beat * width :][:width]
                assert (last, name) == (beat == count - 1, number & 1)
                if number == 7:
                    assert (data, resp) == (0, DECERR)
                else:
                    assert (data.to_bytes(width, "little"), resp) == (want, 0)
            ctx.set(axi.rready, 0)
        done.append("read")

    async def writes(ctx):
        axi = dut.memory.write
        while not done:
            await ctx.tick()
        for number in range(10):
            count = rng.randint(1, 5)
            at = halves + rng.randrange(halves // width - count + 1) * width
            at += BYTES if number == 4 else 0
            ctx.set(axi.awaddr, at)
            ctx.set(axi.awid, 1)
            ctx.set(axi.awvalid, 1)
            await ctx.tick().until(axi.awready)
            ctx.set(axi.awvalid, 0)
            for beat in range(count):
                await ctx.tick().repeat(rng.randint(1, 3))
                data, strobe = rng.randbytes(width), rng.randrange(1 << width)
                ctx.set(axi.wdata, int.from_bytes(data, "little"))
                ctx.set(axi.wstrb, strobe)
                ctx.set(axi.wlast, beat == count - 1)
                ctx.set(axi.wvalid, 1)
                await ctx.tick().until(axi.wready)
                ctx.set(axi.wvalid, 0)
                for lane in range(width):
                    if strobe >> lane & 1 and number != 4:
                        contents[at + beat * width + lane] = data[lane]
            ctx.set(axi.bready, 1)
            (resp,) = await ctx.tick().sample(axi.bresp).until(axi.bvalid)
            ctx.set(axi.bready, 0)
            assert resp == (DECERR if number == 4 else 0)
        done.append("written")

    async def after(ctx):
        while len(done) < 3:
            await ctx.tick()

    simulate(dut, host, reads, writes, after)
    assert sorted(done[1:]) == ["read", "written"]

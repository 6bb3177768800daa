"""A host of the registers, and a run of a test on them in Amaranth's simulator."""

from hw_bench import reused, sample, simulate
from hw_dma_bench import small

from hw_gen.blocks.registers import Registers
from spec.memmap import OFFSETS, Stall


class Host:
    """AXI4-Lite manager of the registers under test."""

    def __init__(self, dut, axil):
        self.dut, self.axil = dut, axil

    async def write(self, name, value, *, strobe=0xF, gap=0):
        axil = self.axil
        ctx = self.ctx
        ctx.set(axil.awaddr, name if isinstance(name, int) else OFFSETS[name])
        ctx.set(axil.awvalid, 1)
        for _ in range(gap):  # data may come later than the address
            await ctx.tick()
        ctx.set(axil.wdata, value)
        ctx.set(axil.wstrb, strobe)
        ctx.set(axil.wvalid, 1)
        while True:
            aw, w = await sample(ctx, axil.awready, axil.wready)
            assert aw == w
            if aw:
                break
        ctx.set(axil.awvalid, 0)
        ctx.set(axil.wvalid, 0)
        ctx.set(axil.bready, 1)
        valid = 0
        while not valid:
            valid, response = await sample(ctx, axil.bvalid, axil.bresp)
        ctx.set(axil.bready, 0)
        return response

    async def read(self, name, *, response=0):
        axil, ctx = self.axil, self.ctx
        ctx.set(axil.araddr, name if isinstance(name, int) else OFFSETS[name])
        ctx.set(axil.arvalid, 1)
        ready = 0
        while not ready:
            (ready,) = await sample(ctx, axil.arready)
        ctx.set(axil.arvalid, 0)
        ctx.set(axil.rready, 1)
        valid = 0
        while not valid:
            valid, data, answer = await sample(ctx, axil.rvalid, axil.rdata, axil.rresp)
        ctx.set(axil.rready, 0)
        assert answer == response
        return data

    async def wide(self, name):
        return await self.read(f"{name}_LO") | await self.read(f"{name}_HI") << 32

    async def quiet(self):
        """Every engine idle, nothing else happening."""
        for engine in self.dut.engines:
            self.ctx.set(engine.stall, Stall.IDLE)

    async def pulse(self, signal, cycles=1):
        self.ctx.set(signal, 1)
        await self.ctx.tick().repeat(cycles)
        self.ctx.set(signal, 0)
        await self.ctx.tick()

    async def fail(self, engine, cause, index):
        status = self.dut.engines[engine]
        self.ctx.set(status.cause, cause)
        self.ctx.set(status.fault_index, index)
        await self.pulse(status.fault)


def run(test, config=None, form=None):
    """Run the coroutine `test(host, ctx)` on fresh registers, in a `form` of the RTL."""
    dut = reused(Registers, config or small())
    host = Host(dut, dut.axil)

    async def bench(ctx):
        host.ctx = ctx
        await host.quiet()
        await test(host, ctx)

    simulate(host.dut, bench, deadline=20_000, platform=form)

"""The read mux: fetch first, an offered request stays, responses by id; the tracker's counts."""

import random

from hw_bench import sample, simulate
from hw_dma_bench import small

from hw_gen.blocks.axi_read_mux import AxiReadMux
from hw_gen.blocks.axi_tracker import AxiTracker


def test_fetch_goes_first_and_no_offered_request_is_withdrawn():
    dut = AxiReadMux(small())
    rng = random.Random(4)
    taken = {"fetch": [], "load": []}
    sent = {"fetch": 0, "load": 0}

    async def bench(ctx):
        offered = {"fetch": False, "load": False}
        before = None
        for _ in range(600):
            for ident, name in enumerate(sent):
                port = getattr(dut, name)
                offered[name] |= rng.random() < 0.4
                ctx.set(port.arvalid, offered[name])
                ctx.set(port.arid, ident)
                ctx.set(port.araddr, sent[name] * 64)
            ctx.set(dut.o.arready, rng.random() < 0.5)
            o, fetch, load = dut.o, dut.fetch, dut.load
            valid, ready, ident, addr, to_fetch, to_load = await sample(
                ctx, o.arvalid, o.arready, o.arid, o.araddr, fetch.arready, load.arready
            )
            assert bool(valid) == any(offered.values())
            if before is not None:
                assert (valid, ident, addr) == before, "an offered request changed"
            elif valid and offered["fetch"]:
                assert ident == 0, "load went before fetch"
            before = (valid, ident, addr) if valid and not ready else None
            for name, accepted in (("fetch", to_fetch), ("load", to_load)):
                if offered[name] and accepted:
                    taken[name].append(addr)
                    sent[name] += 1
                    offered[name] = False

    simulate(dut, bench)
    for addresses in taken.values():
        assert addresses == [64 * n for n in range(len(addresses))]
        assert len(addresses) > 50


def test_responses_go_to_their_id():
    dut = AxiReadMux(small())

    async def bench(ctx):
        for ident, ours, other in ((0, dut.fetch, dut.load), (1, dut.load, dut.fetch)):
            ctx.set(dut.o.rvalid, 1)
            ctx.set(dut.o.rid, ident)
            ctx.set(dut.o.rdata, 0x1234 + ident)
            ctx.set(ours.rready, 0)
            ctx.set(other.rready, 1)
            assert not ctx.get(dut.o.rready)
            assert ctx.get(ours.rvalid) and not ctx.get(other.rvalid)
            ctx.set(ours.rready, 1)
            assert ctx.get(dut.o.rready)
            assert ctx.get(ours.rdata) == 0x1234 + ident
            # One that the other manager could not take waits too: `rready` does not look at it.
            ctx.set(other.rready, 0)
            assert not ctx.get(dut.o.rready) and not ctx.get(ours.rvalid)
            await ctx.tick()

    simulate(dut, bench)


def test_tracker_is_busy_until_the_last_beat_and_response():
    dut = AxiTracker()

    def line(name):
        return getattr(dut.read if name[0] == "r" or name.startswith("ar") else dut.write, name)

    async def pulse(ctx, *names):
        for name in names:
            ctx.set(line(name), 1)
        await ctx.tick()
        for name in names:
            ctx.set(line(name), 0)

    async def bench(ctx):
        assert not ctx.get(dut.busy)
        ctx.set(dut.read.arvalid, 1)
        assert ctx.get(dut.busy)  # offered, not yet taken
        await pulse(ctx, "arvalid", "arready")
        await pulse(ctx, "arvalid", "arready")
        await pulse(ctx, "awvalid", "awready", "rvalid", "rready")
        await pulse(ctx, "rvalid", "rready", "rlast")
        await pulse(ctx, "rvalid", "rready", "rlast", "arvalid", "arready")
        await pulse(ctx, "rvalid", "rlast")  # not taken
        await pulse(ctx, "rvalid", "rready", "rlast")
        assert ctx.get(dut.busy)
        await pulse(ctx, "bvalid", "bready")
        assert not ctx.get(dut.busy)

    simulate(dut, bench)

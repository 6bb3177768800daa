"""Helpers of the block benches that run in Amaranth's own simulator."""

from amaranth.lib import data
from amaranth.sim import Simulator


def simulate(dut, *benches, vcd=None, deadline=20_000):
    """Run `benches` (async functions of a context) on `dut` until all have finished.

    A bench that is not done after `deadline` cycles fails the test.
    """
    sim = Simulator(dut)
    sim.add_clock(1e-6)
    finished = []

    def wrap(bench):
        async def run(ctx):
            await bench(ctx)
            finished.append(bench)

        return run

    for bench in benches:
        sim.add_testbench(wrap(bench))

    async def watchdog(ctx):
        for _ in range(deadline):
            await ctx.tick()
            if len(finished) == len(benches):
                return
        raise AssertionError(f"benches still running after {deadline} cycles")

    sim.add_testbench(watchdog, background=True)
    if vcd:
        with sim.write_vcd(str(vcd)):
            sim.run()
    else:
        sim.run()
    assert len(finished) == len(benches)


async def sample(ctx, *signals):
    """One clock tick; the signals' values just before it, as a tuple."""
    _, _, *values = await ctx.tick().sample(*signals)
    return tuple(values)


def queue_item(layout, instruction, index):
    """An item of a queue of that layout: the fields of `instruction` that it has, and `index`."""
    return layout.const({"instr": _fields(layout["instr"].shape, instruction), "index": index})


def _fields(layout, values):
    return {
        name: [_fields(field.shape.elem_shape, each) for each in values[name]]
        if isinstance(field.shape, data.ArrayLayout)
        else values[name]
        for name, field in layout
    }

"""Helpers of the block benches that run in Amaranth's own simulator."""

from types import SimpleNamespace

from amaranth.hdl import Fragment
from amaranth.lib import data
from amaranth.sim import Simulator

FORMS = (None, SimpleNamespace(loops=True, plain_sums=True))
"""Platforms of the forms that blocks have: as they are synthesized, and as they are simulated."""


def simulate(dut, *benches, vcd=None, deadline=20_000, platform=None):
    """Run `benches` (async functions of a context) on `dut` until all have finished.

    platform: one of `FORMS`. A bench that is not done after `deadline` cycles fails the test.
    """
    sim = Simulator(Fragment.get(dut, platform))
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


async def instruct(ctx, port, instruction, index, given_up=lambda: False):
    """Offer `instruction` on an `instruction_stream` until it is taken, or `given_up`."""
    ctx.set(port.start, start_item(port.start.shape(), instruction, index))
    ctx.set(port.valid, 1)
    while not given_up():
        (ready,) = await sample(ctx, port.ready)
        if ready:
            ctx.set(port.rest, rest_item(port.rest.shape(), instruction))
            break
    ctx.set(port.valid, 0)


def start_item(layout, instruction, index):
    """The fields of `instruction` that a sequencer begins with (`start_layout`), and `index`."""
    return layout.const({"instr": _fields(layout["instr"].shape, instruction), "index": index})


def rest_item(layout, instruction):
    """The fields of `instruction` that stay in the queue (`rest_layout`)."""
    return layout.const(_fields(layout, instruction))


def _fields(layout, values):
    return {
        name: [_fields(field.shape.elem_shape, each) for each in values[name]]
        if isinstance(field.shape, data.ArrayLayout)
        else values[name]
        for name, field in layout
    }

"""Helpers of the block benches that run in Amaranth's own simulator."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace

from amaranth.hdl import Fragment
from amaranth.lib import data
from amaranth.sim import Simulator

from spec.isa import Point

FORMS = (None, SimpleNamespace(loops=True, plain_sums=True))
"""Platforms of the forms that blocks have: as they are synthesized, and as they are simulated."""
FPGA = SimpleNamespace(plain_sums=True, for_fpga=True)
"""The platform of an FPGA."""
_PLATFORMS = (*FORMS, FPGA)


@lru_cache(maxsize=12)
def reused(block: Callable, *arguments):
    """`block(*arguments)`, the same for every test: its simulators are built once, then reset.

    To elaborate a block and to translate it takes longer than most tests run.
    """
    dut = block(*arguments)
    dut.kept_simulations = {}
    return dut


class _Simulation:
    """A simulator of `dut` with places for benches; `run` fills them, any number of times."""

    def __init__(self, dut, platform, benches: int, background: int) -> None:
        self.benches: Sequence[Callable] = ()
        self.awaited = benches
        self.finished: list[int] = []
        self.used = False
        self.simulator = Simulator(Fragment.get(dut, platform))
        self.simulator.add_clock(1e-6)
        for place in range(benches + background):
            self.simulator.add_testbench(self._at(place), background=place >= benches)

    def _at(self, place: int) -> Callable:
        async def run(ctx):
            await self.benches[place](ctx)
            if place < self.awaited:
                self.finished.append(place)

        return run

    def run(self, benches: Sequence[Callable], vcd=None) -> None:
        self.benches = benches
        self.finished.clear()
        if self.used:
            self.simulator.reset()
        self.used = True
        if vcd:
            with self.simulator.write_vcd(str(vcd)):
                self.simulator.run()
        else:
            self.simulator.run()


def simulate(dut, *benches, background=(), vcd=None, deadline=20_000, platform=None):
    """Run `benches` (async functions of a context) on `dut` until all have finished.

    background: benches that never end. platform: one of `FORMS`, or `FPGA`. A bench that
    is not done after `deadline` cycles fails the test.
    """
    kept = getattr(dut, "kept_simulations", {})
    key = (_PLATFORMS.index(platform), len(benches), len(background))
    # One that fails in the middle is not used again: it comes back when its run has ended well.
    simulation = kept.pop(key, None)
    if simulation is None:
        simulation = _Simulation(dut, platform, len(benches), len(background) + 1)

    async def watchdog(ctx):
        for _ in range(deadline):
            await ctx.tick()
        raise AssertionError(f"benches still running after {deadline} cycles")

    simulation.run([*benches, *background, watchdog], vcd)
    assert sorted(simulation.finished) == list(range(len(benches)))
    kept[key] = simulation


async def sample(ctx, *signals):
    """One clock tick; the signals' values just before it, as a tuple."""
    _, _, *values = await ctx.tick().sample(*signals)
    return tuple(values)


async def instruct(ctx, port, instruction, index, given_up=lambda: False, platform=None):
    """Offer `instruction` on an `instruction_stream` until it is taken, or `given_up`."""
    if platform is FPGA and hasattr(port, "entries"):
        await _entries(ctx, port.entries, instruction)
    ctx.set(port.start, start_item(port.start.shape(), instruction, index))
    ctx.set(port.valid, 1)
    while not given_up():
        (ready,) = await sample(ctx, port.ready)
        if ready:
            ctx.set(port.rest, rest_item(port.rest.shape(), instruction))
            break
    ctx.set(port.valid, 0)


async def _entries(ctx, port, instruction):
    """The loops of `instruction`, one a cycle."""
    layout = port.payload.shape()
    for level, loop in enumerate(instruction["loop"]):
        ctx.set(port.payload, layout.const(_fields(layout, loop)))
        ctx.set(port.level, level)
        ctx.set(port.valid, 1)
        await ctx.tick()
    ctx.set(port.valid, 0)


def start_item(layout, instruction, index):
    """The fields of `instruction` that a sequencer begins with (`start_layout`), and `index`."""
    instr = _fields(layout["instr"].shape, instruction)
    of_weights = "wgt_base" in instr and "act_base" not in instr
    waits = [
        slot["amount"] != 0 and (slot["point"] == Point.WEIGHTS) == of_weights
        for slot in instruction["wait"]
    ]
    posts = [slot["amount"] != 0 for slot in instruction["post"]]
    used = {"waits": bits(waits), "posts": bits(posts)}
    return layout.const({"instr": instr, **used, "index": index})


def bits(flags):
    """The number whose bits are `flags`, the lowest first."""
    return sum(flag << place for place, flag in enumerate(flags))


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

"""When a pipeline may rest: its registers hold what they have, and no clock need reach them."""

from typing import Any

from amaranth.hdl import *

from hw_gen.platform import asks_for


def awake(m: Module, works: Value, name: str, cycles: int) -> Signal:
    """1 while `works` is 1, and `cycles` longer. A pipeline wakes in the cycle of its input."""
    left = Signal(range(cycles + 1), name=f"{name}_left", init=cycles)
    now = Signal(name=f"{name}_awake")
    m.d.comb += now.eq(works | (left != 0))
    with m.If(works):
        m.d.sync += left.eq(cycles)
    with m.Elif(left != 0):
        m.d.sync += left.eq(left - 1)
    return now


def resting(m: Module, platform, block, works: Value, name: str, cycles: int) -> Any:
    """`block`, with an enable at every register where the platform asks for them.

    works : there is something for it to do. cycles : after which nothing in it changes any more.

    Without a clock gate an enable is a multiplexer a bit. So there are none but in RTL that gets
    clock gates (`RtlPlatform`).
    """
    if asks_for(platform, "idle_clocks"):
        return with_idle_clock(m, platform, block, works, name, cycles)
    if not asks_for(platform, "clock_enables"):
        return block
    return EnableInserter(awake(m, works, name, cycles))(block)


ROOT = "root"
"""Domain of the clock that never stands still, for RTL with idle clocks."""


def with_idle_clock(m: Module, platform, block, works: Value, name: str, cycles: int = 0) -> Any:
    """`block`, with a clock that stands still where nothing in it would change, if the platform
    asks for that (`RtlPlatform`). The clock is domain `name`, which only one block may have.

    works : something may change at the end of this cycle, or of one of so many `cycles` after it.
    With `cycles`, a reset of the block around it wakes it.
    """
    if not asks_for(platform, "idle_clocks"):
        return block
    domain = ClockDomain(name)
    m.domains += domain
    # A reset of the counter wakes the block.
    now = awake(m, works, name, cycles) if cycles else works
    m.submodules[f"clock_of_{name}"] = Instance(
        "systola_idle_clock",
        i_clk=ClockSignal(ROOT),
        i_works=now | ResetSignal(ROOT),
        o_gated=domain.clk,
    )
    m.d.comb += domain.rst.eq(ResetSignal(ROOT))
    return DomainRenamer({"sync": name})(block)


def unstopped(platform, block) -> Any:
    """`block`, whose clock never stands still, within one that has a clock of its own."""
    return DomainRenamer({"sync": ROOT})(block) if asks_for(platform, "idle_clocks") else block


def sequencer(m: Module, platform, seq, name: str) -> Any:
    """A `Sequencer` with an idle clock: it changes by an instruction, a step or a grant."""
    works = (seq.i.valid & seq.i.ready) | (seq.o.valid & seq.o.ready) | seq.wait.grant
    return with_idle_clock(m, platform, seq, works, name, 1)

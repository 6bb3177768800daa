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
    if not asks_for(platform, "clock_enables"):
        return block
    return EnableInserter(awake(m, works, name, cycles))(block)

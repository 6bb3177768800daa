"""Invariants of the blocks as assertions, for simulation only.

They are active in Amaranth's simulator and in Verilog generated with `assertions=True`: plain
Verilog has no `assert`, and the messages would cost the fast simulators time.
"""

from amaranth.hdl import Assert, Module, Value

from hw_gen.platform import asks_for


def checking(platform) -> bool:
    """Whether assertions are active: what only they need is left out otherwise."""
    return platform is None or asks_for(platform, "assertions")


def check(m: Module, platform, condition: Value, message: str) -> None:
    """`condition` holds at every clock edge, or the simulation stops with `message`.

    platform: what `elaborate` was given.
    """
    if checking(platform):
        m.d.sync += Assert(condition, message + "\n")

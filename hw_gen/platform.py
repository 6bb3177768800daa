"""What the generated hardware is for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RtlPlatform:
    """Verilog is generated: memories and multipliers are instances of the modules in `rtl/`.

    assertions: see `hw_gen.checks`. loops: the systolic array is the module of
    `rtl/systola_array.sv`, which simulates fast, in place of processing elements.
    plain_sums: no sum is split for a shorter delay, and no register has copies. Simulators and the
    chains of carries that FPGAs have are faster without.
    clock_enables: pipelines that may rest have an enable, which becomes a clock gate.
    idle_clocks: blocks have clocks of their own, which stand still while nothing in them would
    change. Simulators then evaluate nothing of them. Counters of an engine's states are small
    memories.
    for_fpga: storage as FPGAs have it, and more registers between blocks, so that cycles are
    others. Instructions wait in memories as wide as a granule, and the oldest in registers.
    Semaphores, loops and counters are small memories.
    """

    assertions: bool = False
    loops: bool = False
    plain_sums: bool = False
    clock_enables: bool = False
    idle_clocks: bool = False
    for_fpga: bool = False


FPGA_FORM = {"plain_sums": True, "for_fpga": True}
"""Options of the form that takes few tables of an FPGA."""


def asks_for(platform: object, option: str) -> bool:
    """Whether the platform has that option. Amaranth's simulator, which is None, has none."""
    return bool(getattr(platform, option, False))

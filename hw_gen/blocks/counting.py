"""Counters of what is held."""

from amaranth.hdl import *

from hw_gen.platform import asks_for


def count(m: Module, platform, held: Signal, comes: Value, goes: Value) -> None:
    """One more is `held` where one comes, one less where one goes.

    Both are known late in a cycle: they choose a sum. Where there are few tables they are a part of
    the only sum.
    """
    if asks_for(platform, "for_fpga"):
        with m.If(comes ^ goes):
            m.d.sync += held.eq(held + Cat(Const(1, 1), goes.replicate(len(held) - 1)))
        return
    with m.If(comes & ~goes):
        m.d.sync += held.eq(held + 1)
    with m.Elif(goes & ~comes):
        m.d.sync += held.eq(held - 1)

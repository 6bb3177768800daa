"""One of several values, and whose turn it is."""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from amaranth.hdl import *


def any_of(masks: Iterable[Value]) -> Value:
    """The bits that any of the masks has."""
    return reduce(or_, masks, Const(0))


def chosen_of(chosen: Iterable[Value], values: Iterable[Value]) -> Value:
    """The one of `values` that is chosen, 0 if none is."""
    return any_of(Mux(one, value, 0) for one, value in zip(chosen, values, strict=True))


def in_turn(m: Module, name: str, asks: Value) -> Signal:
    """One bit of `asks`, or none if none is set: the first behind the one of the time before."""
    chosen, behind = (Signal(len(asks), name=f"{name}_{x}") for x in ("chosen", "turn"))
    later = asks & behind
    among = Mux(later.any(), later, asks)
    m.d.comb += chosen.eq(among & ~behind_first(among))
    with m.If(chosen.any()):
        m.d.sync += behind.eq(behind_first(chosen))
    return chosen


def behind_first(bits: Value) -> Value:
    """The places behind the first bit that is set."""
    return Cat(bits[:place].any() if place else Const(0, 1) for place in range(len(bits)))

"""Counting semaphores: one take and one post a cycle, arbitrated."""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.semaphore_counts import counts
from hw_gen.checks import check, checking
from hw_gen.interfaces import Overflow
from hw_gen.layouts import AMOUNT, SEMAPHORE, PostStream, post_layout
from spec.config import NpuConfig
from spec.isa import Engine

WaitPort = wiring.Signature(
    {"valid": Out(1), "sem": Out(SEMAPHORE), "amount": Out(AMOUNT), "grant": In(1)}
)
"""A sequencer asks for `amount`, until `grant` says that it was taken in the cycle before."""


class Semaphores(wiring.Component):
    """`config.semaphores` counters of `config.sem_bits` bits.

    Parameters
    ----------
    waiters : number of ports; lower ones win when several could take in one cycle.
    posters : the engine of each port that posts; they are served in turn, one a cycle.

    Members
    -------
    wait[i] : ``In(WaitPort)``; grant comes in the cycle after the amount was taken. What is asked
        for in the cycle of a grant does not count.
    post[j] : ``In(PostStream)``.
    overflow : ``Out(Overflow)``.

    Timing: a post is visible to waiters two cycles later, their grant in the one after that. A
    semaphore is taken from every other cycle at most. In RTL for FPGAs a waiter is granted once in
    three cycles at most, and a cycle after it asked; a poster is served every other cycle at most,
    and an overflow is known a cycle later.
    """

    def __init__(self, config: NpuConfig, *, waiters: int, posters: Sequence[Engine]):
        self._config = config
        self._posters = posters
        super().__init__(
            {
                "wait": In(WaitPort).array(waiters),
                "post": In(PostStream).array(len(posters)),
                "overflow": Out(Overflow),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg, bits = self._config, self._config.sem_addr_bits
        held = counts(m, platform, semaphores=cfg.semaphores, bits=cfg.sem_bits)

        taking, take_sem, take_amount = Signal(), Signal(bits), Signal(AMOUNT)
        taken, grants = Const(0, 1), []
        ports = [_held(m, port) for port in self.wait] if held.far else self.wait
        for i, port in enumerate(ports):
            ok, grant = Signal(name=f"ok_{i}"), Signal(name=f"grant_{i}")
            # What was granted in the cycle before is not off the count yet.
            known = ~(taking & (take_sem == port.sem[:bits]))
            enough = held.of(port.sem[:bits]) >= port.amount
            able = port.valid & held.ready & ~port.grant & known & enough
            m.d.comb += [ok.eq(able), grant.eq(ok & ~taken)]
            m.d.sync += port.grant.eq(grant)
            taken = taken | ok
            grants.append(grant)
        m.d.sync += taking.eq(taken)
        # Where nothing is granted they are 0 and nobody looks: to keep them would be a stage more.
        m.d.sync += [
            take_sem.eq(_of_granted(grants, [port.sem[:bits] for port in ports])),
            take_amount.eq(_of_granted(grants, [port.amount for port in ports])),
        ]

        post, posted, poster = self._arbitrate(m, held)
        total = Signal(self._config.sem_bits + 1)
        same = Signal()
        m.d.comb += [
            same.eq(taking & (take_sem == post.sem[:bits])),
            total.eq(held.of(post.sem[:bits]) + post.amount - Mux(same, take_amount, 0)),
        ]
        domain = m.d.sync if held.far else m.d.comb
        domain += [
            self.overflow.strobe.eq(posted & total[-1]),
            self.overflow.index.eq(post.index),
            self.overflow.engine.eq(poster),
        ]
        check(m, platform, sum(grants) <= 1, "semaphores: two grants in a cycle")
        if checking(platform):
            enough = ~taking | (held.of(take_sem) >= take_amount)
            check(m, platform, enough, "semaphores: more taken than there is")
        took = taking, take_sem, take_amount
        held.changes(m, took, (posted, post.sem[:bits], post.amount), total)
        return m

    def _arbitrate(self, m: Module, held):
        """Round robin over the posters once the counts are `held`: the post taken a cycle ago,
        whether there is one, and whose.

        On an FPGA, where the way from a poster and back is long, a poster is chosen in one cycle
        and served in the next.
        """
        n = len(self.post)
        may = [held.ready & ~port.ready if held.far else held.ready for port in self.post]
        valid = Cat(port.valid & each for port, each in zip(self.post, may, strict=True))
        turn = Signal(range(n))
        chosen = Signal(range(n))
        m.d.comb += chosen.eq(turn)
        with m.Switch(turn):
            for t in range(n):
                with m.Case(t):
                    for k in reversed(range(1, n + 1)):
                        with m.If(valid[(t + k) % n]):
                            m.d.comb += chosen.eq((t + k) % n)
        serves, ready, any_post = chosen, held.ready, valid.any()
        if held.far:
            serves, ready = Signal.like(chosen, name="serves"), Signal(name="serving")
            m.d.sync += [serves.eq(chosen), ready.eq(any_post)]
        post, posted, poster = Signal(post_layout), Signal(), Signal.like(self.overflow.engine)
        m.d.sync += posted.eq(ready if held.far else any_post)
        with m.Switch(serves):
            for i, (port, engine) in enumerate(zip(self.post, self._posters, strict=True)):
                with m.Case(i):
                    m.d.comb += port.ready.eq(ready)
                    m.d.sync += [post.eq(port.payload), poster.eq(engine)]
        with m.If(any_post):
            m.d.sync += turn.eq(chosen)
        return post, posted, poster


def _held(m: Module, port):
    """A port of registers for what `port` asks, as the way to the counts of an FPGA is long."""
    asked = WaitPort.create()
    m.d.comb += port.grant.eq(asked.grant)
    with m.If(~asked.valid):
        # What is asked for in the cycle of a grant does not count.
        m.d.sync += asked.valid.eq(port.valid & ~asked.grant)
        m.d.sync += [asked.sem.eq(port.sem), asked.amount.eq(port.amount)]
    with m.Elif(asked.grant):
        m.d.sync += asked.valid.eq(0)
    return asked


def _of_granted(grants: Sequence[Signal], values: Sequence[Value]) -> Value:
    """The value of the port that is granted, 0 if none is."""
    return reduce(or_, [Mux(grant, value, 0) for grant, value in zip(grants, values, strict=True)])

"""Counting semaphores: one take and one post a cycle, arbitrated."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped

from hw_gen.blocks.choose import chosen_of
from hw_gen.blocks.semaphore_tables import SemaphoreTables
from hw_gen.checks import check
from hw_gen.interfaces import semaphore_ports
from hw_gen.layouts import AMOUNT, post_layout
from hw_gen.platform import asks_for
from spec.config import NpuConfig
from spec.isa import Engine


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
    works : something changes, now or some cycles later. A wait that lasts changes nothing.

    Timing: a post is visible to waiters two cycles later, their grant in the one after that. A
    semaphore is taken from every other cycle at most. On an FPGA: see `SemaphoreTables`.
    """

    def __init__(self, config: NpuConfig, *, waiters: int, posters: Sequence[Engine]):
        self._config = config
        self._posters = posters
        super().__init__({**semaphore_ports(waiters, len(posters)), "works": Out(1)})

    def elaborate(self, platform):
        m = Module()
        if asks_for(platform, "for_fpga"):
            m.submodules.tables = tables = SemaphoreTables(
                self._config, waiters=len(self.wait), posters=self._posters
            )
            for ours, theirs in zip(_ports(self), _ports(tables), strict=True):
                connect(m, flipped(ours), theirs)
            return m
        count = Array(
            Signal(self._config.sem_bits, name=f"count_{i}") for i in range(self._config.semaphores)
        )
        bits = self._config.sem_addr_bits

        taking, take_sem, take_amount = Signal(), Signal(bits), Signal(AMOUNT)
        taken, grants = Const(0, 1), []
        for i, port in enumerate(self.wait):
            ok, grant = Signal(name=f"ok_{i}"), Signal(name=f"grant_{i}")
            # What was granted in the cycle before is not off the count yet.
            known = ~(taking & (take_sem == port.sem[:bits]))
            enough = count[port.sem[:bits]] >= port.amount
            m.d.comb += [ok.eq(port.valid & ~port.grant & known & enough), grant.eq(ok & ~taken)]
            m.d.sync += port.grant.eq(grant)
            taken = taken | ok
            grants.append(grant)
        posts = Cat(port.valid for port in self.post)
        m.d.comb += self.works.eq(taken | posts.any())
        m.d.sync += taking.eq(taken)
        # Where nothing is granted they are 0 and nobody looks: to keep them would be a stage more.
        m.d.sync += [
            take_sem.eq(chosen_of(grants, [port.sem[:bits] for port in self.wait])),
            take_amount.eq(chosen_of(grants, [port.amount for port in self.wait])),
        ]

        post, posted = self._arbitrate(m)
        total = Signal(self._config.sem_bits + 1)
        same = Signal()
        m.d.comb += [
            same.eq(taking & (take_sem == post.sem[:bits])),
            total.eq(count[post.sem[:bits]] + post.amount - Mux(same, take_amount, 0)),
            self.overflow.strobe.eq(posted & total[-1]),
            self.overflow.index.eq(post.index),
        ]
        check(m, platform, sum(grants) <= 1, "semaphores: two grants in a cycle")
        enough = ~taking | (count[take_sem] >= take_amount)
        check(m, platform, enough, "semaphores: more taken than there is")
        with m.If(taking):
            m.d.sync += count[take_sem].eq(count[take_sem] - take_amount)
        with m.If(posted):
            m.d.sync += count[post.sem[:bits]].eq(total)
        return m

    def _arbitrate(self, m: Module):
        """Round robin over the posters: the post chosen a cycle ago, and whether there is one."""
        n = len(self.post)
        valid = Cat(port.valid for port in self.post)
        turn = Signal(range(n))
        chosen = Signal(range(n))
        m.d.comb += chosen.eq(turn)
        with m.Switch(turn):
            for t in range(n):
                with m.Case(t):
                    for k in reversed(range(1, n + 1)):
                        with m.If(valid[(t + k) % n]):
                            m.d.comb += chosen.eq((t + k) % n)
        post, posted = Signal(post_layout), Signal()
        m.d.sync += posted.eq(valid.any())
        with m.Switch(chosen):
            for i, (port, engine) in enumerate(zip(self.post, self._posters, strict=True)):
                with m.Case(i):
                    m.d.comb += port.ready.eq(1)
                    m.d.sync += [post.eq(port.payload), self.overflow.engine.eq(engine)]
        with m.If(valid.any()):
            m.d.sync += turn.eq(chosen)
        return post, posted


def _ports(block: Any) -> list:
    """The interfaces of `semaphore_ports`."""
    return [*block.wait, *block.post, block.overflow]

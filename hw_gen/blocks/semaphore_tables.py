"""Semaphores in the small memories of an FPGA: one wait and one post are looked at in a cycle."""

from collections.abc import Sequence

from amaranth.hdl import *
from amaranth.lib import memory, wiring

from hw_gen.blocks.choose import chosen_of, in_turn
from hw_gen.checks import check, checking
from hw_gen.interfaces import semaphore_ports
from hw_gen.layouts import AMOUNT, post_layout
from spec.config import NpuConfig
from spec.isa import Engine


class SemaphoreTables(wiring.Component):
    """What `Semaphores` are, with the same parameters and members, for fewer tables.

    One memory has what was posted to each semaphore, one what was taken from it. The count is their
    difference, as both count modulo the same number. So each has one writer, and as many readers as
    copies. They are cleared after a reset, one semaphore a cycle.

    Timing: waiters are looked at in turn, one a cycle, and each every other cycle at most. Their
    grant comes two cycles after the first look that finds enough. A poster is served in the cycle
    after it was chosen. An overflow is known a cycle later than in `Semaphores`.
    """

    def __init__(self, config: NpuConfig, *, waiters: int, posters: Sequence[Engine]):
        self._config = config
        self._posters = posters
        super().__init__(semaphore_ports(waiters, len(posters)))

    def elaborate(self, platform):
        m = Module()
        config, bits = self._config, self._config.sem_addr_bits
        self._posted, self._taken = self._tables(m)
        clear, cleared = Signal(range((1 << bits) + 1)), Signal()
        m.d.comb += cleared.eq(clear[bits])
        with m.If(~cleared):
            m.d.sync += clear.eq(clear + 1)

        taking, take_sem, take_amount = self._take(m, platform, cleared)
        posted, post, poster = self._post(m, cleared)
        sem, total = post.sem[:bits], Signal(config.sem_bits + 1)
        same = taking & (take_sem == sem)
        m.d.comb += total.eq(self._count(m, sem) + post.amount - Mux(same, take_amount, 0))
        m.d.sync += [
            self.overflow.strobe.eq(posted & total[-1]),
            self.overflow.index.eq(post.index),
            self.overflow.engine.eq(poster),
        ]
        for table, now, at, amount in (
            (self._taken, taking, take_sem, take_amount),
            (self._posted, posted, sem, post.amount),
        ):
            port = table.write_port()
            m.d.comb += [
                port.en.eq(now | ~cleared),
                port.addr.eq(Mux(cleared, at, clear)),
                port.data.eq(Mux(cleared, self._read(m, table, at) + amount, 0)),
            ]
        return m

    def _tables(self, m: Module) -> list[memory.Memory]:
        shape, words = unsigned(self._config.sem_bits), 1 << self._config.sem_addr_bits
        tables: list[memory.Memory] = []
        for name in ("posted", "taken"):
            table: memory.Memory = memory.Memory(shape=shape, depth=words, init=[])
            m.submodules[name] = table
            tables.append(table)
        return tables

    def _read(self, m: Module, table: memory.Memory, sem: Value) -> Value:
        port = table.read_port(domain="comb")
        m.d.comb += port.addr.eq(sem)
        return port.data

    def _count(self, m: Module, sem: Value) -> Value:
        """The count of `sem`, by readers of its own."""
        posted, taken = (self._read(m, table, sem) for table in (self._posted, self._taken))
        return (posted - taken)[: self._config.sem_bits]

    def _take(self, m: Module, platform, cleared: Value) -> tuple[Value, Value, Value]:
        """Whether an amount comes off a count now, of which semaphore, and which amount."""
        bits = self._config.sem_addr_bits
        looks = Signal(len(self.wait))
        may = [
            port.valid & ~port.grant & ~look & cleared
            for port, look in zip(self.wait, looks, strict=True)
        ]
        chosen = in_turn(m, "wait", Cat(may))
        sem, amount = Signal(bits), Signal(AMOUNT)
        m.d.sync += [
            looks.eq(chosen),
            sem.eq(chosen_of(chosen, [port.sem[:bits] for port in self.wait])),
            amount.eq(chosen_of(chosen, [port.amount for port in self.wait])),
        ]
        taking, take_sem, take_amount = Signal(), Signal(bits), Signal(AMOUNT)
        # What was granted in the cycle before is not off the count yet.
        known, grant = ~(taking & (take_sem == sem)), Signal()
        m.d.comb += grant.eq(looks.any() & known & (self._count(m, sem) >= amount))
        m.d.sync += [taking.eq(grant), take_sem.eq(sem), take_amount.eq(amount)]
        m.d.sync += [
            port.grant.eq(grant & look) for port, look in zip(self.wait, looks, strict=True)
        ]
        if checking(platform):
            enough = ~taking | (self._count(m, take_sem) >= take_amount)
            check(m, platform, enough, "semaphores: more taken than there is")
        return taking, take_sem, take_amount

    def _post(self, m: Module, cleared: Value) -> tuple[Value, Value, Value]:
        """Whether there is a post now, which, and whose."""
        serves = Signal(len(self.post))
        may = [port.valid & ~serve & cleared for port, serve in zip(self.post, serves, strict=True)]
        m.d.sync += serves.eq(in_turn(m, "post", Cat(may)))
        m.d.comb += [port.ready.eq(serve) for port, serve in zip(self.post, serves, strict=True)]
        posted, post, poster = Signal(), Signal(post_layout), Signal.like(self.overflow.engine)
        m.d.sync += [
            posted.eq(serves.any()),
            post.eq(chosen_of(serves, [port.payload.as_value() for port in self.post])),
            poster.eq(chosen_of(serves, [Const(e, poster.shape()) for e in self._posters])),
        ]
        return posted, post, poster

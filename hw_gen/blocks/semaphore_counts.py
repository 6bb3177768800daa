"""What the semaphores hold: registers, or the small memories of an FPGA."""

from amaranth.hdl import *
from amaranth.lib import memory
from amaranth.utils import ceil_log2

from hw_gen.platform import asks_for


def counts(m: Module, platform, *, semaphores: int, bits: int) -> "RegisterCounts | TableCounts":
    """`semaphores` counters of `bits` bits: `ready`; `of` one, at any time; and what `changes`."""
    kind = TableCounts if asks_for(platform, "for_fpga") else RegisterCounts
    return kind(m, semaphores, bits)


class RegisterCounts:
    """A register for each semaphore."""

    ready = Const(1, 1)
    """They have begun at 0."""

    far = False
    """Reading one takes so long that what is asked for is in registers before."""

    def __init__(self, m: Module, semaphores: int, bits: int):
        self._count = Array(Signal(bits, name=f"count_{i}") for i in range(semaphores))

    def of(self, sem: Value) -> Value:
        """The count of `sem`."""
        return self._count[sem]

    def changes(self, m: Module, taken: tuple, posted: tuple, total: Value) -> None:
        """taken, posted : whether, semaphore and amount. total : the new count of what was posted
        to, which takes part in both.
        """
        taking, sem, amount = taken
        with m.If(taking):
            m.d.sync += self._count[sem].eq(self._count[sem] - amount)
        posting, sem, _ = posted
        with m.If(posting):
            m.d.sync += self._count[sem].eq(total)


class TableCounts:
    """A memory with what was posted to each semaphore, and one with what was taken from it.

    The count is their difference, as they count modulo the same number. So each has one writer, and
    as many readers as there are: memories of tables are copied. They are cleared after a reset, one
    semaphore a cycle.
    """

    far = True

    def __init__(self, m: Module, semaphores: int, bits: int):
        self._m = m
        self._address = ceil_log2(semaphores)
        self._bits = bits
        shape, words = unsigned(bits), 1 << self._address
        self._posted: memory.Memory = memory.Memory(shape=shape, depth=words, init=[])
        self._taken: memory.Memory = memory.Memory(shape=shape, depth=words, init=[])
        m.submodules.posted, m.submodules.taken = self._posted, self._taken
        self._cleared = Signal(range(words + 1))
        self.ready = self._cleared[self._address]
        with m.If(~self.ready):
            m.d.sync += self._cleared.eq(self._cleared + 1)

    def of(self, sem: Value) -> Value:
        """The count of `sem`, which has ports of its own."""
        return (self._read(self._posted, sem) - self._read(self._taken, sem))[: self._bits]

    def _read(self, table: memory.Memory, sem: Value) -> Value:
        port = table.read_port(domain="comb")
        self._m.d.comb += port.addr.eq(sem)
        return port.data

    def changes(self, m: Module, taken: tuple, posted: tuple, total: Value) -> None:
        """See `RegisterCounts.changes`; the total is not stored."""
        for table, (now, sem, amount) in ((self._taken, taken), (self._posted, posted)):
            port = table.write_port()
            m.d.comb += [
                port.en.eq(now | ~self.ready),
                port.addr.eq(Mux(self.ready, sem, self._cleared)),
                port.data.eq(Mux(self.ready, self._read(table, sem) + amount, 0)),
            ]

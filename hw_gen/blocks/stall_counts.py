"""How often an engine was in each state, in a small memory, for FPGAs and simulators."""

from amaranth.hdl import *
from amaranth.lib import memory

from hw_gen.interfaces import STALL
from spec.memmap import Stall


class StallCounts:
    """A word for each `Stall` of one engine, which is only ever counted up, modulo 2^`bits`.

    An engine has one state a cycle, so that one adder serves all its words.

    stall : the state of a cycle. run : it counts. clear : every word is 0 again; goes first.
    """

    def __init__(
        self, m: Module, name: str, bits: int, *, stall: Value, run: Value, clear: Value
    ) -> None:
        self._m = m
        self._bits = bits
        depth = 1 << Shape.cast(STALL).width
        self._table: memory.Memory = memory.Memory(shape=unsigned(bits), depth=depth, init=[])
        m.submodules[name] = self._table
        # A memory cannot be cleared at once: which words have been written since.
        self._written = Signal(len(Stall), name=f"{name}_written")
        port = self._table.write_port()
        m.d.comb += [port.en.eq(run), port.addr.eq(stall), port.data.eq(self.of(stall) + 1)]
        with m.If(clear):
            m.d.sync += self._written.eq(0)
        with m.Elif(run):
            m.d.sync += self._written.bit_select(stall, 1).eq(1)

    def of(self, stall: Value) -> Value:
        """The count of `stall`."""
        port = self._table.read_port(domain="comb")
        self._m.d.comb += port.addr.eq(stall)
        return Mux(self._written.bit_select(stall, 1), port.data, Const(0, self._bits))

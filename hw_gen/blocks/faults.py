"""The first fault wins: cause, engine and instruction, and the halt that follows."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.interfaces import CAUSE, ENGINE, EngineStatus, Overflow
from hw_gen.layouts import INDEX_BITS
from spec.isa import Engine
from spec.memmap import Fault, Stall

_UNFINISHED = tuple(s for s in Stall if s is not Stall.IDLE)


class FaultUnit(wiring.Component):
    """Latches the first fault of a run; among those of one cycle the lowest engine's, then a
    semaphore overflow, then the watchdog.

    Members
    -------
    run : a program runs. clear : forget the fault.
    engines[e] : ``In(EngineStatus)``. overflow : ``In(Overflow)``.
    limit : cycles without any BUSY engine before WATCHDOG; 0: never.
    fault : latched; strobe : in the cycle before; cause, engine, index : of the latched fault.
    """

    run: In(1)
    clear: In(1)
    engines: In(EngineStatus).array(len(Engine))
    overflow: In(Overflow)
    limit: In(32)
    fault: Out(1)
    strobe: Out(1)
    cause: Out(CAUSE)
    engine: Out(ENGINE)
    index: Out(INDEX_BITS)

    def elaborate(self, platform):
        m = Module()
        cause, engine, index = Signal(CAUSE), Signal(ENGINE), Signal(INDEX_BITS)
        expired = self._watchdog(m)
        with m.If(expired):
            # Name the engine to look at: the first that waits for a semaphore, else for memory,
            # else that has any work. Fetch comes last: behind a full queue it waits for another.
            m.d.comb += [cause.eq(Fault.WATCHDOG), engine.eq(Engine.FETCH)]
            for reasons in (_UNFINISHED, (Stall.MEMORY,), (Stall.SEMAPHORE,)):
                for e in (Engine.FETCH, *reversed(list(Engine)[1:])):
                    here = Cat(self.engines[e].stall == reason for reason in reasons).any()
                    with m.If(here):
                        m.d.comb += [engine.eq(e), index.eq(self.engines[e].index)]
        with m.If(self.overflow.strobe):
            m.d.comb += [
                cause.eq(Fault.SEMAPHORE_OVERFLOW),
                engine.eq(self.overflow.engine),
                index.eq(self.overflow.index),
            ]
        for e in reversed(Engine):
            status = self.engines[e]
            with m.If(status.fault):
                m.d.comb += [cause.eq(status.cause), engine.eq(e), index.eq(status.fault_index)]
        m.d.comb += self.strobe.eq((cause != Fault.NONE) & self.run & ~self.fault)
        with m.If(self.clear):
            m.d.sync += [self.fault.eq(0), self.cause.eq(0), self.engine.eq(0), self.index.eq(0)]
        with m.Elif(self.strobe):
            m.d.sync += [
                self.fault.eq(1),
                self.cause.eq(cause),
                self.engine.eq(engine),
                self.index.eq(index),
            ]
        return m

    def _watchdog(self, m: Module) -> Value:
        quiet = Signal(32)
        busy = Cat(status.stall == Stall.BUSY for status in self.engines).any()
        with m.If(busy | ~self.run):
            m.d.sync += quiet.eq(0)
        with m.Elif(self.limit != 0):
            m.d.sync += quiet.eq(quiet + 1)
        return (self.limit != 0) & (quiet >= self.limit)

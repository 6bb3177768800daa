"""The first fault wins: cause, engine and instruction, and the halt that follows."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.interfaces import CAUSE, ENGINE, STALL, EngineStatus, Overflow
from hw_gen.layouts import INDEX_BITS
from spec.isa import Engine
from spec.memmap import Fault, Stall

_REPORT = data.StructLayout({"stall": STALL, "fault": 1, "cause": CAUSE, "fault_index": INDEX_BITS})
_UNFINISHED = tuple(s for s in Stall if s is not Stall.IDLE)


class FaultUnit(wiring.Component):
    """Latches the first fault of a run; among those of one cycle the lowest engine's, then a
    semaphore overflow, then the watchdog, then the limit of the run's time.

    Members
    -------
    run : a program runs. clear : forget the fault.
    engines[e] : ``In(EngineStatus)``. overflow : ``In(Overflow)``.
    limit : cycles without any BUSY engine before WATCHDOG; 0: never.
    start : the run begins; time : its cycles before TIME_LIMIT, taken then; 0: never.
    fault : latched; strobe : in the cycle before; cause, engine, index : of the latched fault.

    Timing: what engines report is registered first: `fault` rises two cycles later. In between
    their program may seem to be done, in the cycle of ``strobe`` at the latest. An overflow has
    been in a register of the semaphores: `fault` rises in the next cycle.
    """

    run: In(1)
    clear: In(1)
    engines: In(EngineStatus).array(len(Engine))
    overflow: In(Overflow)
    limit: In(32)
    start: In(1)
    time: In(32)
    fault: Out(1)
    strobe: Out(1)
    cause: Out(CAUSE)
    engine: Out(ENGINE)
    index: Out(INDEX_BITS)

    def elaborate(self, platform):
        m = Module()
        cause, engine, index = Signal(CAUSE), Signal(ENGINE), Signal(INDEX_BITS)
        engines, overflow = self._reported(m), self.overflow
        stuck, late = self._watchdog(m, engines), self._timer(m)
        # The engine is chosen first, and its index by that: an index is much wider.
        waiting, waits = self._waiting(m, engines)
        failed = Signal(ENGINE)
        for e in reversed(Engine):
            with m.If(engines[e].fault):
                m.d.comb += failed.eq(e)
        with m.If(Cat(status.fault for status in engines).any()):
            m.d.comb += engine.eq(failed)
            with m.Switch(failed):
                for e in Engine:
                    with m.Case(e):
                        m.d.comb += [cause.eq(engines[e].cause), index.eq(engines[e].fault_index)]
        with m.Elif(overflow.strobe):
            m.d.comb += [
                cause.eq(Fault.SEMAPHORE_OVERFLOW),
                engine.eq(overflow.engine),
                index.eq(overflow.index),
            ]
        with m.Elif(stuck | late):
            m.d.comb += [
                cause.eq(Mux(stuck, Fault.WATCHDOG, Fault.TIME_LIMIT)),
                engine.eq(waiting),
            ]
            with m.Switch(waiting):
                for e in Engine:
                    with m.Case(e):
                        m.d.comb += index.eq(Mux(waits, self.engines[e].index, 0))
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

    def _reported(self, m: Module):
        """What engines said in the cycle before."""
        engines = [Signal(_REPORT, name=f"last_{e.name.lower()}") for e in Engine]
        for last, now in zip(engines, self.engines, strict=True):
            m.d.sync += [last[name].eq(getattr(now, name)) for name, _ in last.shape()]
        return engines

    def _waiting(self, m: Module, engines) -> tuple[Value, Value]:
        """The engine to look at where nothing goes on, and whether there is one: the first that
        waits for a semaphore, else for memory, else that has any work. Fetch comes last: behind a
        full queue it waits for another.
        """
        waiting, waits = Signal(ENGINE, init=Engine.FETCH), Signal()
        for reasons in (_UNFINISHED, (Stall.MEMORY,), (Stall.SEMAPHORE,)):
            for e in (Engine.FETCH, *reversed(list(Engine)[1:])):
                with m.If(Cat(engines[e].stall == reason for reason in reasons).any()):
                    m.d.comb += [waiting.eq(e), waits.eq(1)]
        return waiting, waits

    def _timer(self, m: Module) -> Value:
        left, late = Signal(32), Signal()
        m.d.sync += late.eq(self.run & (left == 1))
        with m.If(self.start):
            m.d.sync += left.eq(self.time)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return late

    def _watchdog(self, m: Module, engines) -> Value:
        quiet = Signal(32)
        busy = Cat(status.stall == Stall.BUSY for status in engines).any()
        with m.If(busy | ~self.run):
            m.d.sync += quiet.eq(0)
        with m.Elif(self.limit != 0):
            m.d.sync += quiet.eq(quiet + 1)
        return (self.limit != 0) & (quiet >= self.limit)

"""A serial line: 8 data bits, no parity, one stop bit."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class UartReceiver(wiring.Component):
    """Bytes of a line.

    Parameters
    ----------
    divisor : clock cycles of a bit, at least 4.

    Members
    -------
    rx : the line, from outside of the clock domain. o : ``Out(stream)`` of bytes; one that is not
    taken before the next is there is lost.

    Timing: a bit is read in its middle. A byte is there in the middle of its stop bit; without a
    stop bit it is dropped, and the next one begins after the line was high.
    """

    def __init__(self, divisor: int):
        assert divisor >= 4
        self._divisor = divisor
        super().__init__({"rx": In(1), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        # The line is of no clock: its second register is the first that anything depends on.
        first, line = Signal(init=1), Signal(init=1)
        m.d.sync += [first.eq(self.rx), line.eq(first)]
        wait = Signal(range(self._divisor + self._divisor // 2))
        left = Signal(range(10))
        bits, broken = Signal(8), Signal()
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(left == 0):
            with m.If(line):
                m.d.sync += broken.eq(0)
            with m.Elif(~broken):  # the start bit, and half of the first one
                m.d.sync += [left.eq(9), wait.eq(self._divisor + self._divisor // 2 - 1)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Else():
            m.d.sync += [left.eq(left - 1), wait.eq(self._divisor - 1)]
            with m.If(left == 1):
                with m.If(line):
                    m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(bits)]
                with m.Else():
                    m.d.sync += broken.eq(1)
            with m.Else():
                m.d.sync += bits.eq(Cat(bits[1:], line))
        return m


class UartSender(wiring.Component):
    """Bytes to a line.

    Parameters
    ----------
    divisor : clock cycles of a bit.

    Members
    -------
    i : ``In(stream)`` of bytes. tx : the line.
    """

    def __init__(self, divisor: int):
        self._divisor = divisor
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1)})

    def elaborate(self, platform):
        m = Module()
        wait = Signal(range(self._divisor))
        bits = Signal(9, init=0x1FF)
        left = Signal(range(11))
        line = Signal(init=1)
        m.d.comb += [self.i.ready.eq(left == 0), self.tx.eq(line)]
        with m.If(left == 0), m.If(self.i.valid):
            m.d.sync += [
                *(line.eq(0), bits.eq(Cat(self.i.payload, 1))),
                *(left.eq(10), wait.eq(self._divisor - 1)),
            ]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Else():
            m.d.sync += [line.eq(bits[0]), bits.eq(Cat(bits[1:], 1))]
            m.d.sync += [left.eq(left - 1), wait.eq(self._divisor - 1)]
        return m

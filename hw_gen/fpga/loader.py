"""Commands on a serial line: memory and registers of the NPU from a host.

A command is nine bytes: a letter, an address and a number, both of 32 bits, lowest byte first.

    W address count    then `count` bytes for memory; answer: 06 when they are written
    R address count    answer: `count` bytes of memory
    w offset value     a register; answer: the bus's response, 00 if there is such a register
    r offset 0         answer: four bytes, and the response
    I 0 0              answer: "SYS1" and the bytes of memory that there are, 32 bits

Another letter is answered with 15 (hexadecimal), and the next byte begins a command: so 9 bytes of
zero bring any state of a line that lost bytes back to the beginning of a command, unless it waits
for the bytes of a W.
"""

import enum

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.fpga.memory import BytePort
from hw_gen.interfaces import axi_lite

ACKNOWLEDGED, REFUSED = 0x06, 0x15
MAGIC = b"SYS1"
HEADER = 9


class Letter(enum.IntEnum):
    """The first byte of each command."""

    WRITE_MEMORY = ord("W")
    READ_MEMORY = ord("R")
    WRITE_REGISTER = ord("w")
    READ_REGISTER = ord("r")
    IDENTIFY = ord("I")


class Loader(wiring.Component):
    """Obeys one command after the other.

    Parameters
    ----------
    bytes : of memory, for the answer to I.

    Members
    -------
    i, o : bytes from and to the line. memory : ``Out(BytePort)``. control : ``Out(axi_lite)``.
    """

    def __init__(self, bytes: int):
        self._bytes = bytes
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o": Out(stream.Signature(8)),
                "memory": Out(BytePort),
                "control": Out(axi_lite),
            }
        )

    def elaborate(self, platform):
        m = Module()
        letter, address, number = Signal(8), Signal(32), Signal(32)
        got = Signal(range(HEADER))
        answer, left = Signal(64), Signal(range(9))
        memory, control = self.memory, self.control
        m.d.comb += [
            memory.addr.eq(address),
            memory.w_data.eq(self.i.payload),
            control.awaddr.eq(address),
            control.araddr.eq(address),
            control.wdata.eq(number),
            control.wstrb.eq(0xF),
        ]

        def reply(value: Value | int, count: int) -> None:
            m.d.sync += [answer.eq(value), left.eq(count)]

        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    byte = self.i.payload
                    m.d.sync += Cat(letter, address, number).eq(
                        Cat(letter, address, number)[8:] | (byte << 64)
                    )
                    known = Cat(byte == x.value for x in Letter).any()
                    with m.If((got == 0) & ~known):
                        reply(REFUSED, 1)
                        m.next = "ANSWER"
                    with m.Elif(got == HEADER - 1):
                        m.d.sync += got.eq(0)
                        m.next = "OBEY"
                    with m.Else():
                        m.d.sync += got.eq(got + 1)
            with m.State("OBEY"), m.Switch(letter):
                with m.Case(Letter.WRITE_MEMORY):
                    m.next = "WRITE"
                with m.Case(Letter.READ_MEMORY):
                    m.next = "READ"
                with m.Case(Letter.WRITE_REGISTER):
                    m.d.sync += [control.awvalid.eq(1), control.wvalid.eq(1)]
                    m.next = "SET"
                with m.Case(Letter.READ_REGISTER):
                    m.d.sync += control.arvalid.eq(1)
                    m.next = "GET"
                with m.Default():
                    magic = int.from_bytes(MAGIC, "little")
                    reply(magic | self._bytes << 32, 8)
                    m.next = "ANSWER"
            with m.State("WRITE"):
                with m.If(number == 0):
                    reply(ACKNOWLEDGED, 1)
                    m.next = "ANSWER"
                with m.Else():
                    m.d.comb += [
                        memory.valid.eq(self.i.valid),
                        memory.write.eq(1),
                        self.i.ready.eq(memory.ready),
                    ]
                    with m.If(self.i.valid & memory.ready):
                        m.d.sync += [address.eq(address + 1), number.eq(number - 1)]
            with m.State("READ"):
                with m.If(number == 0):
                    m.next = "HEADER"
                with m.Else():
                    m.d.comb += memory.valid.eq(1)
                    with m.If(memory.ready):
                        m.d.sync += [address.eq(address + 1), number.eq(number - 1)]
                        m.next = "BYTE"
            with m.State("BYTE"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(memory.r_data)]
                with m.If(self.o.ready):
                    m.next = "READ"
            with m.State("SET"):
                with m.If(control.awready):
                    m.d.sync += control.awvalid.eq(0)
                with m.If(control.wready):
                    m.d.sync += control.wvalid.eq(0)
                m.d.comb += control.bready.eq(1)
                with m.If(control.bvalid):
                    reply(control.bresp, 1)
                    m.next = "ANSWER"
            with m.State("GET"):
                with m.If(control.arready):
                    m.d.sync += control.arvalid.eq(0)
                m.d.comb += control.rready.eq(1)
                with m.If(control.rvalid):
                    reply(Cat(control.rdata, control.rresp), 5)
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(answer[:8])]
                with m.If(self.o.ready):
                    m.d.sync += [answer.eq(answer >> 8), left.eq(left - 1)]
                    with m.If(left == 1):
                        m.next = "HEADER"
        return m

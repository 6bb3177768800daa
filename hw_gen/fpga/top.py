"""The top for an FPGA: the NPU, block RAM as its memory, and a serial line to a host."""

from dataclasses import dataclass

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw_gen.fpga.loader import Loader
from hw_gen.fpga.memory import BlockMemory
from hw_gen.fpga.uart import UartReceiver, UartSender
from hw_gen.top import Npu
from spec.config import ConfigError, NpuConfig

RESET_CYCLES = 16
"""From the end of the FPGA's configuration, which sets every register to its initial value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """What the top depends on. bytes: of memory, a power of two. divisor: cycles of a bit."""

    bytes: int
    divisor: int

    def __post_init__(self) -> None:
        if self.bytes < 1024 or self.bytes & (self.bytes - 1):
            raise ConfigError(f"memory of {self.bytes} bytes: must be a power of two from 1024 on")
        if self.divisor < 4:
            raise ConfigError(f"divisor {self.divisor}: a bit needs 4 clock cycles or more")


class FpgaTop(wiring.Component):
    """An NPU that a host uses by a serial line.

    Parameters
    ----------
    bytes : of memory, from address 0. divisor : clock cycles of a bit on the line.

    Members
    -------
    clk : the board's clock. rx, tx : the line. busy : a program runs. irq : the NPU's interrupt.
    """

    def __init__(self, config: NpuConfig, *, bytes: int, divisor: int):
        self._config = config
        self._bytes = bytes
        self._divisor = divisor
        super().__init__({"clk": In(1), "rx": In(1), "tx": Out(1), "busy": Out(1), "irq": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.domains.start = start = ClockDomain(reset_less=True)
        count = Signal(range(RESET_CYCLES + 1))
        with m.If(count != RESET_CYCLES):
            m.d.start += count.eq(count + 1)
        m.d.start += sync.rst.eq(count != RESET_CYCLES)
        m.d.comb += [sync.clk.eq(self.clk), start.clk.eq(self.clk)]

        m.submodules.npu = npu = Npu(self._config)
        m.submodules.memory = memory = BlockMemory(self._config, self._bytes)
        m.submodules.loader = loader = Loader(self._bytes)
        m.submodules.receiver = receiver = UartReceiver(self._divisor)
        m.submodules.sender = sender = UartSender(self._divisor)
        connect(m, npu.read, memory.read)
        connect(m, npu.write, memory.write)
        connect(m, loader.memory, memory.loader)
        connect(m, loader.control, npu.control)
        connect(m, receiver.o, loader.i)
        connect(m, loader.o, sender.i)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(sender.tx),
            self.irq.eq(npu.irq),
            self.busy.eq(npu.read.arvalid | npu.write.awvalid),
        ]
        return m

"""Soft reset: each block takes it from a register of its own."""

from amaranth.hdl import *

from hw_gen.blocks.copies import Copies
from hw_gen.platform import asks_for

PARTS = (
    *("vector_lanes", "depthwise_lanes", "array", "buffers"),
    *(f"{name}_seq" for name in ("load", "store", "main", "weights", "depthwise", "vector")),
)
"""Clock domains inside blocks, in RTL with idle clocks (`hw_gen.blocks.activity`)."""


RESETS = "reset_"
"""Begin of the names of the modules whose registers reset a block each."""
_BLOCKS = "blocks"
"""The clock domain of blocks whose registers have no other reset, on an FPGA."""


class SoftReset:
    """Blocks under a soft reset, a cycle after it.

    One gate that resets every register of the machine drives a tree of buffers, which costs more of
    a cycle than any sum (decision 47). So a block is out of reset a cycle later than `asked`: see
    `Registers` for what START has to wait for. On an FPGA it takes the reset of the machine from
    there, too: a wire to all registers of the device takes longer than anything else.
    """

    def __init__(self, m: Module, platform, asked: Value):
        """`asked` resets all blocks."""
        self._m = m
        self._platform = platform
        self._asked = asked
        self._blocks = 0
        self._alone = asks_for(platform, "for_fpga")
        if self._alone:
            self._asked = asked | ResetSignal()
            m.domains += ClockDomain(_BLOCKS)
            m.d.comb += [ClockSignal(_BLOCKS).eq(ClockSignal()), ResetSignal(_BLOCKS).eq(0)]

    def signal(self, also: Value | int = 0) -> Value:
        """A new register of the reset; `also` resets, too."""
        name = f"{RESETS}{self._blocks}"
        self._blocks += 1
        return Copies(self._m, self._platform, name, self._asked | also, 1)[0]

    def __call__(self, block, also: Value | int = 0):
        """The block, with a reset."""
        return self.inserted(block, self.signal(also))

    def inserted(self, block, reset: Value):
        """The block with `reset`, also where parts of it have a clock of their own."""
        block = ResetInserter(dict.fromkeys(("sync", *PARTS), reset))(block)
        return DomainRenamer(_BLOCKS)(block) if self._alone else block

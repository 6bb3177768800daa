"""Energies that no library of cells says: memories on the chip and DRAM.

Horowitz, *Computing's Energy Problem*, ISSCC 2014, figure 1.1.9 (45 nm, 0.9 V): reading 64 bits
takes 10 pJ from a memory of 8 KiB, 20 pJ from 32 KiB, 100 pJ from 1 MiB, and 1.3 to 2.6 nJ from
DRAM. On the chip that is close to the square root of the size. A write takes as much as a read.
"""

from dataclasses import dataclass

from sw.energy.cells import EnergyLibrary
from sw.synth.library import Library

REFERENCE_BITS = 8 * 1024 * 8
REFERENCE_PJ_PER_BIT = 10 / 64
REFERENCE_INPUT_PF = 0.0016
"""Input of the smallest NAND2 of an open 45 nm library (Nangate's), which stands for that node."""
REFERENCE_VOLT = 0.9
DRAM_PJ_PER_BYTE = 1300 / 8
"""The lower end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEnergy:
    """sram_pj_per_bit: of a bit read or written in a memory of 64 Kibit; dram_pj_per_byte."""

    sram_pj_per_bit: float
    dram_pj_per_byte: float

    def access(self, bits: int, width: int) -> float:
        """Picojoules of an access to a word of `width` in a memory of `bits`."""
        return self.sram_pj_per_bit * width * (bits / REFERENCE_BITS) ** 0.5


def scaled_to(library: Library, energies: EnergyLibrary) -> float:
    """Picojoules of a bit by the reference, scaled as the energy of a NAND2's input: C · V²."""
    pin = library.nand2.inputs[0]
    own = sum(library.nand2.capacitance[pin]) / 2 * energies.volt**2
    return REFERENCE_PJ_PER_BIT * own / (REFERENCE_INPUT_PF * REFERENCE_VOLT**2)

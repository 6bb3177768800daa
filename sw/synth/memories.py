"""Memories as macros: their bits, and the delays that stand for those of a memory compiler.

No library of cells says how fast a memory is. What follows are round figures in fan-outs of four
(FO4) of the library, so that they scale with it.
"""

from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from sw.synth.netlist import CONSTANTS, MEMORY, Macro, Nets

SRAM_SETUP, SRAM_READ, SRAM_READ_PER_BIT = 5.0, 10.0, 2.0
"""Of `systola_sram`, in FO4: inputs before the edge; data after it, and for each address bit."""
SMALL_SETUP, SMALL_READ, SMALL_READ_PER_BIT = 2.0, 2.0, 2.0
"""The same of other memories: registers, and a multiplexer of two FO4 for each address bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroPorts:
    """Timing of a memory in FO4: setup of inputs, delay of outputs, and combinational reads."""

    clocks: list[int]
    setups: list[tuple[Nets, float]]
    outputs: list[tuple[Nets, float]]
    through: list[tuple[Nets, Nets, float]]


def parameter(macro: Macro, name: str) -> int:
    """A number that Yosys wrote in binary, or as a number."""
    return number(macro.parameters[name])


def number(value: Any) -> int:
    return value if isinstance(value, int) else int(str(value).replace("x", "0"), 2)


def words(macro: Macro) -> int:
    return parameter(macro, "SIZE" if macro.kind == MEMORY else "DEPTH")


def bits(macro: Macro) -> int:
    """Number of bits that the memory holds."""
    return words(macro) * parameter(macro, "WIDTH")


def ports(macro: Macro) -> MacroPorts:
    """What the timing analysis takes for the memory."""
    address_bits = ceil(log2(max(2, words(macro))))
    return _small(macro, address_bits) if macro.kind == MEMORY else _sram(macro, address_bits)


def _sram(macro: Macro, address_bits: int) -> MacroPorts:
    inputs = [name for name in macro.ports if name not in ("clk", "r_data")]
    return MacroPorts(
        clocks=macro.ports["clk"].tolist(),
        setups=[(macro.ports[name], SRAM_SETUP) for name in inputs],
        outputs=[(macro.ports["r_data"], SRAM_READ + SRAM_READ_PER_BIT * address_bits)],
        through=[],
    )


def _small(macro: Macro, address_bits: int) -> MacroPorts:
    """A `$mem_v2`: each read port is clocked or not; an unclocked one is a way through."""
    access = SMALL_READ + SMALL_READ_PER_BIT * address_bits
    read_ports = parameter(macro, "RD_PORTS")
    clocked = parameter(macro, "RD_CLK_ENABLE")
    # Yosys writes an enable for each bit; a memory has one input for bits that share theirs.
    setups = [(np.unique(macro.ports["WR_EN"]), SMALL_SETUP)]
    setups += [(macro.ports[name], SMALL_SETUP) for name in ("WR_ADDR", "WR_DATA")]
    outputs, through = [], []
    for port in range(read_ports):
        address = _part(macro.ports["RD_ADDR"], port, read_ports)
        data = _part(macro.ports["RD_DATA"], port, read_ports)
        if clocked >> port & 1:
            setups.append((address, access))
            setups.append((_part(macro.ports["RD_EN"], port, read_ports), SMALL_SETUP))
            outputs.append((data, SMALL_READ))
        else:
            through.append((address, data, access))
            outputs.append((data, SMALL_READ + access))
    clocks = [
        int(net) for name in ("RD_CLK", "WR_CLK") for net in macro.ports[name] if net >= CONSTANTS
    ]
    return MacroPorts(clocks=clocks, setups=setups, outputs=outputs, through=through)


def _part(nets: Nets, port: int, ports: int) -> Nets:
    width = len(nets) // ports
    return nets[port * width : (port + 1) * width]

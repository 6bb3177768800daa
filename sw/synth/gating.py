"""Clock gates in a netlist: which net enables the clock of each flip-flop."""

from dataclasses import dataclass

import numpy as np

from sw.synth.errors import SynthError
from sw.synth.library import Library
from sw.synth.netlist import CONSTANTS, Netlist, Nets

ALWAYS = 1
"""The constant 1: the enable of a clock that nothing gates."""


@dataclass(frozen=True, slots=True)
class ClockGates:
    """How many clock gates a netlist has, and how many of its flip-flops are behind them."""

    gates: int
    gated: int
    flip_flops: int

    def to_json(self) -> dict[str, int]:
        return {"gates": self.gates, "gated": self.gated, "flip_flops": self.flip_flops}


def clock_enables(netlist: Netlist, library: Library) -> Nets:
    """Of every net, the net that enables it as a clock; `ALWAYS` where no gate drives it.

    `SynthError` for a gate behind another one.
    """
    found = np.full(netlist.nets, ALWAYS, np.int32)
    clocks = [np.zeros(0, np.int32)]
    for kind, gates in netlist.gates.items():
        pins = library.cells[kind].clock_gate
        if pins is not None:
            at = gates.pins.index
            found[gates.nets[:, at(pins.output)]] = gates.nets[:, at(pins.enable)]
            clocks.append(gates.nets[:, at(pins.clock)])
    found[:CONSTANTS] = ALWAYS
    if (found[np.concatenate(clocks)] != ALWAYS).any():
        raise SynthError("the netlist has a clock gate behind another one, which is not read")
    return found


def gated_clocks(netlist: Netlist, library: Library) -> ClockGates:
    """The clock gates of a netlist, counted."""
    enables = clock_enables(netlist, library)
    gates = gated = total = 0
    for kind, rows in netlist.gates.items():
        cell = library.cells[kind]
        if cell.clock_gate:
            gates += len(rows.nets)
        elif cell.flip_flop:
            clocks = rows.nets[:, rows.pins.index(cell.clock)]
            gated += int((enables[clocks] != ALWAYS).sum())
            total += len(clocks)
    return ClockGates(gates=gates, gated=gated, flip_flops=total)

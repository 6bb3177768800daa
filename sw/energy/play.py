"""Plays states of the RTL on the netlist: every gate's value in cycles that follow each other.

A bit of a word is one sample, so that a gate is worked out for 64 samples at once. No delays: a net
changes at most once a cycle, so glitches are not in it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sw.energy.states import Words
from sw.synth import memories
from sw.synth.boolean import Evaluate, evaluator
from sw.synth.errors import SynthError
from sw.synth.gating import clock_enables
from sw.synth.library import Cell, Library
from sw.synth.netlist import CONSTANTS, SRAM, Macro, Netlist, Nets

ONES = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Gates of one type at one depth: rows of nets by pin."""

    outputs: list[tuple[int, Evaluate]]
    inputs: tuple[str, ...]
    nets: Nets


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipFlops:
    """Registers of one type. outputs: columns of nets, and what their bits are flipped by.

    enables: the net of each register that enables its clock.
    """

    nets: Nets
    enables: Nets
    inputs: tuple[str, ...]
    next_state: Evaluate
    outputs: list[tuple[int, np.uint64]]

    def state(self, values: Words) -> Words:
        """What the registers hold, by the first of their outputs that leads anywhere."""
        state = np.zeros((len(self.nets), values.shape[1]), np.uint64)
        for column, flip in reversed(self.outputs):
            rows = self.nets[:, column] >= CONSTANTS
            state[rows] = values[self.nets[rows, column]] ^ flip
        return state


class Player:
    """A netlist in the order in which its gates are worked out.

    values : [nets, words] of the present cycle; rows 0 and 1 are the constants.
    """

    def __init__(self, netlist: Netlist, library: Library) -> None:
        self.netlist = netlist
        self.flip_flops = list(_flip_flops(netlist, library))
        self._steps = list(_ordered(netlist, library))
        self._ties = dict(_ties(netlist, library))

    def start(self, words: int) -> npt.NDArray[np.uint64]:
        """Values before anything is known: all 0 but what the netlist ties to 1."""
        values = np.zeros((self.netlist.nets, words), np.uint64)
        values[1] = ONES
        for net, high in self._ties.items():
            values[net] = ONES if high else 0
        return values

    def settle(self, values: npt.NDArray[np.uint64]) -> None:
        """Work out every gate from registers, memories and inputs, in place."""
        for step in self._steps:
            pins = {name: values[step.nets[:, i]] for i, name in enumerate(step.inputs)}
            pins["1"] = ONES
            for column, evaluate in step.outputs:
                values[step.nets[:, column]] = evaluate(pins)
        values[0] = 0  # where outputs lead that nobody reads

    def clock(self, values: npt.NDArray[np.uint64]) -> None:
        """The clock's edge, in place: registers take their next state. Memories are not played."""
        taken = []
        for flip_flop in self.flip_flops:
            pins = {name: values[flip_flop.nets[:, i]] for i, name in enumerate(flip_flop.inputs)}
            clocked = values[flip_flop.enables]
            state = flip_flop.next_state({**pins, "1": ONES})
            taken.append((state & clocked) | (flip_flop.state(values) & ~clocked))
        for flip_flop, state in zip(self.flip_flops, taken, strict=True):
            for column, flip in flip_flop.outputs:
                values[flip_flop.nets[:, column]] = state ^ flip
        values[0] = 0

    def unknown(self, known: Nets, words: int) -> npt.NDArray[np.uint64]:
        """Bits of which the `known` nets do not tell the value: of other registers and memories."""
        unknown = np.zeros((self.netlist.nets, words), np.uint64)
        for flip_flop in self.flip_flops:
            unknown[flip_flop.nets[:, [column for column, _ in flip_flop.outputs]]] = ONES
        for macro in self.netlist.macros:
            unknown[memory_data(macro)] = ONES
        self.learn(unknown, known)
        return unknown

    def learn(self, unknown: npt.NDArray[np.uint64], known: Nets) -> None:
        """These nets are known now, and so is a register's other output; in place."""
        unknown[known] = 0
        for flip_flop in self.flip_flops:
            outputs = flip_flop.nets[:, [column for column, _ in flip_flop.outputs]]
            told = ((outputs >= CONSTANTS) & ~unknown[outputs].any(2)).any(1)
            unknown[outputs[told]] = 0
        unknown[:CONSTANTS] = 0

    def settle_unknown(self, unknown: npt.NDArray[np.uint64]) -> None:
        """A gate of which an input is unknown gives nothing known; in place."""
        for step in self._steps:
            inputs = len(step.inputs)
            found = np.bitwise_or.reduce(unknown[step.nets[:, :inputs]], axis=1)
            for column, _ in step.outputs:
                unknown[step.nets[:, column]] = found
        unknown[:CONSTANTS] = 0

    def clock_unknown(self, unknown: npt.NDArray[np.uint64], values: Words) -> None:
        """The clock's edge, in place. A register behind a closed gate stays unknown."""
        taken = []
        for flip_flop in self.flip_flops:
            outputs = flip_flop.nets[:, [column for column, _ in flip_flop.outputs]]
            inputs = unknown[flip_flop.nets[:, : len(flip_flop.inputs)]]
            clocked, held = (
                values[flip_flop.enables],
                np.bitwise_or.reduce(unknown[outputs], axis=1),
            )
            new = np.bitwise_or.reduce(inputs, axis=1)
            state = (new & clocked) | (held & ~clocked) | unknown[flip_flop.enables]
            taken.append((outputs, state))
        for outputs, state in taken:
            unknown[outputs] = state[:, None]
        unknown[:CONSTANTS] = 0

    def take(self, values: npt.NDArray[np.uint64], nets: Nets, real: Words) -> None:
        """Give these nets their values, and a register's other output what follows from that."""
        known = np.zeros(len(values), bool)
        known[nets] = True
        known[:CONSTANTS] = False
        values[nets] = real
        for flip_flop in self.flip_flops:
            for column, flip in flip_flop.outputs:
                rows = flip_flop.nets[known[flip_flop.nets[:, column]]]
                for other, other_flip in flip_flop.outputs:
                    if other != column:
                        values[rows[:, other]] = values[rows[:, column]] ^ flip ^ other_flip
        values[0] = 0


def _functions(cell: Cell) -> list[tuple[int, Evaluate]]:
    pins = cell.inputs + cell.outputs
    return [(pins.index(name), evaluator(text)) for name, text in cell.functions.items()]


def _flip_flops(netlist: Netlist, library: Library) -> Iterator[FlipFlops]:
    clock_enable = clock_enables(netlist, library)
    for kind, gates in netlist.gates.items():
        cell = library.cells[kind]
        if cell.flip_flop:
            high = dict(zip(cell.state, (ONES, np.uint64(0)), strict=False)) | {"1": ONES}
            yield FlipFlops(
                nets=gates.nets,
                enables=clock_enable[gates.nets[:, gates.pins.index(cell.clock)]],
                inputs=cell.inputs,
                next_state=evaluator(cell.next_state),
                outputs=[(at, evaluate(high) ^ ONES) for at, evaluate in _functions(cell)],
            )


def _ties(netlist: Netlist, library: Library) -> Iterator[tuple[int, bool]]:
    """Nets that a cell without inputs holds."""
    for kind, gates in netlist.gates.items():
        cell = library.cells[kind]
        if not cell.inputs and not cell.sequential:
            for column, evaluate in _functions(cell):
                high = bool(evaluate({"1": 1}))
                yield from ((int(net), high) for net in gates.nets[:, column])


def _ordered(netlist: Netlist, library: Library) -> Iterator[_Step]:
    """Combinational gates, each after all that it depends on."""
    waiting = {
        kind: gates.nets
        for kind, gates in netlist.gates.items()
        if library.cells[kind].inputs and not library.cells[kind].sequential
    }
    known = np.ones(netlist.nets, bool)
    for kind, nets in waiting.items():
        known[nets[:, len(library.cells[kind].inputs) :]] = False
    known[0] = True
    while waiting:
        steps = []
        for kind, nets in list(waiting.items()):
            cell = library.cells[kind]
            inputs = len(cell.inputs)
            ready = known[nets[:, :inputs]].all(1)
            if not ready.any():
                continue
            functions = _functions(cell)
            steps.append(_Step(outputs=functions, inputs=cell.inputs, nets=nets[ready]))
            if ready.all():
                del waiting[kind]
            else:
                waiting[kind] = nets[~ready]
        if not steps:
            raise SynthError("the netlist has a combinational loop: its values are undefined")
        for step in steps:
            known[step.nets[:, len(step.inputs) :]] = True
        yield from steps


def memory_data(macro: Macro) -> Nets:
    """The nets that a memory drives."""
    return macro.ports["r_data"] if macro.kind == SRAM else macro.ports["RD_DATA"]


def enables(macro: Macro) -> Mapping[str, Nets]:
    """The nets that say when a memory is read and written."""
    if macro.kind == SRAM:
        return {"read": macro.ports["r_en"], "write": np.unique(macro.ports["w_en"])}
    read = macro.ports["RD_EN"] if memories.parameter(macro, "RD_CLK_ENABLE") else np.zeros(0, int)
    return {"read": read, "write": np.unique(macro.ports["WR_EN"])}


def counted(values: Words) -> int:
    """Bits that are set."""
    return int(np.bitwise_count(values).sum())

"""Energy by block in every sampled cycle: what changed, times what a change takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sw.energy.cells import EnergyLibrary, change_energy
from sw.energy.parameters import MemoryEnergy
from sw.energy.play import Player, enables, memory_data
from sw.energy.states import States, Words
from sw.synth import memories
from sw.synth.gating import clock_enables
from sw.synth.graph import build_graph
from sw.synth.library import Library
from sw.synth.netlist import CONSTANTS, SRAM, Macro, Netlist

Floats = npt.NDArray[np.float64]
PARTS = ("switching", "cells", "clock", "memories", "leakage")
"""switching: loads of nets. cells: within gates that change.

clock: clock pins of flip-flops and of clock gates.
"""
ROWS = 4096
"""Nets of which each sample's changes are unpacked at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Nets that the RTL's waves hold, and where: rows of `States` by signal."""

    nets: npt.NDArray[np.int64]
    places: list[tuple[str, int]]

    def signals(self) -> set[str]:
        return {name for name, _ in self.places}


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What the samples show. pj: of each part, [blocks, windows], of one cycle.

    leakage_nw: by block. checked, wrong: bits of registers whose next state was worked out by the
    netlist, and those in which the RTL's next state was another. unknown: share of register bits
    that the waves do not hold.
    """

    blocks: list[str]
    pj: Mapping[str, Floats]
    leakage_nw: Floats
    checked: int
    wrong: int
    unknown: float


def source_nets(netlist: Netlist, library: Library, prefix: str) -> Sources:
    """Registers, memories' data and inputs by the names that the simulator's waves have."""
    found: dict[int, tuple[str, int]] = {}
    for port, nets in netlist.inputs.items():
        found |= {int(net): (f"{prefix}.{port}", bit) for bit, net in enumerate(nets)}
    for kind, gates in netlist.gates.items():
        cell = library.cells[kind]
        if not cell.flip_flop:
            continue
        for pin in cell.outputs:
            column = gates.nets[:, gates.pins.index(pin)]
            for row in np.flatnonzero(column >= CONSTANTS):
                path, name = netlist.wave_name(kind, int(row), pin)
                if name:
                    found[int(column[row])] = _place(f"{prefix}.{path}".rstrip("."), name)
    for macro in netlist.macros:
        found |= dict(_memory_places(netlist, macro, prefix))
    found = {net: place for net, place in found.items() if net >= CONSTANTS}
    return Sources(nets=np.array(list(found), np.int64), places=list(found.values()))


def _place(scope: str, name: str) -> tuple[str, int]:
    """`idx[3]` is bit 3 of a signal, `go` all of one."""
    signal, bracket, bit = name.partition("[")
    return f"{scope}.{signal}", int(bit[:-1]) if bracket else 0


def _memory_places(
    netlist: Netlist, macro: Macro, prefix: str
) -> Iterable[tuple[int, tuple[str, int]]]:
    """What a memory drives: the wrapper's port, or the wires at one that is no wrapper."""
    if macro.kind == SRAM:
        for bit, net in enumerate(memory_data(macro)):
            yield int(net), (f"{prefix}.{macro.name}.r_data", bit)
        return
    instance = netlist.instances[macro.instance]
    for net in memory_data(macro):
        for local in np.flatnonzero(instance.nets == net):
            name = instance.module.wave_name(int(local))
            if name:
                yield int(net), _place(f"{prefix}.{instance.path}", name)
                break


def measure(
    netlist: Netlist,
    library: Library,
    energies: EnergyLibrary,
    memory: MemoryEnergy,
    sources: Sources,
    states: States,
) -> Activity:
    """Play the states on the netlist and price the last change of each window."""
    player = Player(netlist, library)
    before, values, checked, wrong, unknown = _play(player, sources, states)
    blocks = _Blocks(netlist)
    pj = {
        **_changes(netlist, library, energies, blocks, before ^ values, states.windows),
        "clock": _clock(netlist, library, energies, blocks, before, states.windows),
        "memories": _memories(netlist, memory, blocks, values, states.windows),
    }
    leakage = np.zeros(len(blocks.names))
    for kind, gates in netlist.gates.items():
        counts = np.bincount(blocks.of(gates.instances), minlength=len(blocks.names))
        leakage += counts * energies.cells[kind].leakage_nw
    return Activity(
        blocks=blocks.names,
        pj=pj,
        leakage_nw=leakage,
        checked=checked,
        wrong=wrong,
        unknown=unknown,
    )


def _play(player: Player, sources: Sources, states: States) -> tuple[Words, Words, int, int, float]:
    """Values in the last two cycles of the windows; bits checked and wrong; share not in waves."""
    known = np.array([name in states.bits for name, _ in sources.places], bool)
    nets = sources.nets[known]
    places = [place for place, there in zip(sources.places, known, strict=True) if there]
    compared, unknown = _registers(player, nets)
    size = len(next(iter(states.bits.values())))
    valid = _mask(states.windows)
    values = player.start(states.words)
    unknown_bits = player.unknown(nets, states.words)
    player.settle_unknown(unknown_bits)
    before, checked, wrong = values, 0, 0
    for step in range(size):
        real = np.stack([states.bits[name][step, bit] for name, bit in places])
        if step:
            before = values.copy()
            player.clock_unknown(unknown_bits, values)
            player.clock(values)
            if step == size - 1:
                told = ~unknown_bits[nets[compared]] & valid
                differing = (values[nets[compared]] ^ real[compared]) & told
                wrong = int(np.bitwise_count(differing).sum())
                checked = int(np.bitwise_count(told).sum())
            player.learn(unknown_bits, nets)
            player.settle_unknown(unknown_bits)
        player.take(values, nets, real)
        player.settle(values)
    return before, values, checked, wrong, unknown


def _registers(player: Player, known: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.bool_], float]:
    """Which of the known nets are registers; the share of flip-flops of which none is known."""
    is_known, registers = np.zeros((2, player.netlist.nets), bool)
    is_known[known] = True
    missing = total = 0
    for flip_flop in player.flip_flops:
        nets = flip_flop.nets[:, [column for column, _ in flip_flop.outputs]]
        registers[nets] = True
        total += len(nets)
        missing += int((~is_known[nets].any(1)).sum())
    return registers[known], missing / max(1, total)


def _mask(windows: int) -> Words:
    bits = np.zeros(-(-windows // 64) * 64, np.uint8)
    bits[:windows] = 1
    return np.packbits(bits, bitorder="little").view("<u8")


class _Blocks:
    """Blocks of the hierarchy by instance; blocks that differ in a number only count as one."""

    def __init__(self, netlist: Netlist) -> None:
        from sw.synth.area import without_numbers

        paths = [without_numbers(instance.path) for instance in netlist.instances]
        self.names = sorted(set(paths))
        numbers = {name: number for number, name in enumerate(self.names)}
        self._by_instance = np.array([numbers[path] for path in paths], np.int64)

    def of(self, instances: npt.ArrayLike) -> npt.NDArray[np.int64]:
        result: npt.NDArray[np.int64] = self._by_instance[np.asarray(instances)]
        return result


def _changes(
    netlist: Netlist,
    library: Library,
    energies: EnergyLibrary,
    blocks: _Blocks,
    changed: Words,
    windows: int,
) -> dict[str, Floats]:
    """Switching and cells: of every net that a gate drives, priced by its load."""
    loads = _loads(netlist, library)
    found = {part: np.zeros((len(blocks.names), windows)) for part in ("switching", "cells")}
    for kind, gates in netlist.gates.items():
        cell, energy = library.cells[kind], energies.cells[kind]
        for pin in cell.outputs:
            nets = gates.nets[:, gates.pins.index(pin)]
            driven = nets >= CONSTANTS
            nets, owners = nets[driven], blocks.of(gates.instances[driven])
            load = loads[nets]
            prices = {
                "switching": load * energies.volt**2 / 2,
                "cells": change_energy(energy.outputs.get(pin, ()), library.fo4_slew_ns, load),
            }
            _add(found, prices, owners, changed[nets], windows)
    return found


def _loads(netlist: Netlist, library: Library) -> Floats:
    """Picofarads of the pins on every net. Wires, which are nowhere yet, take no energy."""
    loads: Floats = build_graph(netlist, replace(library, wires=None)).loads.reshape(-1, 2).mean(1)
    return loads


def _add(
    found: dict[str, Floats],
    prices: Mapping[str, Floats],
    owners: npt.NDArray[np.int64],
    changed: Words,
    windows: int,
) -> None:
    """Add each net's price to its block in the windows in which it changed."""
    for at in range(0, len(owners), ROWS):
        rows = slice(at, at + ROWS)
        bits = np.unpackbits(changed[rows].view(np.uint8), axis=1, bitorder="little", count=windows)
        for part, price in prices.items():
            matrix = np.zeros((found[part].shape[0], len(bits)), np.float32)
            matrix[owners[rows], np.arange(len(bits))] = price[rows]
            used = np.unique(owners[rows])
            found[part][used] += matrix[used] @ bits.astype(np.float32)


def _clock(
    netlist: Netlist,
    library: Library,
    energies: EnergyLibrary,
    blocks: _Blocks,
    before: Words,
    windows: int,
) -> Floats:
    """Both edges of the clock, of an ideal tree: where a gate stops it, only to that gate.

    before: values in the cycle that the clock's edge ends, whose enables open the gates.
    """
    found = {"clock": np.zeros((len(blocks.names), windows))}
    enables = clock_enables(netlist, library)
    loads = _loads(netlist, library)
    for kind, gates in netlist.gates.items():
        cell, energy = library.cells[kind], energies.cells[kind]
        if not cell.clock:
            continue
        owners = blocks.of(gates.instances)
        load = float(np.mean(cell.capacitance[cell.clock])) * energies.volt**2
        price = {"clock": np.full(len(owners), load + energy.clock_pj)}
        clocks = gates.nets[:, gates.pins.index(cell.clock)]
        _add(found, price, owners, before[enables[clocks]], windows)
        if cell.clock_gate:
            at = gates.pins.index
            driven = loads[gates.nets[:, at(cell.clock_gate.output)]]
            tables = energy.outputs.get(cell.clock_gate.output, ())
            price = {"clock": 2 * change_energy(tables, library.fo4_slew_ns, driven)}
            _add(found, price, owners, before[gates.nets[:, at(cell.clock_gate.enable)]], windows)
    return found["clock"]


def _memories(
    netlist: Netlist, memory: MemoryEnergy, blocks: _Blocks, values: Words, windows: int
) -> Floats:
    """Accesses of the cycle; a write of parts of a word takes their share."""
    found = np.zeros((len(blocks.names), windows))
    for macro in netlist.macros:
        size = memories.bits(macro)
        price = memory.access(size, size // memories.words(macro))
        owner = int(blocks.of([macro.instance])[0])
        for nets in enables(macro).values():
            if len(nets):
                found[owner] += price * _set(values[nets], windows).mean(0)
    return found


def _set(words: Words, windows: int) -> npt.NDArray[np.uint8]:
    return np.unpackbits(
        np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little", count=windows
    )


def by_top(names: Iterable[str]) -> dict[str, list[int]]:
    """Rows of the blocks directly below the top; `top` for what is in none."""
    found: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        found.setdefault(name.split(".")[0] or "top", []).append(row)
    return found

"""The timing graph: a node is an edge (rise or fall) of a net, an arc a way through a gate."""

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from sw.synth import memories
from sw.synth.library import FALL, RISE, Arc, Cell, Library
from sw.synth.lookup import Table
from sw.synth.memories import MacroPorts
from sw.synth.netlist import CONSTANTS, Netlist, Nets
from sw.synth.tables import Floats, Ints, TableStack, constant

_COMBINATIONAL = ("combinational", "combinational_rise", "combinational_fall")
_FROM_EDGES = {
    "positive_unate": ((RISE, RISE), (FALL, FALL)),
    "negative_unate": ((FALL, RISE), (RISE, FALL)),
    "non_unate": ((RISE, RISE), (FALL, FALL), (FALL, RISE), (RISE, FALL)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a run of arcs or endpoints comes from: a type of gate with its pins, or a memory."""

    kind: str
    source: str
    target: str
    macro: int = -1
    start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Arcs and endpoints as arrays; `origins` tells what each of them is."""

    nodes: int
    sources: Ints
    targets: Ints
    delays: Ints
    transitions: Ints
    origins: list[Origin]
    clocks: Ints
    """Nodes at which the clock's edge arrives at time 0."""
    ends: Ints
    """Nodes at which data must have arrived; a net is in here once for each input that it has."""
    setups: Ints
    end_origins: list[Origin]
    loads: Floats
    tables: TableStack

    def origin(self, arc: int) -> tuple[Origin, int]:
        """What an arc goes through, and its row among gates of that type."""
        return _find(self.origins, arc)

    def end_origin(self, end: int) -> tuple[Origin, int]:
        """The same of an endpoint."""
        return _find(self.end_origins, end)


def _find(origins: list[Origin], number: int) -> tuple[Origin, int]:
    found = origins[bisect_right(origins, number, key=lambda o: o.start) - 1]
    return found, number - found.start


@dataclass(slots=True)
class _Collected:
    """Arrays that grow; each `add` is a run with one origin."""

    origins: list[Origin] = field(default_factory=list)
    columns: list[tuple[Ints, ...]] = field(default_factory=list)
    count: int = 0

    def add(self, kind: str, source: str, target: str, *columns: Ints, macro: int = -1) -> None:
        self.origins.append(
            Origin(kind=kind, source=source, target=target, macro=macro, start=self.count)
        )
        self.columns.append(columns)
        self.count += len(columns[0])

    def joined(self, columns: int) -> list[Ints]:
        empty = np.zeros(0, np.int32)
        return [np.concatenate([empty, *(c[i] for c in self.columns)]) for i in range(columns)]


def build_graph(netlist: Netlist, library: Library) -> Graph:
    """The graph of a mapped netlist; wires have the capacitance that the library says, no delay."""
    return _Builder(netlist, library).graph()


class _Builder:
    def __init__(self, netlist: Netlist, library: Library) -> None:
        self._netlist = netlist
        self._library = library
        self._tables: list[Table] = []
        self._numbers: dict[int, int] = {}
        self._constants: dict[float, int] = {}
        self._arcs = _Collected()
        self._ends = _Collected()
        self._loads = np.zeros(netlist.nets * 2)
        self._fanouts = np.zeros(netlist.nets)
        self._clocks: list[Nets] = []

    def graph(self) -> Graph:
        for kind, gates in self._netlist.gates.items():
            self._add_gates(self._library.cells[kind], gates.nets)
        pin = self._library.nand2
        capacitance = pin.capacitance[pin.inputs[0]]
        for number, macro in enumerate(self._netlist.macros):
            self._add_macro(number, memories.ports(macro), capacitance)
        if self._library.wires is not None:
            self._loads += np.repeat(self._library.wires.loads(self._fanouts), 2)
        sources, targets, delays, transitions = self._arcs.joined(4)
        ends, setups = self._ends.joined(2)
        clocks = np.unique(np.concatenate([np.zeros(0, np.int32), *self._clocks]))
        self._number(constant(0.0))
        return Graph(
            nodes=self._netlist.nets * 2,
            sources=sources,
            targets=targets,
            delays=delays,
            transitions=transitions,
            origins=self._arcs.origins,
            clocks=(clocks[clocks >= CONSTANTS] * 2 + RISE).astype(np.int32),
            ends=ends,
            setups=setups,
            end_origins=self._ends.origins,
            loads=self._loads,
            tables=TableStack(self._tables),
        )

    def _add_gates(self, cell: Cell, nets: Nets) -> None:
        pins = cell.inputs + cell.outputs
        for pin, capacitance in cell.capacitance.items():
            column = nets[:, pins.index(pin)]
            counts = np.bincount(column, minlength=self._netlist.nets)
            self._fanouts += counts
            for edge in (RISE, FALL):
                self._loads[edge::2] += counts * capacitance[edge]
        if cell.flip_flop:
            self._clocks.append(nets[:, pins.index(cell.clock)])
        for arc in cell.arcs:
            if arc.source not in pins or arc.target not in pins:
                continue
            source, target = nets[:, pins.index(arc.source)], nets[:, pins.index(arc.target)]
            if arc.kind == "setup_rising":
                self._add_setups(cell, arc, target)
            elif arc.kind in _COMBINATIONAL and arc.target in cell.functions:
                for before, after in _FROM_EDGES[arc.sense]:
                    self._add_arcs(cell, arc, source * 2 + before, target, after)
            elif arc.kind == "rising_edge":
                for after in (RISE, FALL):
                    self._add_arcs(cell, arc, source * 2 + RISE, target, after)

    def _add_arcs(self, cell: Cell, arc: Arc, sources: Ints, target: Ints, edge: int) -> None:
        delay, transition = arc.delay[edge], arc.transition[edge]
        if delay is None or transition is None:
            return
        tables = [np.full(len(target), self._number(t), np.int32) for t in (delay, transition)]
        nodes = target * 2 + edge
        self._arcs.add(cell.name, arc.source, arc.target, sources, nodes, *tables)

    def _add_setups(self, cell: Cell, arc: Arc, target: Nets) -> None:
        for edge in (RISE, FALL):
            table = arc.delay[edge]
            if table is not None:
                setups = np.full(len(target), self._number(table), np.int32)
                self._ends.add(cell.name, arc.source, arc.target, target * 2 + edge, setups)

    def _add_macro(self, number: int, ports: MacroPorts, capacitance: tuple[float, float]) -> None:
        """A memory: its inputs load a net as the NAND2 does, its outputs are driven well."""
        kind = self._netlist.macros[number].kind
        fo4 = self._library.fo4_ns
        slew = self._constant(self._library.fo4_slew_ns)
        self._clocks.append(np.array(ports.clocks, np.int32))
        for nets, setup in ports.setups:
            self._add_loads(nets, capacitance)
            for edge in (RISE, FALL):
                table = np.full(len(nets), self._constant(setup * fo4), np.int32)
                self._ends.add(kind, "", "", nets * 2 + edge, table, macro=number)
        ways = [(np.array(ports.clocks[:1], np.int32), d, t) for d, t in ports.outputs]
        for source, data, delay in ways:
            self._add_ways(kind, number, source, data, (self._constant(delay * fo4), slew), (RISE,))
        for address, data, delay in ports.through:
            self._add_loads(address, capacitance)
            tables = (self._constant(delay * fo4), slew)
            self._add_ways(kind, number, address, data, tables, (RISE, FALL))

    def _add_loads(self, nets: Nets, capacitance: tuple[float, float]) -> None:
        np.add.at(self._fanouts, nets, 1)
        for edge in (RISE, FALL):
            np.add.at(self._loads, nets * 2 + edge, capacitance[edge])

    def _add_ways(
        self,
        kind: str,
        number: int,
        sources: Nets,
        data: Nets,
        tables: tuple[int, int],
        edges: tuple[int, ...],
    ) -> None:
        """Arcs from every edge of each source to every edge of each bit of data."""
        count = len(sources) * len(data)
        filled = [np.full(count, table, np.int32) for table in tables]
        for before in edges:
            for after in (RISE, FALL):
                self._arcs.add(
                    kind,
                    "",
                    "",
                    np.repeat(sources * 2 + before, len(data)).astype(np.int32),
                    np.tile(data * 2 + after, len(sources)).astype(np.int32),
                    *filled,
                    macro=number,
                )

    def _number(self, table: Table) -> int:
        if id(table) not in self._numbers:
            self._numbers[id(table)] = len(self._tables)
            self._tables.append(table)
        return self._numbers[id(table)]

    def _constant(self, value: float) -> int:
        if value not in self._constants:
            self._constants[value] = self._number(constant(value))
        return self._constants[value]

"""The paths that decide the clock, as a reader follows them: blocks, delays and source lines."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sw.synth.graph import Graph, Origin
from sw.synth.library import EDGES
from sw.synth.netlist import Named, Netlist
from sw.synth.tables import Floats, Ints
from sw.synth.timing import NONE, Arrivals, Levels, propagate_from, slacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Consecutive gates of one block. signal: the last net with a name in the source."""

    block: str
    gates: int
    ns: float
    signal: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """From a register or memory to another. ns: the clock period that it needs, with setup."""

    start: str
    start_source: str
    end: str
    end_source: str
    ns: float
    gates: int
    setup_ns: float
    stages: tuple[Stage, ...]

    @property
    def start_block(self) -> str:
        return self.stages[0].block if self.stages else ""

    @property
    def end_block(self) -> str:
        return self.end.rpartition(".")[0]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A step of a path: the gate's block, its type, the net that it drives, and its delay."""

    block: str
    kind: str
    named: Named
    edge: str
    ns: float
    arrival_ns: float


class Blocks:
    """The block of each path's beginning and end, down to two levels, as `vector.seq`; numbers.

    of_firsts: of the arcs `firsts` that the clock goes into.
    """

    def __init__(self, netlist: Netlist, graph: Graph) -> None:
        names = [".".join(instance.path.split(".")[:2]) for instance in netlist.instances]
        numbers = np.unique(names, return_inverse=True)[1].astype(np.int32)
        self.firsts = np.flatnonzero(np.isin(graph.sources, graph.clocks)).astype(np.int32)
        self.of_firsts = numbers[_instances(netlist, graph.origins, self.firsts)]
        ends = np.arange(len(graph.ends), dtype=np.int32)
        self.of_ends = numbers[_instances(netlist, graph.end_origins, ends)]


def _instances(netlist: Netlist, origins: list[Origin], numbers: Ints) -> Ints:
    """The instance that each arc or endpoint is in."""
    runs = np.searchsorted([origin.start for origin in origins], numbers, "right") - 1
    found = np.zeros(len(numbers), np.int32)
    for run in np.unique(runs).tolist():
        origin, chosen = origins[run], runs == run
        if origin.macro != NONE:
            found[chosen] = netlist.macros[origin.macro].instance
        else:
            rows = numbers[chosen] - origin.start
            found[chosen] = netlist.gates[origin.kind].instances[rows]
    return found


def longest_by_blocks(
    netlist: Netlist, graph: Graph, levels: Levels, whole: Arrivals, count: int
) -> list[Path]:
    """The longest path of each pair of blocks, the `count` longest of them."""
    blocks = Blocks(netlist, graph)
    found: list[Path] = []
    for block in np.unique(blocks.of_firsts).tolist():
        firsts = blocks.firsts[blocks.of_firsts == block]
        arrivals = propagate_from(graph, levels, whole, firsts)
        paths = Paths(netlist, graph, arrivals)
        found += paths.to_blocks(slacks(graph, arrivals), blocks)
    return sorted(found, key=lambda path: -path.ns)[:count]


class Paths:
    """Paths of one analysis."""

    def __init__(self, netlist: Netlist, graph: Graph, arrivals: Arrivals) -> None:
        self._netlist = netlist
        self._graph = graph
        self._arrivals = arrivals

    def gates(self, node: int) -> list[Gate]:
        """The gates on the latest path to a node, first to last."""
        found = []
        while (arc := int(self._arrivals.by[node])) != NONE:
            origin, row = self._graph.origin(arc)
            block, named = self._place(origin, row, origin.target)
            found.append(
                Gate(
                    block=block,
                    kind=origin.kind,
                    named=named,
                    edge=EDGES[node % 2],
                    ns=float(self._arrivals.delay[arc]),
                    arrival_ns=float(self._arrivals.arrival[node]),
                )
            )
            node = int(self._graph.sources[arc])
        return found[::-1]

    def path(self, end: int, period: float) -> Path:
        """The latest path to an endpoint. period: what `slacks` has for it."""
        node = int(self._graph.ends[end])
        gates = self.gates(node)
        origin, row = self._graph.end_origin(end)
        block, named = self._place(origin, row, self._output(origin))
        start = gates[0] if gates else None
        return Path(
            start=_joined(start.block, start.named.name) if start else "",
            start_source=start.named.source if start else "",
            end=_joined(block, named.name),
            end_source=named.source,
            ns=period,
            gates=len(gates),
            setup_ns=period - float(self._arrivals.arrival[node]),
            stages=tuple(_stages(gates)),
        )

    def to_blocks(self, periods: Floats, blocks: Blocks) -> Iterator[Path]:
        """The longest path to each block that there is one to. periods: what `slacks` found."""
        order = np.argsort(-periods, kind="stable")
        order = order[np.isfinite(periods[order])]
        _, first = np.unique(blocks.of_ends[order], return_index=True)
        for end in order[first].tolist():
            yield self.path(end, float(periods[end]))

    def _output(self, origin: Origin) -> str:
        """The pin whose net has the name of a flip-flop: its first output."""
        if origin.macro != NONE:
            return ""
        inputs = [o.target for o in self._graph.origins if o.kind == origin.kind]
        return inputs[0] if inputs else ""

    def _place(self, origin: Origin, row: int, pin: str) -> tuple[str, Named]:
        if origin.macro != NONE:
            macro = self._netlist.macros[origin.macro]
            block, _, name = macro.name.rpartition(".")
            return block, Named(name, "")
        if not pin:
            gates = self._netlist.gates[origin.kind]
            return self._netlist.instances[int(gates.instances[row])].path, Named("", "")
        return self._netlist.gate_name(origin.kind, row, pin)


def _joined(block: str, name: str) -> str:
    return ".".join(part for part in (block, name) if part)


def _stages(gates: Iterable[Gate]) -> Iterator[Stage]:
    """Consecutive gates of a block in one."""
    run: list[Gate] = []
    for gate in gates:
        if run and run[-1].block != gate.block:
            yield _stage(run)
            run = []
        run.append(gate)
    if run:
        yield _stage(run)


def _stage(run: list[Gate]) -> Stage:
    named = next((gate.named for gate in reversed(run) if gate.named.name), Named("", ""))
    return Stage(
        block=run[0].block,
        gates=len(run),
        ns=sum(gate.ns for gate in run),
        signal=named.name,
        source=named.source,
    )

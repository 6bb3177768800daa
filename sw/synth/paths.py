"""The paths that decide the clock, as a reader follows them: blocks, delays and source lines."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sw.synth.graph import Graph, Origin
from sw.synth.library import EDGES
from sw.synth.netlist import Named, Netlist
from sw.synth.tables import Floats
from sw.synth.timing import NONE, Arrivals


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

    def worst_by_blocks(self, periods: Floats, count: int) -> list[Path]:
        """The longest path of each pair of blocks, over the worst path of every endpoint.

        Blocks down to the second level of the hierarchy, as `vector.seq`.
        """
        order = np.argsort(-periods, kind="stable")
        order = order[np.isfinite(periods[order])]
        starts = self._start_blocks()
        seen: set[tuple[str, str]] = set()
        found = []
        for end in order.tolist():
            node = int(self._graph.ends[end])
            origin, row = self._graph.end_origin(end)
            end_block = _two_levels(self._place(origin, row, "")[0])
            pair = (starts(int(self._arrivals.start[node])), end_block)
            if pair not in seen:
                seen.add(pair)
                found.append(self.path(end, float(periods[end])))
                if len(found) == count:
                    break
        return found

    def _start_blocks(self) -> Callable[[int], str]:
        known: dict[int, str] = {}

        def block(node: int) -> str:
            if node not in known:
                arc = int(self._arrivals.by[node])
                if arc == NONE:
                    known[node] = ""
                else:
                    known[node] = _two_levels(self._place(*self._graph.origin(arc), "")[0])
            return known[node]

        return block

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


def _two_levels(path: str) -> str:
    return ".".join(path.split(".")[:2])


def _joined(block: str, name: str) -> str:
    return f"{block}.{name}" if block else name


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

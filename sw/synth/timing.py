"""Static timing: when each net has its value at the latest, and the paths that decide the clock.

One corner, an ideal clock, wires without delay. A gate's delay depends on the transition at its
input and the capacitance at its output by the library's tables (NLDM). The graph is walked level by
level, all arcs of a level at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sw.synth.errors import SynthError
from sw.synth.graph import Graph
from sw.synth.netlist import CONSTANTS, Netlist
from sw.synth.tables import Floats, Ints

NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """By node: the latest arrival (-inf: none), its transition, and the arc that it came by.

    delay: by arc.
    """

    arrival: Floats
    slew: Floats
    by: Ints
    delay: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Arcs in an order in which each comes after all that lead to its source."""

    order: npt.NDArray[np.int64]
    bounds: list[int]
    """Where each level begins in `order`."""


def levelize(graph: Graph, netlist: Netlist) -> Levels:
    """The order to walk arcs in; `SynthError` names a net of a combinational loop."""
    by_source = np.argsort(graph.sources, kind="stable")
    first = np.searchsorted(graph.sources[by_source], np.arange(graph.nodes + 1))
    waiting = np.bincount(graph.targets, minlength=graph.nodes)
    level = np.zeros(graph.nodes, np.int32)
    frontier = np.flatnonzero(waiting == 0)
    done, number = 0, 0
    while len(frontier):
        level[frontier] = number
        done += len(frontier)
        arcs = by_source[_ranges(first[frontier], first[frontier + 1])]
        targets, counts = np.unique(graph.targets[arcs], return_counts=True)
        waiting[targets] -= counts
        frontier = targets[waiting[targets] == 0]
        number += 1
    if done < graph.nodes:
        net = int(np.flatnonzero(waiting)[0]) // 2
        named = netlist.net_name(net)
        raise SynthError(
            f"combinational loop through {named.name or f'net {net}'} {named.source}".rstrip()
        )
    levels = level[graph.targets]
    order = np.lexsort((graph.targets, levels))
    bounds = np.searchsorted(levels[order], np.arange(1, number + 1)).tolist()
    return Levels(order=order, bounds=bounds)


def _ranges(begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """All integers of the ranges, one range after another."""
    counts = ends - begins
    total = int(counts.sum())
    offsets = np.repeat(begins - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    result: npt.NDArray[np.int64] = offsets + np.arange(total)
    return result


def propagate(graph: Graph, levels: Levels, starts: Ints) -> Arrivals:
    """Arrivals of signals that begin at time 0 and without transition time at nodes `starts`."""
    arrival = np.full(graph.nodes, -np.inf)
    slew = np.zeros(graph.nodes)
    by = np.full(graph.nodes, NONE, np.int32)
    delay = np.zeros(len(graph.sources))
    arrival[starts] = 0.0
    for arcs in _by_level(levels):
        arcs = arcs[np.isfinite(arrival[graph.sources[arcs]])]
        if not len(arcs):
            continue
        sources, targets = graph.sources[arcs], graph.targets[arcs]
        loads = graph.loads[targets]
        delay[arcs] = graph.tables.look_up(graph.delays[arcs], slew[sources], loads)
        slews = graph.tables.look_up(graph.transitions[arcs], slew[sources], loads)
        _merge(graph, arcs, arrival[sources] + delay[arcs], arrival, by)
        # The slowest transition of all arcs, as is usual.
        heads = np.flatnonzero(np.diff(targets, prepend=-1))
        slew[targets[heads]] = np.maximum.reduceat(slews, heads)
    return Arrivals(arrival=arrival, slew=slew, by=by, delay=delay)


def propagate_from(graph: Graph, levels: Levels, whole: Arrivals, first: Ints) -> Arrivals:
    """Arrivals of the paths that begin with the arcs `first` alone; delays are those of `whole`."""
    arrival = np.full(graph.nodes, -np.inf)
    by = np.full(graph.nodes, NONE, np.int32)
    first = first[np.lexsort((whole.delay[first], graph.targets[first]))]
    arrival[graph.targets[first]] = whole.delay[first]  # of several the last, which is the latest
    by[graph.targets[first]] = first
    for arcs in _by_level(levels):
        arcs = arcs[np.isfinite(arrival[graph.sources[arcs]])]
        if len(arcs):
            arrivals = arrival[graph.sources[arcs]] + whole.delay[arcs]
            _merge(graph, arcs, arrivals, arrival, by)
    return Arrivals(arrival=arrival, slew=whole.slew, by=by, delay=whole.delay)


def _by_level(levels: Levels) -> Iterator[npt.NDArray[np.int64]]:
    ends = [*levels.bounds[1:], len(levels.order)]
    for begin, end in zip(levels.bounds, ends, strict=True):
        yield levels.order[begin:end]


def _merge(
    graph: Graph, arcs: npt.NDArray[np.int64], arrivals: Floats, arrival: Floats, by: Ints
) -> None:
    """Keep at each target the latest arrival, and the arc that it came by."""
    targets = graph.targets[arcs]
    heads = np.flatnonzero(np.diff(targets, prepend=-1))
    latest = np.maximum.reduceat(arrivals, heads)
    later = latest > arrival[targets[heads]]
    arrival[targets[heads[later]]] = latest[later]
    counts = np.diff(heads, append=len(targets))
    decides = np.repeat(later, counts) & (arrivals == np.repeat(latest, counts))
    by[targets[decides][::-1]] = arcs[decides][::-1]


def slacks(graph: Graph, arrivals: Arrivals) -> Floats:
    """For each endpoint the clock period that it needs: arrival and setup (-inf: no path)."""
    slew = arrivals.slew[graph.ends]
    setups = graph.tables.look_up(graph.setups, slew, np.zeros(len(slew)))
    result: Floats = arrivals.arrival[graph.ends] + setups
    return result


RESET = "rst"


def port_paths(
    netlist: Netlist, graph: Graph, levels: Levels, arrivals: Arrivals
) -> dict[str, float]:
    """Longest delays in nanoseconds: register to output, input to register, input to output.

    The reset is no input here: it is constant while the NPU works.
    """
    outputs = _nodes(netlist.outputs, ())
    inputs = _nodes(netlist.inputs, (RESET,))
    inputs = inputs[~np.isin(inputs, graph.clocks)]
    from_inputs = propagate(graph, levels, inputs)
    found = {
        "register to output": arrivals.arrival[outputs],
        "input to register": slacks(graph, from_inputs),
        "input to output": from_inputs.arrival[outputs],
    }
    return {name: float(values.max(initial=-np.inf)) for name, values in found.items()}


def _nodes(ports: dict[str, Ints], without: tuple[str, ...]) -> Ints:
    """Both edges of every net at the ports."""
    chosen = [nets for name, nets in ports.items() if name not in without]
    nets = np.unique(np.concatenate([np.zeros(0, np.int32), *chosen]))
    nets = nets[nets >= CONSTANTS]
    return np.concatenate([nets * 2, nets * 2 + 1]).astype(np.int32)

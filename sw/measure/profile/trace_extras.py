"""What a trace has besides slices: arrows from posts to waits, and counters over time."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.isa import Engine
from spec.memmap import Stall
from sw.measure.profile.bins import bins_of
from sw.measure.profile.layers import Profile, written_bytes
from sw.measure.profile.trace_records import Track
from sw.measure.profile.waits import Wait

Event = dict[str, Any]

PROCESS = 1
MAX_FLOWS = 50_000
"""Most arrows; beyond, only those of the longest waits are kept."""

COUNTER_BINS = 2000
"""Most values of a counter over the run."""


def flow_events(found: Sequence[Wait]) -> Iterator[Event]:
    """An arrow (`s`, `f`) for each wait: from the slice of the producer, in the cycle of its post,
    to the wait's last cycle.
    """
    kept = sorted(found, key=lambda wait: wait.start - wait.stop)[:MAX_FLOWS]
    for number, wait in enumerate(sorted(kept, key=lambda wait: wait.stop)):
        common = {"pid": PROCESS, "cat": "semaphore", "name": wait.label, "id": number}
        yield {"ph": "s", "tid": wait.source + 1, "ts": wait.posted, **common}
        yield {"ph": "f", "bp": "e", "tid": wait.engine + 1, "ts": wait.stop - 1, **common}


def counter_events(profile: Profile, clock_mhz: float | None = None) -> Iterator[Event]:
    """Counters: bytes of LOAD and STORE a cycle (with a clock: GB/s), busy share and instructions
    in the queue of each engine. A value is the mean over a bin.
    """
    bins = bins_of(profile, COUNTER_BINS)
    length = np.minimum(bins.width, profile.cycles - np.arange(bins.count) * bins.width)
    unit, scale = ("GB/s", clock_mhz / 1e3) if clock_mhz else ("bytes a cycle", 1.0)
    for name, moved in _moved(profile, bins.width, bins.count).items():
        yield from _counter(f"{name} {unit}", bins.width, scale * moved / length)
    for engine in Engine:
        busy = bins.states[engine][:, Stall.BUSY] / length
        if busy.any():
            yield from _counter(f"{engine.name.lower()} busy %", bins.width, 100 * busy)
    for engine, depth in queue_depths(profile).items():
        mean = _per_bin(*depth, bins.width, bins.count) / length
        yield from _counter(f"{engine.name.lower()} queue", bins.width, mean)


def _counter(name: str, width: int, values: NDArray[np.float64]) -> Iterator[Event]:
    """An event for each change."""
    rounded = np.round(values, 3)
    changed = np.append(True, rounded[1:] != rounded[:-1])
    for k in np.flatnonzero(changed).tolist():
        value = float(rounded[k])
        yield {"ph": "C", "pid": PROCESS, "name": name, "ts": k * width, "args": {"value": value}}


def _moved(profile: Profile, width: int, count: int) -> dict[str, NDArray[np.float64]]:
    """Bytes that LOAD reads and STORE writes in each bin; an instruction's bytes are spread over
    the cycles in which its engine is busy with it.
    """
    program = profile.image.instructions()
    bus = profile.image.config.bus_bytes
    out = {}
    for name, engine in (("LOAD", Engine.LOAD), ("STORE", Engine.STORE)):
        edges, rates = [0], [0.0]
        for span in profile.spans[engine]:
            size = (
                profile.recording.words.get(span.index, 0) * bus
                if engine is Engine.LOAD
                else written_bytes(program[span.index])
            )
            for start, stop in _busy(profile.recording.tracks[engine], span.start, span.stop):
                edges += [start, stop]
                rates += [size / max(1, span.states[Stall.BUSY]), 0.0]
        out[name] = _per_bin(np.array(edges), np.array(rates), width, count)
    return out


def _busy(track: Track, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The stretches of start…stop in which an engine is busy."""
    first = int(np.searchsorted(track.stop, start, side="right"))
    last = int(np.searchsorted(track.start, stop, side="left"))
    for k in range(first, last):
        if track.stall[k] == Stall.BUSY:
            yield max(start, int(track.start[k])), min(stop, int(track.stop[k]))


def _per_bin(
    edges: NDArray[np.int64], values: NDArray[np.float64], width: int, count: int
) -> NDArray[np.float64]:
    """Integral over each bin of a function that has `values[k]` from `edges[k]` on."""
    steps = np.append(edges, max(int(edges[-1]) + 1, count * width)).astype(np.float64)
    before = np.concatenate([[0.0], np.cumsum(values * np.diff(steps))])
    return np.diff(np.interp(np.arange(count + 1) * width, steps, before))


def queue_depths(
    profile: Profile,
) -> dict[Engine, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Engine -> (cycles, instructions in its queue from that cycle on)."""
    handed = {span.index: span.stop for span in profile.spans[Engine.FETCH]}
    out: dict[Engine, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
    for engine, spans in profile.spans.items():
        if engine is Engine.FETCH or not spans:
            continue
        track = profile.recording.tracks[engine]
        active = track.stall != Stall.IDLE
        index, first = np.unique(track.index[active], return_index=True)
        taken = dict(zip(index.tolist(), track.start[active][first].tolist(), strict=True))
        changes: dict[int, int] = {0: 0}
        for span in spans:
            leaves = taken.get(span.index, span.start)
            enters = min(handed.get(span.index, leaves), leaves)
            changes[enters] = changes.get(enters, 0) + 1
            changes[leaves] = changes.get(leaves, 0) - 1
        cycles = np.array(sorted(changes), np.int64)
        depth = np.cumsum([changes[int(c)] for c in cycles]).astype(np.float64)
        out[engine] = (cycles, depth)
    return out

"""A profile as a trace for Perfetto's viewer or chrome://tracing: Chrome trace-event JSON.

One track per engine: layers, in them instructions, in them waits. Track `layers` has what the run's
cycles are charged to. One cycle is shown as a microsecond. An event's thread duration (`tdur`) is
the time that its engine was busy; per engine they sum to its BUSY counter. Arrows lead from posts
to the waits that they end (waits.py); trace_extras.py adds them, and counters.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from spec.isa import Engine
from spec.memmap import Stall
from sw.measure.profile.layers import Profile
from sw.measure.profile.trace_extras import PROCESS, Event, counter_events, flow_events
from sw.measure.profile.trace_records import Track
from sw.measure.profile.trace_spans import Span
from sw.measure.profile.waits import Wait, covered
from sw.runtime.report import ReportError

LAYERS_TRACK = 0
MIN_WAIT = 32
"""Cycles from which on a wait within an instruction is an event of its own."""
MAX_WAITS = 100_000
"""Most such events; beyond, only longer ones are kept."""


def write_trace(
    profile: Profile,
    notes: Sequence[str],
    path: Path,
    found: Sequence[Wait] = (),
    clock_mhz: float | None = None,
) -> int:
    """Write the trace of `profile`; returns the number of events. `notes`: of every instruction.

    found: waits for semaphores, whose ends become arrows. clock_mhz: counters of the bus then are
    in GB/s.
    """
    events = [
        *trace_events(profile, notes, found),
        *flow_events(found),
        *counter_events(profile, clock_mhz),
    ]
    facts = {
        "config": profile.image.config.to_dict(),
        "cycles": profile.cycles,
        "arrows": sum(event["ph"] == "s" for event in events),
        "waits_explained": covered(found, profile),
    }
    trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": facts}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as out:
            json.dump(trace, out, separators=(",", ":"))
    except OSError as error:
        raise ReportError(f"--trace {path}: cannot write: {error.strerror}") from None
    return len(events)


def trace_events(
    profile: Profile, notes: Sequence[str], found: Sequence[Wait] = ()
) -> Iterator[Event]:
    """Names of the tracks, then their events, outer ones first. found: waits that have a name."""
    labels = {(wait.engine, wait.start): wait.label for wait in found}
    name = f"{profile.image.info['name']} on {profile.image.config.name}"
    yield _name("process_name", None, name)
    yield _name("thread_name", LAYERS_TRACK, "layers")
    yield from _charged(profile)
    shortest = _shortest_wait(profile)
    for engine, spans in profile.spans.items():
        thread = engine + 1
        yield _name("thread_name", thread, engine.name.lower())
        busy = 0
        track = _long_waits(profile.recording.tracks[engine], shortest)
        for owner, group in groupby(spans, lambda s: profile.owners[s.index]):
            mine = list(group)
            layer = profile.layers[owner]
            facts = {"module": layer.module, "source": layer.source, "instructions": len(mine)}
            total = sum(s.states[Stall.BUSY] for s in mine)
            start, stop = mine[0].start, mine[-1].stop
            yield _event(layer.name, "layer", thread, start, stop, facts, (busy, total))
            for span in mine:
                yield _instruction(span, thread, notes[span.index], busy)
                busy += span.states[Stall.BUSY]
                yield from _waits(span, thread, track, shortest, labels)


def _long_waits(track: Track, shortest: int) -> Track:
    """The intervals of `track` that are waits of `shortest` cycles or more."""
    keep = (track.stall != Stall.BUSY) & (track.stop - track.start >= shortest)
    return Track(
        start=track.start[keep],
        stop=track.stop[keep],
        index=track.index[keep],
        stall=track.stall[keep],
    )


def _charged(profile: Profile) -> Iterator[Event]:
    """Which layer the run's cycles are charged to."""
    start = 0
    stops = profile.closed.tolist()
    for owner, group in groupby(range(len(stops)), lambda i: profile.owners[i]):
        stop = stops[list(group)[-1]]
        layer = profile.layers[owner]
        if stop > start:
            facts = {"bound": layer.bound, "macs": layer.macs, "module": layer.module}
            yield _event(layer.name, "layer", LAYERS_TRACK, start, stop, facts)
        start = stop


def _instruction(span: Span, thread: int, note: str, busy: int) -> Event:
    states = {state.name.lower(): span.states[state] for state in Stall}
    facts = {"instruction": span.index, **states}
    times = (busy, span.states[Stall.BUSY])
    return _event(note, "instruction", thread, span.start, span.stop, facts, times)


def _waits(
    span: Span,
    thread: int,
    track: Track,
    shortest: int,
    labels: Mapping[tuple[Engine, int], str],
) -> Iterator[Event]:
    """Waits (the intervals of `track`) inside an instruction that are long enough to be seen."""
    first = int(np.searchsorted(track.stop, span.start, side="right"))
    last = int(np.searchsorted(track.start, span.stop, side="left"))
    for k in range(first, last):
        start, stop = max(int(track.start[k]), span.start), min(int(track.stop[k]), span.stop)
        if stop - start >= shortest:
            state = Stall(int(track.stall[k]))
            label = labels.get((span.engine, start)) if state is Stall.SEMAPHORE else None
            name = f"waits: {label or state.name.lower()}"
            yield _event(name, "wait", thread, start, stop, {"state": state.name.lower()})


def _shortest_wait(profile: Profile) -> int:
    """MIN_WAIT, or the length that leaves MAX_WAITS events."""
    lengths = [
        (t.stop - t.start)[(t.stall != Stall.BUSY) & (t.stop - t.start >= MIN_WAIT)]
        for engine, t in profile.recording.tracks.items()
        if engine is not Engine.FETCH
    ]
    every = np.sort(np.concatenate(lengths)) if lengths else np.zeros(0, np.int64)
    return MIN_WAIT if len(every) <= MAX_WAITS else int(every[-MAX_WAITS]) + 1


def _event(
    name: str,
    category: str,
    thread: int,
    start: int,
    stop: int,
    facts: Event,
    busy: tuple[int, int] | None = None,
) -> Event:
    """A complete event; `busy`: cycles in which the engine was busy before it, and within it."""
    event = {"ph": "X", "pid": PROCESS, "tid": thread, "name": name, "cat": category}
    event |= {"ts": start, "dur": stop - start, "args": facts}
    if busy is not None:
        event |= {"tts": busy[0], "tdur": busy[1]}
    return event


def _name(kind: str, thread: int | None, name: str) -> Event:
    event: Event = {"ph": "M", "pid": PROCESS, "name": kind, "args": {"name": name}}
    return event if thread is None else {**event, "tid": thread}


def tracks(events: Iterable[Event]) -> dict[int, str]:
    """Names of the tracks by thread number."""
    return {
        e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"
    }

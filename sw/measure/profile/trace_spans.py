"""From states and posts to instructions: when each began and was done on its engine.

An engine may issue an instruction while results of the one before are still on their way. It ends
instructions in order, so on a time line instruction i has what is left after i−1: from its issue,
or the end of i−1 if that is later, to its last semaphore post (without one: to the last cycle in
which the engine was at it and not idle). All work of an engine lies inside its spans.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spec.isa import Engine, Instruction
from spec.memmap import Stall
from sw.measure.profile.trace_records import Cycles, Recording, Track

_RESTING = (Stall.SEMAPHORE, Stall.IDLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Instruction `index` on its engine, cycles start…stop; `states`: cycles in each `Stall`."""

    index: int
    engine: Engine
    start: int
    stop: int
    states: tuple[int, ...]


def engine_spans(recording: Recording, program: Sequence[Instruction]) -> dict[Engine, list[Span]]:
    """Per engine its instructions in order; fetch is at every instruction."""
    out: dict[Engine, list[Span]] = {}
    for engine, track in recording.tracks.items():
        every = engine is Engine.FETCH
        mine = [i for i, x in enumerate(program) if every or x.format.engine is engine]
        out[engine] = _spans(engine, track, mine, recording)
    return out


def _spans(engine: Engine, track: Track, mine: list[int], recording: Recording) -> list[Span]:
    if not mine:
        return []
    issued, left = _visits(track)
    working = track.stop[~np.isin(track.stall, _RESTING)]
    posts = recording.posts[engine]
    starts, stops = [], []
    done = 0
    for number, index in enumerate(mine):
        begin = issued.get(index, done)
        end = max(posts.get(index, -1) + 1 or left.get(index, begin), begin, done)
        following = issued.get(mine[number + 1]) if number + 1 < len(mine) else recording.cycles
        # What still works after the end, and before the next one, belongs to this one.
        if following is not None and following > end:
            at = np.searchsorted(working, following, side="right") - 1
            end = max(end, int(working[at])) if at >= 0 else end
        starts.append(max(begin, done))
        stops.append(end)
        done = end
    states = state_sums(track, np.array(starts), np.array(stops))
    return [
        Span(index=i, engine=engine, start=a, stop=b, states=tuple(int(n) for n in row))
        for i, a, b, row in zip(mine, starts, stops, states, strict=True)
    ]


def _visits(track: Track) -> tuple[dict[int, int], dict[int, int]]:
    """(first cycle, cycle after the last one that was not idle) of each instruction."""
    active = track.stall != Stall.IDLE
    index, start, stop = track.index[active], track.start[active], track.stop[active]
    changes = np.flatnonzero(np.diff(index)) + 1
    first = np.append(0, changes)[: len(index)]
    last = np.append(changes, len(index))[: len(index)] - 1
    issued = dict(zip(index[first].tolist(), start[first].tolist(), strict=True))
    return issued, dict(zip(index[last].tolist(), stop[last].tolist(), strict=True))


def state_sums(track: Track, starts: Cycles, stops: Cycles) -> NDArray[np.int64]:
    """Cycles of `track` in each `Stall` within each window start…stop: [windows, states]."""
    out = np.zeros((len(starts), len(Stall)), np.int64)
    for state in Stall:
        # Cycles in this state before each boundary of the track, interpolated within intervals.
        length = np.where(track.stall == state, track.stop - track.start, 0)
        before = np.concatenate([[0], np.cumsum(length)])
        edges = np.append(track.start, track.stop[-1])
        counts = [np.interp(x, edges, before) for x in (starts, stops)]
        out[:, state] = np.rint(counts[1] - counts[0]).astype(np.int64)
    return out


def closings(
    spans: Mapping[Engine, Sequence[Span]], instructions: int, cycles: int
) -> NDArray[np.int64]:
    """For each instruction, when it and everything before it in the program was done.

    BEGIN is done when it is fetched, END closes with the run. Differences of neighbours charge
    every cycle of the run to the oldest instruction that is not done.
    """
    done = np.zeros(instructions, np.int64)
    for engine, row in spans.items():
        for span in row:
            if engine is not Engine.FETCH or span.index == 0:
                done[span.index] = span.stop
    done[-1] = cycles
    return np.maximum.accumulate(done)

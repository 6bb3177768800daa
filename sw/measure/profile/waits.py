"""What engines waited for: which post of which instruction ended each wait for a semaphore.

A wait is a stretch of cycles in which an engine stood in the state SEMAPHORE. It ended because the
last semaphore that it needed was posted. The dependences of the compiler say which instructions
that can have been; the one whose post came last before the wait's end is the one that ended it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spec.isa import Engine
from spec.memmap import Stall
from sw.compiler.compilation import Compilation
from sw.compiler.program.dependences import Channel, Need
from sw.compiler.program.virtual import VirtualInstruction
from sw.measure.profile.layers import Profile
from sw.measure.profile.trace_spans import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Cycles start…stop in which instruction `index` of `engine` waited.

    producer: the instruction whose post ended the wait, of engine `source`, at cycle `posted`.
    label: semaphore, engines and what the wait was for.
    """

    engine: Engine
    index: int
    start: int
    stop: int
    producer: int
    source: Engine
    posted: int
    label: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    producer: int
    source: Engine
    label: str


def waits(compilation: Compilation, profile: Profile) -> list[Wait]:
    """The waits whose end a known post explains, engine by engine and in the order of time."""
    candidates = _candidates(compilation)
    ends = {e: {span.index: span for span in spans} for e, spans in profile.spans.items()}
    out = []
    for engine, spans in profile.spans.items():
        if engine is Engine.FETCH:
            continue
        for span, start, stop in _semaphore_waits(profile, engine, spans):
            found = _ended_by(candidates[span.index], profile, ends, stop)
            if found is not None:
                out.append(
                    Wait(
                        engine=engine,
                        index=span.index,
                        start=start,
                        stop=stop,
                        producer=found[1].producer,
                        source=found[1].source,
                        posted=found[0],
                        label=found[1].label,
                    )
                )
    return out


def _semaphore_waits(
    profile: Profile, engine: Engine, spans: Sequence[Span]
) -> Iterator[tuple[Span, int, int]]:
    """(span, start, stop) of each stretch of SEMAPHORE, cut to the span that it lies in."""
    track = profile.recording.tracks[engine]
    keep = track.stall == Stall.SEMAPHORE
    starts, stops, index = track.start[keep], track.stop[keep], track.index[keep]
    by_index = {span.index: span for span in spans}
    for start, stop, at in zip(starts.tolist(), stops.tolist(), index.tolist(), strict=True):
        span = by_index.get(at)
        if span is None:
            continue
        low, high = max(start, span.start), min(stop, span.stop)
        if high > low:
            yield span, low, high


def _candidates(compilation: Compilation) -> Mapping[int, list[_Candidate]]:
    """Of each instruction: those that it needs posts of with its main sequencer."""
    program = compilation.program
    place = program.dependences.place
    out: dict[int, list[_Candidate]] = defaultdict(list)
    for number, (instruction, needs) in enumerate(program.dependences.needs):
        for channel, wanted in needs.items():
            source, _, waiting = channel
            if waiting != instruction.engine.name:
                continue
            semaphore = program.semaphores[channel]
            for need in wanted:
                producer = place[id(need.producer)]
                label = _label(semaphore, channel, instruction, need)
                # BEGIN is instruction 0.
                out[number + 1].append(_Candidate(producer + 1, source, label))
    return out


def _label(semaphore: int, channel: Channel, instruction: VirtualInstruction, need: Need) -> str:
    """`s3 LOAD done → MATRIX: conv2d.act0`; `frees` where it waits until others are through."""
    source, point, waiting = channel
    wrote = {a.buffer.name for a in need.producer.accesses if a.write}
    touched = {a.buffer.name for a in need.producer.accesses}
    mine = dict.fromkeys(a.buffer.name for a in instruction.accesses)
    made = [name for name in mine if name in wrote]
    freed = [name for name in mine if name in touched]
    what = ", ".join(made) if made else "frees " + ", ".join(freed) if freed else "order"
    return f"s{semaphore} {source.name} {point.name.lower()} → {waiting}: {what}"


def _ended_by(
    candidates: Sequence[_Candidate],
    profile: Profile,
    spans: Mapping[Engine, Mapping[int, Span]],
    stop: int,
) -> tuple[int, _Candidate] | None:
    """(cycle, candidate) of the last post before `stop`; None if no post is known before it.

    A wait for a slice ends while its producer goes on. Then the cycle is the last one of the
    wait, if the producer is at work in it.
    """
    best: tuple[int, _Candidate] | None = None
    for each in candidates:
        span = spans[each.source].get(each.producer)
        if span is None or span.start >= stop:
            continue
        last = profile.recording.posts[each.source].get(each.producer, span.stop - 1)
        posted = min(last, stop - 1)
        # On a time line the producer is shown where its predecessors leave room for it.
        if not span.start <= posted < max(span.stop, span.start + 1):
            continue
        if best is None or posted > best[0]:
            best = (posted, each)
    return best


def covered(found: Sequence[Wait], profile: Profile) -> float:
    """Share of all cycles of waiting for semaphores that `found` explains."""
    total = sum(
        int(((track.stop - track.start)[track.stall == Stall.SEMAPHORE]).sum())
        for engine, track in profile.recording.tracks.items()
        if engine is not Engine.FETCH
    )
    return float(np.sum([wait.stop - wait.start for wait in found])) / total if total else 1.0

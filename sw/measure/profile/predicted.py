"""A profile of what the compiler predicts, for devices without a clock: nothing runs.

The timeline of the prediction is written down as a recording of the RTL would be, so that tables,
pages and traces show both in the same way. The prediction knows no cause of every wait: cycles in
which an engine is slowed down by a bank count as busy, and what an instruction waits for between
its slices counts as semaphore.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from spec.isa import Engine
from spec.memmap import Stall
from spec.program import Image
from sw.compiler.compilation import Compilation
from sw.compiler.machine.costs import FETCH_GRANULE, MEMORY_LATENCY, TAKEN
from sw.compiler.program.channel import MemoryChannel
from sw.compiler.program.dram.addresses import Addresses
from sw.compiler.program.timeline import Timeline
from sw.measure.profile.layers import Profile, analyse, written_bytes
from sw.measure.profile.trace_records import Recording, Track
from sw.runtime.device import RunResult
from sw.runtime.session import DeviceOptions, OptionError

Interval = tuple[float, float, Stall, int]
"""Cycles start…stop of an engine, its state and its instruction."""


def predicted_profile(compilation: Compilation, options: DeviceOptions) -> Profile:
    """The profile of a program as predicted.

    `OptionError` for a memory that the prediction does not know.
    """
    if options.memory == "ideal" and options.latency != MEMORY_LATENCY:
        raise OptionError(
            f"--latency {options.latency}: a prediction is for {MEMORY_LATENCY} cycles; "
            "use --device rtl"
        )
    if options.stall:
        raise OptionError(f"--stall {options.stall:g}: a prediction has none; use --device rtl")
    addresses = Addresses.of(compilation.image, compilation.stored)
    memory = MemoryChannel.of(options.memory, options.clock_mhz, addresses)
    recording = predicted_recording(compilation, memory)
    result = _result(compilation.image, recording)
    return analyse(compilation.image, result, recording)


def _result(image: Image, recording: Recording) -> RunResult:
    read = sum(recording.words.values()) * image.config.bus_bytes + image.program.size
    return RunResult(
        cycles=recording.cycles,
        counters={e.name.lower(): track.counters() for e, track in recording.tracks.items()},
        read_bytes=read,
        write_bytes=sum(map(written_bytes, image.instructions())),
    )


def predicted_recording(compilation: Compilation, memory: MemoryChannel) -> Recording:
    """The prediction as a recording: instruction n of the compilation has index n + 1, behind
    BEGIN.
    """
    todo = compilation.todo
    line = Timeline(todo, compilation.config, memory)
    ends = line.ends()
    cycles = round(max([*ends, *line.offered, 1.0]))
    tracks: dict[Engine, Track] = {
        engine: _track(_engine(line, engine), cycles)
        for engine in Engine
        if engine is not Engine.FETCH
    }
    tracks[Engine.FETCH] = _track(_fetch(line), cycles, len(todo) + 1)
    posts: dict[Engine, dict[int, int]] = {engine: {} for engine in Engine}
    for number, (job, end) in enumerate(zip(todo, ends, strict=True)):
        posts[job.engine][number + 1] = round(end) - 1
    words = {
        number + 1: round(job.moved.words)
        for number, job in enumerate(todo)
        if job.engine is Engine.LOAD and job.moved.words
    }
    return Recording(cycles=cycles, tracks={e: tracks[e] for e in Engine}, posts=posts, words=words)


def _engine(line: Timeline, engine: Engine) -> Iterable[Interval]:
    """What one engine does, instruction by instruction; its idle time is left out."""
    free = 0.0
    for number, job in enumerate(line.todo):
        if job.engine is not engine:
            continue
        index, stop = number + 1, line.stop[number]
        assert stop is not None
        start, busy = max(free, line.start[number]), line.busy[number]
        yield max(free, min(line.offered[number], start)), start, Stall.SEMAPHORE, index
        if engine is Engine.LOAD:
            # Its data come at the end; before, they are on their way.
            begin = max(start, stop - busy)
            yield start, begin, Stall.MEMORY, index
            yield begin, stop, Stall.BUSY, index
        else:
            # Where it waits for slices of others, work lies before and behind the wait.
            half = min(busy, stop - start) / 2
            yield start, start + half, Stall.BUSY, index
            yield start + half, stop - half, Stall.SEMAPHORE, index
            yield stop - half, stop, Stall.BUSY, index
        free = max(free, stop)


def _fetch(line: Timeline) -> Iterable[Interval]:
    """Fetch: reads granules, and waits for memory or for room in a queue."""
    depth = line.config.queue_depth
    before: dict[Engine, list[int]] = {engine: [] for engine in Engine}
    now = 0.0
    for number, job in enumerate(line.todo):
        handed = max(now, line.offered[number] - TAKEN)
        queue = before[job.engine]
        full = len(queue) > depth and line.left[queue[-depth - 1]] >= handed - 0.5
        reads = max(now, handed - job.granules * FETCH_GRANULE)
        yield now, reads, Stall.PIPELINE if full else Stall.MEMORY, number + 1
        yield reads, handed, Stall.BUSY, number + 1
        queue.append(number)
        now = handed


def _track(intervals: Iterable[Interval], cycles: int, last: int = 0) -> Track:
    """Whole cycles 0…`cycles` without a gap; `last`: the instruction behind the last interval."""
    rows: list[tuple[int, Stall, int]] = []
    now, index = 0, 0
    for begin, end, stall, owner in intervals:
        start, stop = max(now, round(begin)), min(round(end), cycles)
        if stop <= start:
            continue
        if start > now:
            rows.append((now, Stall.IDLE, index))
        rows.append((start, stall, owner))
        now, index = stop, owner
    if now < cycles:
        rows.append((now, Stall.IDLE, last or index))
    return _of_rows(rows, cycles)


def _of_rows(rows: Sequence[tuple[int, Stall, int]], cycles: int) -> Track:
    start = np.array([row[0] for row in rows], np.int64)
    return Track(
        start=start,
        stop=np.append(start[1:], cycles),
        index=np.array([row[2] for row in rows], np.int64),
        stall=np.array([row[1] for row in rows], np.uint8),
    )

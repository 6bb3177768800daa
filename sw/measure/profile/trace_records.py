"""What rtl/event_trace.sv wrote: the state of every engine in every cycle of a run, and its posts.

A record is a 64-bit word: cycle (36 bits), instruction index (20), engine (4), kind (4): a `Stall`
from that cycle on, or a mark. READ has, in place of the index, the bus words that LOAD has read
since the last such record; it stands behind the post of the instruction that they were for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spec.isa import Engine
from spec.memmap import Stall
from sw.runtime.simulator.errors import SimulationError

POST, LAST, READ = 15, 14, 13
Cycles = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """States of one engine: interval k runs from `start[k]` to `stop[k]` (cycles).

    index: the instruction that the engine was at. stall: a `Stall`.
    """

    start: Cycles
    stop: Cycles
    index: Cycles
    stall: NDArray[np.uint8]

    def counters(self) -> dict[str, int]:
        """Cycles in each state."""
        sums = np.bincount(self.stall, self.stop - self.start, len(Stall)).astype(np.int64)
        return {state.name.lower(): int(sums[state]) for state in Stall}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run of `cycles` cycles.

    posts: engine -> instruction index -> cycle of the instruction's last semaphore post. words:
    instruction index of LOAD -> bus words that it read (with those of LOADs before it that never
    post).
    """

    cycles: int
    tracks: Mapping[Engine, Track]
    posts: Mapping[Engine, Mapping[int, int]]
    words: Mapping[int, int]


def read_recording(path: Path) -> Recording:
    """The run in `path`; `SimulationError` if it was cut off."""
    return parse_recording(np.fromfile(path, "<u8"))


def parse_recording(words: Words) -> Recording:
    """The run that `words` record, in the order in which they were written."""
    # A run of a large network has tens of millions of records: small types where there are all.
    kind = (words >> np.uint64(60)).astype(np.uint8)
    if not len(words) or kind[-1] != LAST or (kind == LAST).sum() != 1:
        raise SimulationError("the record of the run is cut off: it has no end")
    engine = (words >> np.uint64(56)).astype(np.uint8) & 15
    total = int(_cycle(words[-1:])[0])
    tracks, posts = {}, {}
    for e in Engine:
        made = words[(engine == e) & (kind == POST)]
        # Later posts of an instruction overwrite earlier ones.
        posts[e] = dict(zip(_index(made).tolist(), _cycle(made).tolist(), strict=True))
        mine = (engine == e) & (kind < READ)
        start = _cycle(words[mine])
        tracks[e] = Track(
            start=start,
            stop=np.append(start[1:], total),
            index=_index(words[mine]),
            stall=kind[mine],
        )
    reads = np.flatnonzero(kind == READ)
    loads = np.flatnonzero((engine == Engine.LOAD) & (kind == POST))
    return Recording(cycles=total, tracks=tracks, posts=posts, words=_words(words, reads, loads))


def _cycle(words: Words) -> Cycles:
    return words.view(np.int64) & ((1 << 36) - 1)


def _index(words: Words) -> Cycles:
    return (words.view(np.int64) >> 36) & ((1 << 20) - 1)


def _words(words: Words, reads: Cycles, posts: Cycles) -> dict[int, int]:
    """Bus words by instruction: those of a READ in a post's cycle are that post's, others (a long
    way from any post) the next one's, or the last one's.
    """
    out: dict[int, int] = {}
    counts, cycles = _index(words[reads]).tolist(), _cycle(words[reads]).tolist()
    owners, made = _index(words[posts]).tolist(), _cycle(words[posts]).tolist()
    places = np.searchsorted(posts, reads).tolist()
    for count, cycle, after in zip(counts, cycles, places, strict=True):
        before = after - 1
        own = before >= 0 and (made[before] == cycle or after == len(made))
        place = before if own else after
        owner = owners[place] if place < len(owners) else 0
        out[owner] = out.get(owner, 0) + count
    return out

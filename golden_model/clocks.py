"""Vector clocks: which accesses are ordered before which.

An engine is up to three timelines. ISSUE reads operands in program order; DONE is where its
writes become visible, later than the reads they stem from but in program order; WEIGHTS (matrix
only) reads weights, which the depthwise engine does in ISSUE. There is an edge from a chunk's reads
to its writes, none back: a write may still be in flight when a later instruction of the same engine
reads.
"""

import enum

import numpy as np
from numpy.typing import NDArray

from spec.exhaustive import exhaustive
from spec.isa import Engine, Point

Clock = NDArray[np.int64]


class Timeline(enum.IntEnum):
    LOAD_ISSUE = 0
    LOAD_DONE = 1
    STORE_ISSUE = 2
    STORE_DONE = 3
    MATRIX_ISSUE = 4
    MATRIX_DONE = 5
    VECTOR_ISSUE = 6
    VECTOR_DONE = 7
    WEIGHTS = 8
    DEPTHWISE_ISSUE = 9
    DEPTHWISE_DONE = 10

    @property
    def engine(self) -> str:
        return "matrix" if self is Timeline.WEIGHTS else self.name.split("_")[0].lower()


_HERE = "golden_model.clocks"
ISSUE = exhaustive(
    _HERE,
    Engine,
    {
        Engine.LOAD: Timeline.LOAD_ISSUE,
        Engine.STORE: Timeline.STORE_ISSUE,
        Engine.MATRIX: Timeline.MATRIX_ISSUE,
        Engine.VECTOR: Timeline.VECTOR_ISSUE,
        Engine.DEPTHWISE: Timeline.DEPTHWISE_ISSUE,
    },
    without=[Engine.FETCH],
)
DONE = exhaustive(
    _HERE,
    Engine,
    {
        Engine.LOAD: Timeline.LOAD_DONE,
        Engine.STORE: Timeline.STORE_DONE,
        Engine.MATRIX: Timeline.MATRIX_DONE,
        Engine.VECTOR: Timeline.VECTOR_DONE,
        Engine.DEPTHWISE: Timeline.DEPTHWISE_DONE,
    },
    without=[Engine.FETCH],
)
_WEIGHTS = {Engine.MATRIX: Timeline.WEIGHTS}
WAITER = exhaustive(_HERE, Point, {Point.DONE: ISSUE, Point.READ: ISSUE, Point.WEIGHTS: _WEIGHTS})
POSTER = exhaustive(_HERE, Point, {Point.DONE: DONE, Point.READ: ISSUE, Point.WEIGHTS: _WEIGHTS})


def waiter(engine: Engine, point: Point) -> Timeline:
    """The timeline that a wait slot holds back."""
    return WAITER[point][engine]


def poster(engine: Engine, point: Point) -> Timeline:
    """The timeline whose accesses so far a post slot publishes."""
    return POSTER[point][engine]


class Clocks:
    """One clock per timeline; entry [t, u]: up to which epoch of u timeline t has seen."""

    def __init__(self) -> None:
        n = len(Timeline)
        self.seen = np.eye(n, dtype=np.int64)

    def epoch(self, t: Timeline) -> int:
        """The epoch with which accesses of `t` are now stamped."""
        return int(self.seen[t, t])

    def publish(self, t: Timeline) -> Clock:
        """What `t` has done and seen so far; what it does next is later."""
        snapshot = self.seen[t].copy()
        self.seen[t, t] += 1
        return snapshot

    def learn(self, t: Timeline, clock: Clock) -> None:
        np.maximum(self.seen[t], clock, out=self.seen[t])

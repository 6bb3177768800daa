"""MATRIX: the weight sequencer and the main sequencer, one fold apart."""

from collections import deque
from dataclasses import dataclass, field

from golden_model.access import Context
from golden_model.clocks import Clock, Timeline
from golden_model.engine import NOWHERE, Blocked, Coroutine, Queue, acquire, release
from golden_model.folds import folds_of
from golden_model.merging import merged
from golden_model.products import Stream, Weights, read_weights
from golden_model.program import Plan, Slots
from spec.isa import Point, Sync


@dataclass(slots=True)
class Handshake:
    """What the two sequencers tell each other. Chunks of weights are counted over the whole run.

    plans: instructions that the weight sequencer has not begun; active: the one that it is at.
    ready: weights that have been read and not been used. begun: number of chunks of weights that
    the main sequencer has begun. skip: number of upcoming chunks whose weights the main sequencer
    has already read. finished: by chunk, what the main sequencer had seen when it was done with it.
    """

    plans: deque[Plan] = field(default_factory=deque)
    active: Plan | None = None
    ready: deque[Weights] = field(default_factory=deque)
    begun: int = 0
    skip: int = 0
    finished: dict[int, Clock] = field(default_factory=dict)

    def position(self) -> int:
        """Index of the instruction that the weight sequencer is at."""
        if self.active is not None:
            return self.active.index
        return self.plans[0].index if self.plans else NOWHERE


def weight_sequencer(context: Context, shared: Handshake) -> Coroutine:
    """Reads weights up to one fold ahead of the main sequencer."""
    clocks = context.clocks
    number = 0
    while True:
        while not shared.plans:
            yield Blocked("matrix (weights)", None, "has no instruction")
        plan = shared.active = shared.plans.popleft()
        folds = folds_of(plan)
        for chunk in range(folds.chunks.size):
            ahead = Blocked("matrix (weights)", plan.index, "waits for the fold before to begin")
            while shared.begun < number:
                yield ahead
            start, end = folds.chunks.starts[chunk], folds.chunks.ends[chunk]
            yield from acquire(context, plan, _weights(plan.waits, start), " (weights)")
            # Hardware reads up to a fold earlier than this, and has then seen less.
            if clocks is not None and (before := shared.finished.pop(number - 3, None)) is not None:
                clocks.learn(Timeline.WEIGHTS, before)
            if shared.skip:
                shared.skip -= 1
            else:
                shared.ready.append(read_weights(context, plan, chunk))
            # Progress even if this sequencer is held back next: the main one can go on.
            yield None
            if folds.steps(chunk).size > 1:
                # Folds after the first wait for the main sequencer to begin this chunk.
                while shared.begun <= number:
                    yield ahead
            release(context, plan, _weights(plan.posts, end))
            number += 1
            yield None
        shared.active = None


def _weights(slots: tuple[Sync, ...], level: int) -> Slots:
    """The weight sequencer's slots of `level` and deeper; chunks end wherever one acts."""
    return [(s, 1) for s in slots if s.point is Point.WEIGHTS and s.level >= level]


def main_sequencer(context: Context, queue: Queue, shared: Handshake) -> Coroutine:
    """Streams activations through the weights that the other sequencer has read."""
    clocks = context.clocks
    while True:
        while not queue.waiting:
            yield Blocked(queue.name, None, "has no instruction")
        plan = queue.waiting.popleft()
        queue.active = plan
        folds = folds_of(plan)
        weight_chunk = -1
        following = 0
        while following < plan.chunks.size:
            first = following
            yield from acquire(context, plan, plan.main_waits(first))
            part, chunk, following = merged(context, plan, first)
            # Level 0 begins with the first chunk, so `weights` is always set there.
            if plan.chunks.starts[first] <= folds.level:
                while not shared.ready:
                    yield Blocked(queue.name, plan.index, "waits for its weights")
                weights = shared.ready.popleft()
                begun = sum(s <= folds.level for s in plan.chunks.starts[first:following])
                weight_chunk += begun
                shared.begun += begun
                # No slot of the weight sequencer acts in between: all weights are still there.
                again = part is not plan and part.level <= folds.level
                shared.skip += begun - 1 if again else 0
                if clocks is not None and weights.read is not None:
                    clocks.learn(Timeline.MATRIX_ISSUE, weights.read)
                yield None
                if again:
                    weights = read_weights(context, part, chunk)
            of_part = chunk if part.level <= folds.level else weight_chunk
            Stream(context, part, chunk, of_part, weights).execute()
            if clocks is not None and plan.chunks.ends[chunk] <= folds.level:
                finished = clocks.publish(Timeline.MATRIX_ISSUE)
                shared.finished[shared.begun - 1] = finished
            release(context, part, part.main_posts(chunk))
            yield None
        queue.active = None

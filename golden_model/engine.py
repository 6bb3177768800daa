"""What every engine does around its operator: take instructions, wait, execute, post."""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cached_property

from golden_model.access import Context
from golden_model.clocks import poster, waiter
from golden_model.merging import merged
from golden_model.program import Plan, Slots
from spec.isa import Engine


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a coroutine cannot go on now; `index` is None when it merely has no work."""

    engine: str
    index: int | None
    why: str


Coroutine = Generator[Blocked | None, None, None]
"""Yields None after progress, `Blocked` when it must be resumed later."""

Execute = Callable[[Context, Plan, int], None]
"""Executes chunk i of a plan."""


NOWHERE = 1 << 62
"""The position of a sequencer without an instruction: after all others."""


@dataclass
class Queue:
    """An engine's instruction queue. `active`: instructions taken but not completed."""

    engine: Engine
    depth: int
    waiting: deque[Plan] = field(default_factory=deque)
    active: Plan | None = None

    @property
    def full(self) -> bool:
        return len(self.waiting) >= self.depth

    @property
    def idle(self) -> bool:
        return not self.waiting and self.active is None

    def position(self) -> int:
        """Index of the instruction that the engine is at."""
        if self.active is not None:
            return self.active.index
        return self.waiting[0].index if self.waiting else NOWHERE

    @cached_property
    def name(self) -> str:
        return self.engine.name.lower()


def acquire(context: Context, plan: Plan, slots: Slots, part: str = "") -> Coroutine:
    """Take every slot in order; waiting slots act once."""
    for slot, _ in slots:
        while not context.semaphores.take(slot, waiter(plan.engine, slot.point)):
            held = context.semaphores.values[slot.sem]
            yield Blocked(
                plan.engine.name.lower() + part,
                plan.index,
                f"waits for {slot.amount} of semaphore {slot.sem}, which holds {held}",
            )


def release(context: Context, plan: Plan, slots: Slots) -> None:
    """Post every slot, as often as it acts."""
    for slot, times in slots:
        context.semaphores.post(slot, poster(plan.engine, slot.point), plan.index, times)


def engine(context: Context, queue: Queue, execute: Execute) -> Coroutine:
    """All but matrix: one sequencer."""
    while True:
        while not queue.waiting:
            yield Blocked(queue.name, None, "has no instruction")
        plan = queue.waiting.popleft()
        queue.active = plan
        following = 0
        while following < plan.chunks.size:
            yield from acquire(context, plan, plan.main_waits(following))
            part, chunk, following = merged(context, plan, following)
            execute(context, part, chunk)
            release(context, part, part.main_posts(chunk))
            yield None
        queue.active = None

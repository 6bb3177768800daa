"""Which sequencer runs next, and what it means when none can."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from golden_model.access import Context
from golden_model.engine import Blocked, Coroutine
from golden_model.errors import DeadlockError


@dataclass(frozen=True, slots=True)
class Sequencer:
    """A coroutine and the index of the instruction that it is at."""

    coroutine: Coroutine
    position: Callable[[], int]


def schedule(context: Context, sequencers: Sequence[Sequencer]) -> None:
    """Run until the last sequencer (fetch) returns; `DeadlockError` if nothing can go on.

    Any order gives the same results if the program has no hazard. With checks the sequencer at
    the earliest instruction goes first, so that a missing semaphore is reported as the race that
    it is; without, each runs as far as it can, which costs fewer resumptions.
    """
    order = list(sequencers)
    checking = context.hazards is not None
    while True:
        if checking:
            order.sort(key=lambda s: s.position())
        progress = False
        blocked: list[Blocked] = []
        for sequencer in order:
            try:
                while (state := next(sequencer.coroutine)) is None:
                    progress = True
                    if checking:
                        break
            except StopIteration:
                return
            if state is not None:
                blocked.append(state)
            elif checking:
                break
        semaphores = context.semaphores
        if progress:
            semaphores.deferred = None
            continue
        if semaphores.deferred is None or semaphores.granted is not None:
            raise _deadlock(context, blocked)
        semaphores.granted, semaphores.deferred = semaphores.deferred, None


def _deadlock(context: Context, blocked: list[Blocked]) -> DeadlockError:
    describe = context.program.describe
    lines = [
        f"  {b.engine} at instruction {b.index} {b.why}: `{describe(b.index)}`"
        for b in blocked
        if b.index is not None
    ]
    return DeadlockError("deadlock: no engine can go on\n" + "\n".join(lines))

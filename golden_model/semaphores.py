"""Counting semaphores, and what a wait proves about the posts it has waited for."""

from collections import deque
from collections.abc import Sequence

from golden_model.clocks import Clock, Clocks, Timeline
from golden_model.errors import HazardError, MachineFault
from spec.config import NpuConfig
from spec.isa import Sync
from spec.memmap import Fault


class Semaphores:
    """`values[s]`: the counts. With `clocks`, waits also carry order from posts to waiters.

    A wait is ordered after a post only if no timing lets the wait pass without that post. With
    one posting timeline the posts are taken in their order. Where several timelines post to one
    semaphore, the wait is `deferred` until nothing else can go on; the scheduler then grants it.
    By then the other timelines have posted as often as they can. The wait is ordered after a
    timeline's posts only if the posts of all others would not have sufficed.
    """

    def __init__(self, config: NpuConfig, clocks: Clocks | None = None) -> None:
        self.values = [0] * config.semaphores
        self.maximum = (1 << config.sem_bits) - 1
        self.clocks = clocks
        self.shared: frozenset[int] = frozenset()
        self.deferred: int | None = None
        self.granted: int | None = None
        self._taken = [0] * config.semaphores
        self._surely_taken = [0] * config.semaphores
        self._takes: list[deque[tuple[Timeline, int, int]]] = [
            deque() for _ in range(config.semaphores)
        ]
        self._posted: list[dict[Timeline, int]] = [{} for _ in range(config.semaphores)]
        self._pending: list[dict[Timeline, deque[tuple[int, Clock]]]] = [
            {} for _ in range(config.semaphores)
        ]

    def take(self, slot: Sync, timeline: Timeline) -> bool:
        """Take the slot's amount if it is there; False: blocked."""
        if self.values[slot.sem] < slot.amount:
            return False
        if slot.sem in self.shared and self.granted != slot.sem:
            self.deferred = slot.sem
            return False
        if slot.sem == self.granted:
            self.granted = None
        self.values[slot.sem] -= slot.amount
        if self.clocks is not None:
            self._order(slot, timeline, self.clocks)
        return True

    def take_all(self, slots: Sequence[tuple[Sync, int]]) -> bool:
        """Take what all slots together take, each as often as it acts, or nothing."""
        needed: dict[int, int] = {}
        for slot, times in slots:
            needed[slot.sem] = needed.get(slot.sem, 0) + slot.amount * times
        if any(self.values[semaphore] < amount for semaphore, amount in needed.items()):
            return False
        for semaphore, amount in needed.items():
            self.values[semaphore] -= amount
        return True

    def post(self, slot: Sync, timeline: Timeline, index: int, times: int = 1) -> None:
        """Add the slot's amount `times` times; `MachineFault` past the maximum."""
        fit = (self.maximum - self.values[slot.sem]) // slot.amount
        self.values[slot.sem] += slot.amount * min(times, fit)
        if times > fit:
            raise MachineFault(
                Fault.SEMAPHORE_OVERFLOW,
                timeline.engine,
                index,
                f"semaphore {slot.sem} holds {self.values[slot.sem]}, adding {slot.amount} passes "
                f"{self.maximum}; wait for it more often or post less",
            )
        if self.clocks is not None:
            posted = self._posted[slot.sem]
            before = posted.get(timeline, 0)
            posted[timeline] = before + slot.amount
            queue = self._pending[slot.sem].setdefault(timeline, deque())
            queue.append((before, self.clocks.publish(timeline)))
            self._check_overflow(slot, timeline, index, self.clocks)

    def _check_overflow(self, slot: Sync, timeline: Timeline, index: int, clocks: Clocks) -> None:
        """Count only the takes that are ordered before this post: the others may come later."""
        takes = self._takes[slot.sem]
        while takes and takes[0][1] <= clocks.seen[timeline, takes[0][0]]:
            self._surely_taken[slot.sem] = takes.popleft()[2]
        posted = sum(self._posted[slot.sem].values())
        most = posted - self._surely_taken[slot.sem]
        if most > self.maximum:
            raise HazardError(
                f"{timeline.engine} at instruction {index} posts {slot.amount} to semaphore "
                f"{slot.sem}: if its waiter is slow it may hold {most}, more than {self.maximum}; "
                f"let {timeline.engine} wait for the waiter, or post less",
                timeline.engine,
                index,
                "semaphore",
                slot.sem,
            )

    def _order(self, slot: Sync, timeline: Timeline, clocks: Clocks) -> None:
        self._taken[slot.sem] += slot.amount
        taken = self._taken[slot.sem]
        self._takes[slot.sem].append((timeline, clocks.epoch(timeline), taken))
        posted = self._posted[slot.sem]
        total = sum(posted.values())
        for source, queue in self._pending[slot.sem].items():
            others = total - posted[source]
            while queue and queue[0][0] + others < taken:
                clocks.learn(timeline, queue.popleft()[1])

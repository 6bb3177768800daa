"""Which task of a campaign is next.

Tasks become ready when all that they need has passed. Lint and builds come first, then tasks for
the simulator that the worker has at hand, then the plan's order.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence

from sw.campaign.engine.resources import Resources, needs_of
from sw.results.store import Run
from sw.results.task import Kind, Status, Task

_PREPARE = (Kind.LINT, Kind.BUILD)
_GOOD = (Status.WAITING, Status.RUNNING, Status.PASSED)

Group = tuple[bool, str, str, tuple[tuple[str, float], ...]]
"""Prepares others, device, configuration, needs: its members are equals for a worker."""


class Agenda:
    """The tasks that wait, by what they wait for."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._status = {run.task.key: run.status for run in runs}
        self._title = {run.task.key: run.task.title for run in runs}
        self._place = {run.id: place for place, run in enumerate(runs)}
        self._waiting: dict[int, Run] = {}
        self._missing: dict[int, set[str]] = {}
        self._dependents: dict[str, list[Run]] = {}
        self._ready: dict[Group, list[tuple[int, Run]]] = {}
        self._blocked: list[tuple[Run, str]] = []
        for run in runs:
            if run.status is Status.WAITING:
                self._enter(run)

    def __len__(self) -> int:
        """How many tasks wait, ready or not."""
        return len(self._waiting)

    def waiting(self) -> Iterator[Task]:
        return (run.task for run in self._waiting.values())

    def has_ready(self) -> bool:
        return bool(self._ready)

    def needs(self) -> dict[tuple[tuple[str, float], ...], Task]:
        """What ready tasks need, each with the first task that needs it."""
        found: dict[tuple[tuple[str, float], ...], Task] = {}
        for group, heap in self._ready.items():
            found.setdefault(group[3], heap[0][1].task)
        return found

    def next(self, last: Task | None, fits: Callable[[Resources], bool]) -> Run | None:
        """Take the next ready task whose needs fit; `last`: what its worker had before."""
        best: tuple[tuple[bool, bool, int], Group] | None = None
        for group, heap in self._ready.items():
            prepares, device, digest, needs = group
            alike = last is not None and (device, digest) == (last.device, last.digest)
            rank = (not prepares, not alike, heap[0][0])
            if (best is None or rank < best[0]) and fits(dict(needs)):
                best = rank, group
        if best is None:
            return None
        heap = self._ready[best[1]]
        _, run = heapq.heappop(heap)
        if not heap:
            del self._ready[best[1]]
        del self._waiting[run.id]
        self._status[run.task.key] = Status.RUNNING
        return run

    def put_back(self, run: Run) -> None:
        """A task that was taken did not come to its end: it is ready again."""
        self._status[run.task.key] = Status.WAITING
        self._enter(run)

    def finish(self, task: Task, status: Status) -> None:
        """A task has come to its end: others become ready, or never will."""
        self._status[task.key] = status
        for run in self._dependents.pop(task.key, ()):
            if run.id not in self._waiting:
                continue
            if status is Status.PASSED:
                self._missing[run.id].discard(task.key)
                if not self._missing[run.id]:
                    self._make_ready(run)
            else:
                self._block(run, f"did not run: {self._title[task.key]} {status}")

    def take_blocked(self) -> Iterator[tuple[Run, str]]:
        """Tasks that can never run, with the reason; those that need them follow.

        The caller finishes each before it takes the next.
        """
        while self._blocked:
            yield self._blocked.pop(0)

    def give_up(self) -> None:
        """Nothing can become ready any more: what still waits needs itself, in a circle."""
        for run in list(self._waiting.values()):
            self._block(run, "did not run: what it needs needs itself in turn")

    def _enter(self, run: Run) -> None:
        self._waiting[run.id] = run
        for key in run.task.needs:
            status = self._status.get(key)
            if status not in _GOOD:
                text = f"{self._title[key]} {status}" if status else f"needs {key}, not planned"
                self._block(run, f"did not run: {text}")
                return
        missing = {k for k in run.task.needs if self._status[k] is not Status.PASSED}
        self._missing[run.id] = missing
        for key in missing:
            self._dependents.setdefault(key, []).append(run)
        if not missing:
            self._make_ready(run)

    def _block(self, run: Run, reason: str) -> None:
        del self._waiting[run.id]
        self._blocked.append((run, reason))

    def _make_ready(self, run: Run) -> None:
        task = run.task
        needs = tuple(sorted(needs_of(task).items()))
        group = (task.kind in _PREPARE, task.device, task.digest, needs)
        heapq.heappush(self._ready.setdefault(group, []), (self._place[run.id], run))


def build_limits(runs: Sequence[Run]) -> dict[str, float]:
    """Seconds that the build of a configuration's simulator may take, by its digest."""
    builds = (run.task for run in runs if run.task.kind is Kind.BUILD)
    return {digest: max(t.limit_s for t in tasks) for digest, tasks in _by_digest(builds)}


def _by_digest(tasks: Iterator[Task]) -> Iterator[tuple[str, list[Task]]]:
    ordered = sorted(tasks, key=lambda task: task.digest)
    for digest, members in itertools.groupby(ordered, key=lambda task: task.digest):
        yield digest, list(members)

"""How long a campaign still takes, from how long its tasks took so far."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sw.results.task import Task

_LEAST = 3
"""Tasks that must have ended before anything is said."""

Names = tuple[tuple[str, ...], ...]


class Estimate:
    """Mean seconds of tasks, by what they are: the workload on a configuration and a device, else
    the kind on a device, else all."""

    def __init__(self, waiting: Iterable[Task]) -> None:
        self._means: dict[tuple[str, ...], tuple[int, float]] = {}
        self._waiting = Counter(map(_names, waiting))

    def wait(self, task: Task) -> None:
        """A task that had started waits again."""
        self._waiting[_names(task)] += 1

    def start(self, task: Task) -> None:
        """A task waits no more."""
        self._waiting[_names(task)] -= 1

    def add(self, task: Task, seconds: float) -> None:
        """A task took so long."""
        for name in _names(task):
            count, total = self._means.get(name, (0, 0.0))
            self._means[name] = count + 1, total + seconds

    def left_s(self, running: Sequence[tuple[Task, float]], slots: int) -> float | None:
        """Seconds until all are done on `slots` workers; None while too little is known."""
        if self._means.get((), (0, 0.0))[0] < _LEAST or slots < 1:
            return None
        rest = sum(count * self._of(names) for names, count in self._waiting.items())
        ends = [max(0.0, self._of(_names(task)) - seconds) for task, seconds in running]
        return max((rest + sum(ends)) / slots, max(ends, default=0.0))

    def _of(self, names: Names) -> float:
        for name in names:
            if name in self._means:
                count, total = self._means[name]
                return total / count
        return 0.0


def _names(task: Task) -> Names:
    """From the closest kin to everybody."""
    kind = (task.kind.value, task.device)
    name = task.workload.partition(":")[0]
    return (*kind, name, task.digest), (*kind, name), kind, ()

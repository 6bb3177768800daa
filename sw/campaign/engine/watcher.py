"""Who sees a campaign go on."""

from collections.abc import Sequence
from typing import Protocol

from sw.results.task import Outcome, Task


class Watcher(Protocol):
    """Sees a campaign go on (`sw.campaign.progress`)."""

    def begin(self, done: int, total: int) -> None:
        """`done` of `total` rows are there from before."""

    def team(self, workers: Sequence[str]) -> None:
        """These workers take tasks from now on."""

    def tick(self, running: Sequence[tuple[Task, float]], left_s: float | None = None) -> None:
        """About once a second: what is running, for how many seconds; seconds that are left."""

    def end(self, task: Task, outcome: Outcome, seconds: float) -> None:
        """A task has come to its end."""

    def say(self, text: str) -> None:
        """Something that people should know: a worker was lost, a resource is missing."""

"""A campaign under way: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sw.measure.campaign.runner import Watcher
from sw.measure.campaign.task import Outcome, Status, Task

_SILENCE_S = 30.0


@contextmanager
def show_progress() -> Iterator[Watcher]:
    """A watcher that shows what goes on, on standard output."""
    if not sys.stdout.isatty():
        yield Lines(sys.stdout)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(highlight=False), transient=True) as bar:
        yield Bar(bar)


class Lines:
    """A line per task that ends; every half minute of silence one about what is running."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._done = self._total = 0
        self._said = time.monotonic()

    def begin(self, done: int, total: int) -> None:
        self._done, self._total = done, total
        if done:
            self._say(f"{done} of {total} are there from before")

    def tick(self, running: Sequence[tuple[Task, float]]) -> None:
        if time.monotonic() - self._said > _SILENCE_S:
            self._say("running: " + ", ".join(f"{t.title} ({s:.0f} s)" for t, s in running))

    def end(self, task: Task, outcome: Outcome, seconds: float) -> None:
        self._done += 1
        self._say(f"[{self._done}/{self._total}] {ended(task, outcome, seconds)}")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        self._out.write(text + "\n")
        self._out.flush()


class Bar:
    """One bar; what does not pass is printed above it."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)
        self._bad = 0

    def begin(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def tick(self, running: Sequence[tuple[Task, float]]) -> None:
        names = ", ".join(f"{short(task)} {seconds:.0f} s" for task, seconds in running)
        bad = f"[red]{self._bad} bad[/] " if self._bad else ""
        self._bar.update(self._task, description=bad + names)

    def end(self, task: Task, outcome: Outcome, seconds: float) -> None:
        self._bar.advance(self._task)
        if outcome.status is not Status.PASSED:
            self._bad += 1
            self._bar.console.print(ended(task, outcome, seconds), markup=False)


def ended(task: Task, outcome: Outcome, seconds: float) -> str:
    """One line about a task that has ended."""
    parts = [f"{outcome.status.value:7}", task.title]
    if outcome.cycles is not None:
        parts.append(f"{outcome.cycles:,} cycles")
    if outcome.status is not Status.BLOCKED:
        parts.append(f"{seconds:.1f} s")
    if outcome.message:
        parts.append(outcome.message.splitlines()[0])
    return "  ".join(parts)


def short(task: Task) -> str:
    """The title without the shape, for a line that has to hold several."""
    name = task.workload.partition(":")[0] or task.kind.value
    return " ".join(filter(None, (name, task.config_name, task.device)))

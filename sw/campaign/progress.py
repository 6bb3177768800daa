"""A campaign under way: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sw.campaign.engine.watcher import Watcher
from sw.results.task import Outcome, Status, Task

_SILENCE_S = 30.0
_NAMES = 8
"""Names in a line; there may be hundreds of workers."""


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
        self._workers: list[str] = []

    def begin(self, done: int, total: int) -> None:
        self._done, self._total = done, total
        if done:
            self.say(f"{done} of {total} are there from before")

    def team(self, workers: Sequence[str]) -> None:
        if workers != self._workers:
            self._workers = list(workers)
            self.say(f"{counted(len(workers), 'worker')}: {some(workers)}")

    def tick(self, running: Sequence[tuple[Task, float]], left_s: float | None = None) -> None:
        if time.monotonic() - self._said > _SILENCE_S:
            names = some([f"{task.title} ({seconds:.0f} s)" for task, seconds in running])
            ends = f"; about {span(left_s)} left" if left_s is not None else ""
            self.say(f"running: {names}{ends}")

    def end(self, task: Task, outcome: Outcome, seconds: float) -> None:
        self._done += 1
        self.say(f"[{self._done}/{self._total}] {ended(task, outcome, seconds)}")

    def say(self, text: str) -> None:
        self._said = time.monotonic()
        self._out.write(text + "\n")
        self._out.flush()


class Bar:
    """One bar; what does not pass is printed above it."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)
        self._bad = 0
        self._workers = 0

    def begin(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def team(self, workers: Sequence[str]) -> None:
        self._workers = len(workers)

    def tick(self, running: Sequence[tuple[Task, float]], left_s: float | None = None) -> None:
        names = some([f"{short(task)} {seconds:.0f} s" for task, seconds in running])
        bad = f"[red]{self._bad} bad[/] " if self._bad else ""
        ends = f", {span(left_s)} left" if left_s is not None else ""
        workers = counted(self._workers, "worker")
        self._bar.update(self._task, description=f"{bad}{workers}{ends}: {names}")

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False)

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


def counted(number: int, noun: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def some(names: Sequence[str]) -> str:
    """The first names of a list that may be long."""
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def span(seconds: float) -> str:
    """Seconds for people: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def short(task: Task) -> str:
    """The title without the shape, for a line that has to hold several."""
    name = task.workload.partition(":")[0] or task.kind.value
    return " ".join(filter(None, (name, task.config_name, task.device)))

"""Measures the engine itself: `python -m sw.campaign.engine.load --tasks 10000 --jobs 2`.

The tasks do nothing, so that all the time is the engine's: the agenda, Dask, the children, and the
database, which is a file in a temporary folder. It prints tasks a second, processor time of the
campaign's process (scheduler and workers are in it) and its memory.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from spec.config import preset
from sw.campaign.engine.child import Tell
from sw.campaign.engine.runner import Engine
from sw.results.store import Store
from sw.results.task import Kind, Outcome, Status, Task
from sw.runtime.scratch import Scratch


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What carrying out `tasks` took: seconds, processor seconds, and memory in bytes."""

    tasks: int
    start_s: float
    seconds: float
    cpu_s: float
    memory_before: int
    memory: int

    def __str__(self) -> str:
        return (
            f"{self.tasks:,} tasks in {self.seconds:.1f} s: {self.tasks / self.seconds:,.0f} a "
            f"second; processor {self.cpu_s / self.tasks * 1e3:.2f} ms a task; the engine started "
            f"in {self.start_s:.2f} s; memory of the campaign's process {self.memory >> 20} MiB, "
            f"{self.memory_before >> 20} MiB before"
        )


class Silent:
    """A watcher that shows nothing."""

    def begin(self, done: int, total: int) -> None: ...

    def team(self, workers: Sequence[str]) -> None: ...

    def tick(self, running: Sequence[tuple[Task, float]], left_s: float | None = None) -> None: ...

    def end(self, task: Task, outcome: Outcome, seconds: float) -> None: ...

    def say(self, text: str) -> None:
        sys.stderr.write(text + "\n")


def nothing(tell: Tell) -> Callable[[Task], Outcome]:
    """What a child carries out here: every task passes at once."""
    return lambda task: Outcome(status=Status.PASSED, figures={"seed": task.seed})


def measure(tasks: int, jobs: int, database: Path, scheduler: str = "") -> Load:
    """Carry out so many tasks that do nothing, and check that each has its row."""
    tiny = preset("tiny")
    plan = [
        Task(kind=Kind.RUN, config=tiny, workload="nothing", device="golden", seed=seed)
        for seed in range(tasks)
    ]
    process = psutil.Process()
    before, start = process.memory_info().rss, time.monotonic()
    carry_out = "sw.campaign.engine.load:nothing"
    with Engine(jobs, scheduler, carry_out=carry_out) as engine, Store(database) as store:
        _ = engine.client
        started = time.monotonic()
        campaign = store.campaign("load", "load", plan, options={})
        cpu, begun = time.process_time(), time.monotonic()
        runs = engine.run(campaign, Silent())
        done = time.monotonic()
        load = Load(
            tasks=tasks,
            start_s=started - start,
            seconds=done - begun,
            cpu_s=time.process_time() - cpu,
            memory_before=before,
            memory=process.memory_info().rss,
        )
        campaign.close(complete=True)
    if any(r.outcome is None or r.outcome.figures != {"seed": r.task.seed} for r in runs):
        raise AssertionError("a row does not have what its task gave")
    return load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--scheduler", default="")
    options = parser.parse_args()
    with Scratch("load") as scratch:
        load = measure(options.tasks, options.jobs, scratch.path / "load.sqlite", options.scheduler)
    sys.stdout.write(f"{load}\n")


if __name__ == "__main__":
    main()

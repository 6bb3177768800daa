"""Tasks that misbehave on purpose, for tests of the engine; and a watcher that remembers."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from spec import preset
from sw.campaign.engine.child import Tell
from sw.campaign.engine.runner import Engine
from sw.results.store import Run, Store
from sw.results.task import Kind, Outcome, Status, Task

CARRY_OUT = "engine_stubs:by_workload"
TINY = preset("tiny")


def by_workload(tell: Tell) -> Callable[[Task], Outcome]:
    """What a child carries out: the workload is `what:argument`."""
    return lambda task: _carry_out(task, tell)


def _carry_out(task: Task, tell: Tell) -> Outcome:
    what, _, argument = task.workload.partition(":")
    if what == "sleep":
        time.sleep(float(argument))
    elif what == "wait":
        while not Path(argument).exists():
            time.sleep(0.05)
    elif what == "die":
        sys.stderr.write("these are its last words\n")
        sys.stderr.flush()
        os._exit(3)
    elif what == "die-once":
        if not Path(argument).exists():
            Path(argument).touch()
            os._exit(3)
    elif what == "hold":
        subprocess.run([sys.executable, "-c", f"x = bytearray({argument} << 20); input()"])
    elif what == "build":
        tell.stage("build")
        time.sleep(float(argument))
        tell.stage("run")
    elif what == "partial":
        tell.partial(Outcome(status=Status.FAILED, message="wrong"))
        os._exit(3)
    elif what == "fail":
        return Outcome(status=Status.FAILED, message="wrong")
    return Outcome(status=Status.PASSED, figures={"pid": os.getpid(), "seed": task.seed})


def stub(workload: str, seed: int = 0, **values: object) -> Task:
    facts = {"kind": Kind.RUN, "config": TINY, "device": "golden"}
    return Task(**{**facts, "workload": workload, "seed": seed, **values})


class Memo:
    """A watcher that remembers what it heard."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.ended: list[str] = []
        self.teams: list[list[str]] = []
        self.on_tick: Callable[[], None] = lambda: None
        self.left: list[float | None] = []

    def begin(self, done: int, total: int) -> None:
        self.said.append(f"{done} of {total}")

    def team(self, workers: Sequence[str]) -> None:
        self.teams.append(list(workers))

    def tick(self, running: Sequence[tuple[Task, float]], left_s: float | None = None) -> None:
        self.left.append(left_s)
        self.on_tick()

    def end(self, task: Task, outcome: Outcome, seconds: float) -> None:
        self.ended.append(task.title)

    def say(self, text: str) -> None:
        self.said.append(text)


def run_stubs(
    folder: Path, *tasks: Task, jobs: int = 1, memo: Memo | None = None, scheduler: str = ""
) -> list[Run]:
    """The rows of a campaign of these tasks."""
    engine = Engine(jobs, scheduler, carry_out=CARRY_OUT)
    with engine, Store(folder / "results.sqlite") as store:
        campaign = store.campaign("regress", "stubs", tasks, options={})
        try:
            return engine.run(campaign, memo or Memo())
        finally:
            campaign.close(complete=True)

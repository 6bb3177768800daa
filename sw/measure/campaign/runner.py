"""Carries out a campaign: hands tasks to worker processes until none is left."""

import selectors
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sw.measure.campaign.pool import Worker
from sw.measure.campaign.store import Campaign, Run
from sw.measure.campaign.task import Kind, Outcome, Status, Task
from sw.runtime.scratch import Scratch

_TICK_S = 1.0


class Watcher(Protocol):
    """Sees a campaign go on (`sw.measure.campaign.progress`)."""

    def begin(self, done: int, total: int) -> None:
        """`done` of `total` rows are there from before."""

    def tick(self, running: Sequence[tuple[Task, float]]) -> None:
        """About once a second: what is running, for how many seconds."""

    def end(self, task: Task, outcome: Outcome, seconds: float) -> None:
        """A task has come to its end."""


def run_campaign(campaign: Campaign, jobs: int, watcher: Watcher) -> list[Run]:
    """Run what waits, `jobs` tasks at a time; returns every row of the campaign.

    An interruption (Ctrl-C) ends the workers, puts their tasks back and goes on to the caller.
    """
    with Scratch("campaign") as scratch:
        loop = _Loop(campaign, jobs, watcher, scratch.path)
        try:
            loop.run()
        finally:
            loop.close()
    return campaign.runs()


class _Loop:
    def __init__(self, campaign: Campaign, jobs: int, watcher: Watcher, folder: Path) -> None:
        self._campaign, self._jobs, self._watcher, self._folder = campaign, jobs, watcher, folder
        rows = campaign.runs()
        self._total = len(rows)
        self._waiting = [row for row in rows if row.status is Status.WAITING]
        self._status = {row.task.key: row.status for row in rows}
        self._title = {row.task.key: row.task.title for row in rows}
        self._selector = selectors.DefaultSelector()
        self._workers: list[Worker] = []
        self._busy: dict[Worker, tuple[Run, float]] = {}
        self._started = 0

    def run(self) -> None:
        self._watcher.begin(self._total - len(self._waiting), self._total)
        ticked = 0.0
        while True:
            self._block()
            self._hand_out()
            if not self._busy:
                return
            self._listen()
            if time.monotonic() - ticked >= _TICK_S:
                ticked = time.monotonic()
                self._watcher.tick([(r.task, ticked - t) for r, t in self._busy.values()])

    def close(self) -> None:
        """End every worker; what they were at waits again."""
        for worker in self._workers:
            worker.kill()
        for run, _ in self._busy.values():
            self._campaign.release(run.id)
        self._busy.clear()
        self._selector.close()

    def _block(self) -> None:
        """What needs a task that did not pass is done without having run, and so on."""
        changed = True
        while changed:
            changed = False
            for run in list(self._waiting):
                bad = next((k for k in run.task.needs if self._is_lost(k)), None)
                if bad is not None:
                    self._waiting.remove(run)
                    message = f"did not run: {self._title[bad]} {self._status[bad]}"
                    self._finish(run, Outcome(status=Status.BLOCKED, message=message), 0.0)
                    changed = True

    def _is_lost(self, key: str) -> bool:
        good = (Status.WAITING, Status.RUNNING, Status.PASSED)
        return self._status[key] not in good

    def _hand_out(self) -> None:
        while len(self._busy) < self._jobs:
            worker = next((w for w in self._workers if w.task is None), None)
            run = self._next(worker.last if worker else None)
            if run is None:
                return
            self._waiting.remove(run)
            worker = worker or self._hire()
            self._campaign.start(run.id)
            self._status[run.task.key] = Status.RUNNING
            self._busy[worker] = (run, time.monotonic())
            worker.assign(run.task)

    def _next(self, last: Task | None) -> Run | None:
        """The next task that can run: a preparing one, else one for the simulator that runs."""
        ready = [
            run
            for run in self._waiting
            if all(self._status[k] is Status.PASSED for k in run.task.needs)
        ]
        prepare = (r for r in ready if r.task.kind in (Kind.LINT, Kind.BUILD))
        same = (r for r in ready if last is not None and _alike(r.task, last))
        return next(prepare, next(same, ready[0] if ready else None))

    def _hire(self) -> Worker:
        self._started += 1
        worker = Worker(self._folder, self._started)
        self._workers.append(worker)
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)
        return worker

    def _listen(self) -> None:
        patience = min((w.remaining_s for w in self._busy), default=_TICK_S)
        for key, _ in self._selector.select(max(0.0, min(_TICK_S, patience))):
            worker: Worker = key.data
            outcome = worker.outcome()
            if worker.dead:
                self._dismiss(worker)
            if outcome is not None:
                self._done(worker, outcome)
        for worker in [w for w in self._busy if w.remaining_s <= 0]:
            outcome = worker.out_of_time()
            self._dismiss(worker)
            self._done(worker, outcome)

    def _done(self, worker: Worker, outcome: Outcome) -> None:
        if worker not in self._busy:
            return  # it died between two tasks
        run, start = self._busy.pop(worker)
        worker.free()
        self._finish(run, outcome, time.monotonic() - start)

    def _finish(self, run: Run, outcome: Outcome, seconds: float) -> None:
        self._campaign.finish(run.id, outcome)
        self._status[run.task.key] = outcome.status
        self._watcher.end(run.task, outcome, seconds)

    def _dismiss(self, worker: Worker) -> None:
        self._selector.unregister(worker.answers)
        self._workers.remove(worker)
        worker.kill()


def _alike(task: Task, last: Task) -> bool:
    return (task.device, task.digest) == (last.device, last.digest)

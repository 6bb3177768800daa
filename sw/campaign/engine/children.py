"""Child processes of a worker: each carries out one task at a time, and can be ended.

A thread of a Dask worker cannot be stopped; a process can. A child keeps its imports and its last
simulator from task to task. It dies with its worker; its simulators and compilers die with it.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sw.campaign.engine.child import IDLE_S
from sw.campaign.engine.memory import tree_bytes
from sw.campaign.engine.order import Order, Report
from sw.results.revision import ROOT
from sw.results.task import Outcome, Status, Task
from sw.runtime.scratch import Scratch
from sw.runtime.simulator.guarded import Guarded

DIAGNOSIS_S = 600.0
"""More seconds for a task that is known to have failed and looks for the first wrong layer."""
_TICK_S = 0.25
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Clock:
    """A task's time: its own, and apart from that the time of its simulator's build."""

    def __init__(self, order: Order) -> None:
        self._build_s = order.build_limit_s
        self._text = f"not done after {order.task.limit_s:g} s: ended by force"
        self._end = time.monotonic() + order.task.limit_s
        self._kept: float | None = None

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    @property
    def message(self) -> str:
        """What to say when nothing is left."""
        if self._kept is not None:
            return f"its simulator was not built after {self._build_s:g} s: ended by force"
        return self._text

    def stage(self, name: str) -> None:
        """`build` stops the task's own time, `run` lets it go on."""
        if name == "build" and self._kept is None:
            self._kept = self.left_s
            self._end = time.monotonic() + self._build_s
        elif name == "run" and self._kept is not None:
            self._end, self._kept = time.monotonic() + self._kept, None

    def diagnose(self) -> None:
        self._end, self._kept = time.monotonic() + DIAGNOSIS_S, None


class Child:
    """One child process, with one task at a time; `dead` once it cannot take another."""

    def __init__(self, log: Path, order: Order) -> None:
        self.sources, self.function = order.sources, order.carry_out
        self.last: Task | None = None
        self.dead = False
        self._log_path = log
        self._idle_since = time.monotonic()
        path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        # As many children as cores: more threads would only get in each other's way.
        env = {**dict.fromkeys(_THREADS, "1"), **os.environ, "PYTHONPATH": path}
        with log.open("wb") as errors:
            self._program = Guarded(
                [sys.executable, "-m", "sw.campaign.engine.child", order.carry_out],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=env,
            )
        self._text = b""
        self._partial: Outcome | None = None

    def takes(self, order: Order) -> bool:
        """Whether the task can be this process's next one."""
        alive = not self.dead and self._program.process.poll() is None
        idle = time.monotonic() - self._idle_since
        fits = (self.sources, self.function) == (order.sources, order.carry_out)
        return alive and fits and idle < IDLE_S / 2

    def carry_out(self, order: Order, stopped: Callable[[], bool]) -> Report:
        """The task's report; ends the process when `stopped()`, or beyond a limit."""
        self._partial = None
        clock = Clock(order)
        self._send(order.task)
        checked = time.monotonic()
        while True:
            report = self._hear(order, clock, max(0.0, min(_TICK_S, clock.left_s)))
            if report is None and time.monotonic() - checked >= _TICK_S:
                checked = time.monotonic()
                report = Report(lost="it was stopped") if stopped() else self._over_memory(order)
            if report is None and clock.left_s <= 0:
                report = self._ended(Status.TIMEOUT, clock.message)
            if report is not None:
                if report.outcome is None or self.dead:
                    self.kill()
                self.last, self._idle_since = order.task, time.monotonic()
                return report

    def kill(self) -> None:
        """End the process with everything that it started."""
        self.dead = True
        self._program.kill()

    def _send(self, task: Task) -> None:
        stdin = self._program.process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # it died: the end of its answers says so
            stdin.write((json.dumps(task.to_json()) + "\n").encode())
            stdin.flush()

    def _hear(self, order: Order, clock: Clock, patience: float) -> Report | None:
        """What the child answers within `patience` seconds, if that ends the task."""
        stdout = self._program.process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], patience)[0]:
            return None
        data = os.read(stdout.fileno(), 1 << 20)
        if not data:
            return self._died()
        self._text += data
        while b"\n" in self._text:
            line, _, self._text = self._text.partition(b"\n")
            answer = json.loads(line)
            if "outcome" in answer:
                return Report(outcome=Outcome.from_json(answer["outcome"]))
            if answer.get("sources", order.sources) != order.sources:
                return Report(refused=other_sources(answer["sources"], order.sources))
            if "partial" in answer:
                self._partial = Outcome.from_json(answer["partial"])
                clock.diagnose()
            clock.stage(answer.get("stage", ""))
        return None

    def _over_memory(self, order: Order) -> Report | None:
        limit = order.task.memory_limit_mib
        used = tree_bytes(self._program.process.pid) / (1 << 20) if limit else 0.0
        if used <= limit:
            return None
        text = f"took {used:,.0f} MiB of memory, its limit is {limit:,} MiB: ended by force"
        return self._ended(Status.ERROR, text)

    def _ended(self, status: Status, text: str) -> Report:
        """End the process; what its task has come to."""
        self.kill()
        if self._partial is not None:
            return Report(outcome=self._cut_short(text))
        return Report(outcome=Outcome(status=status, message=text))

    def _died(self) -> Report:
        self.dead = True
        code = self._program.process.wait()
        lines = self._log_path.read_text(errors="replace").splitlines()[-15:]
        text = "\n".join([f"its process ended unexpectedly (exit code {code})", *lines])
        if self._partial is not None:
            return Report(outcome=self._cut_short(text))
        return Report(lost=text)

    def _cut_short(self, text: str) -> Outcome:
        assert self._partial is not None
        return replace(
            self._partial, message=f"{self._partial.message}\nlooking for its cause: {text}"
        )


class Children:
    """The children of one worker: idle ones wait for the next task."""

    def __init__(self) -> None:
        self.stopped = False
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._started = 0
        self._scratch = Scratch("campaign")

    def carry_out(self, order: Order, stopped: Callable[[], bool]) -> Report:
        """The report of an order, by an idle child or a new one."""
        child = self._take(order)
        try:
            report = child.carry_out(order, lambda: self.stopped or stopped())
        except BaseException:
            child.kill()
            raise
        if not child.dead:
            with self._lock:
                self._idle.append(child)
        return report

    def close(self) -> None:
        """End every child; what they are at is lost."""
        self.stopped = True
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.kill()

    def _take(self, order: Order) -> Child:
        with self._lock:
            fit = [child for child in self._idle if child.takes(order)]
            unfit = [child for child in self._idle if child not in fit]
            same = (c for c in fit if c.last is not None and c.last.digest == order.task.digest)
            child = next(same, fit[0] if fit else None)
            self._idle = [one for one in fit if one is not child]
            self._started += child is None
            log = self._scratch.path / f"child{self._started}.log"
        for one in unfit:
            one.kill()
        return child or Child(log, order)


def other_sources(found: str, wanted: str) -> str:
    """Why a worker cannot be used whose sources are not the campaign's."""
    return f"its sources are {found}, the campaign's {wanted}: bring the same sources there"

"""A worker process as the campaign's process sees it."""

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

from sw.measure.campaign.task import Outcome, Status, Task
from sw.measure.revision import ROOT
from sw.runtime.simulator.guarded import Guarded

DIAGNOSIS_S = 600.0
"""More seconds for a task that is known to have failed and looks for the first wrong layer."""
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Worker:
    """One worker, with one task at a time.

    It dies with this process; its simulators and compilers die with it.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self._log_path = folder / f"worker{number}.log"
        path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        # As many workers as cores: more threads would only get in each other's way.
        env = {**dict.fromkeys(_THREADS, "1"), **os.environ, "PYTHONPATH": path}
        with self._log_path.open("wb") as log:
            self._program = Guarded(
                [sys.executable, "-m", "sw.measure.campaign.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=env,
            )
        self._text = b""
        self._deadline = 0.0
        self._partial: Outcome | None = None
        self._limit = 0.0
        self.task: Task | None = None
        self.last: Task | None = None
        self.dead = False

    @property
    def answers(self) -> IO[bytes]:
        """To wait for something to read."""
        stream = self._program.process.stdout
        assert stream is not None
        return stream

    @property
    def remaining_s(self) -> float:
        """Until the task's time is over."""
        return self._deadline - time.monotonic()

    def assign(self, task: Task) -> None:
        """Start a task; `outcome` gives what comes out, also if the worker is dead by now."""
        self.task, self._partial, self._limit = task, None, task.limit_s
        self._deadline = time.monotonic() + task.limit_s
        stdin = self._program.process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # it died: the end of its answers says so
            stdin.write((json.dumps(task.to_json()) + "\n").encode())
            stdin.flush()

    def outcome(self) -> Outcome | None:
        """Read what there is; the task's outcome, or None if it has not come yet."""
        data = os.read(self.answers.fileno(), 1 << 20)
        if not data:
            self.dead = True
            return self._died()
        self._text += data
        while b"\n" in self._text:
            line, _, self._text = self._text.partition(b"\n")
            answer = json.loads(line)
            if "outcome" in answer:
                return Outcome.from_json(answer["outcome"])
            self._partial = Outcome.from_json(answer["partial"])
            self._deadline = time.monotonic() + DIAGNOSIS_S
        return None

    def out_of_time(self) -> Outcome:
        """End the worker; what its task has come to."""
        self.dead = True
        self.kill()
        if self._partial is not None:
            return self._cut_short(f"looking for its cause took more than {DIAGNOSIS_S:g} s")
        return Outcome(
            status=Status.TIMEOUT, message=f"not done after {self._limit:g} s: ended by force"
        )

    def free(self) -> None:
        """The task is done."""
        self.last, self.task = self.task, None

    def kill(self) -> None:
        """End the worker with everything that it started."""
        self._program.kill()

    def _died(self) -> Outcome:
        code = self._program.process.wait()
        lines = self._log_path.read_text(errors="replace").splitlines()[-15:]
        text = "\n".join([f"its process ended unexpectedly (exit code {code})", *lines])
        if self._partial is not None:
            return self._cut_short(f"looking for its cause: {text}")
        return Outcome(status=Status.ERROR, message=text)

    def _cut_short(self, text: str) -> Outcome:
        assert self._partial is not None
        return replace(self._partial, message=f"{self._partial.message}\n{text}")

"""A child process of a worker: `python -m sw.campaign.engine.child MODULE:FUNCTION`.

The function gets a `Tell` and returns the function that carries tasks out. Tasks come one a line
on standard input (JSON). Answers are lines on standard output:

    {"sources": digest}     once, of the sources that this process runs
    {"stage": "build"}      the task waits for the build of its simulator; "run": it goes on
    {"partial": outcome}    this is certain; the task looks for the cause
    {"outcome": outcome}    the task is done

The process ends with its input, after `IDLE_S` seconds without a task, and with the process that
started it (see sw/runtime/simulator/guard.py).
"""

import importlib
import json
import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

from sw.results.revision import source_digest
from sw.results.task import Outcome, Task

IDLE_S = 600.0
"""A child that nobody needs gives its memory and its simulator back."""


class Tell:
    """How a task that is under way tells of itself."""

    def __init__(self, answers: IO[str]) -> None:
        self._answers = answers

    def line(self, **facts: Any) -> None:
        self._answers.write(json.dumps(facts) + "\n")
        self._answers.flush()

    def partial(self, outcome: Outcome) -> None:
        """This is the outcome, whatever the search for its cause comes to."""
        self.line(partial=outcome.to_json())

    def stage(self, name: str) -> None:
        """build: time counts for the build of the simulator from here on. run: for the task."""
        self.line(stage=name)


def main() -> int:
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tell = Tell(answers)
    tell.line(sources=source_digest())
    carry_out: Callable[[Task], Outcome] | None = None
    for line in _orders():
        if carry_out is None:
            module, _, name = sys.argv[1].partition(":")
            carry_out = getattr(importlib.import_module(module), name)(tell)
        tell.line(outcome=carry_out(Task.from_json(json.loads(line))).to_json())
    return 0


def _orders() -> Iterator[bytes]:
    """Lines of standard input, until it ends or says nothing for too long."""
    text = b""
    while select.select([0], [], [], IDLE_S)[0]:
        data = os.read(0, 1 << 20)
        if not data:
            return
        text += data
        while b"\n" in text:
            line, _, text = text.partition(b"\n")
            yield line


if __name__ == "__main__":
    sys.exit(main())

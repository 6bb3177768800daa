"""Lines on stderr about what takes long: compiling, the first call of a model, a long run."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Say = Callable[[str], None]
"""What hears about a long command: a text that ends in … begins a step, another one is a result."""

PATIENCE_S = 5.0
"""Seconds after which something is long enough for a line where nobody watches a terminal."""


class Announcement:
    """What is said at the end beside the time; set `result` meanwhile."""

    def __init__(self) -> None:
        self.result = "done"


@contextmanager
def announced(what: str, wanted: bool | None = None) -> Iterator[Announcement]:
    """Say on stderr that `what` begins, and how long it took.

    wanted: always or never; None: on a terminal at once, elsewhere if it takes `PATIENCE_S`.
    """
    end = Announcement()
    if wanted is False:
        yield end
        return
    said = threading.Event()

    def say() -> None:
        said.set()
        _print(f"{what} …")

    start = time.monotonic()
    timer = threading.Timer(PATIENCE_S, say)
    timer.daemon = True
    if wanted or sys.stderr.isatty():
        say()
    else:
        timer.start()
    try:
        yield end
    except BaseException:
        end.result = "stopped"
        raise
    finally:
        timer.cancel()
        if said.is_set():
            _print(f"{what}: {end.result} in {time.monotonic() - start:.1f} s")


class Steps:
    """Steps that follow one another: each gets a line if it takes longer than `PATIENCE_S`."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def begin(self, what: str) -> None:
        """The step before has ended, `what` begins."""
        self.end()
        self._timer = threading.Timer(PATIENCE_S, _print, [what])
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """No step is under way any more."""
        if self._timer is not None:
            self._timer.cancel()


def _print(text: str) -> None:
    sys.stderr.write(f"systola: {text}\n")
    sys.stderr.flush()

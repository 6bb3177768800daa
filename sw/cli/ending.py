"""How a command ends that is told to: SIGTERM unwinds it as Ctrl-C does, so that it cleans up."""

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_LONGEST = 8000
"""Characters of a message: the tail of a compiler's output fits, a forged name does not."""


def shortened(message: str) -> str:
    """A message without its middle where it is long: both ends say most."""
    if len(message) <= _LONGEST:
        return message
    half = _LONGEST // 2
    return f"{message[:half]}\n… ({len(message) - _LONGEST:,} characters) …\n{message[-half:]}"


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. Whoever ends work in order at Ctrl-C does so here as well."""


@contextmanager
def orderly() -> Iterator[None]:
    """SIGTERM raises `Terminated` in this block, once; text of any script can be printed.

    Warnings of this package are plain lines from here on.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal without UTF-8, or half a character in a file, must not end a command.
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = _plain(warnings.formatwarning)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _plain(others: Callable[..., str]) -> Callable[..., str]:
    """Warnings of ours are a line for the user, without the place in our sources."""

    def text(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> str:
        if category.__module__.startswith("sw."):
            return f"systola: warning: {message}\n"
        return others(message, category, *place, **more)

    return text


def _terminate(number: int, _frame: FrameType | None) -> None:
    # A second one must not interrupt the cleaning up; SIGKILL is still there.
    signal.signal(number, signal.SIG_IGN)
    raise Terminated

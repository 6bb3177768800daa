"""A parser in a process of its own: what a damaged file does to it ends there."""

import os
import pickle
import subprocess
import sys
from typing import Any

SECONDS = 300


class ApartError(Exception):
    """How the process ended, and with what last words."""


def answer(child: str, data: bytes, seconds: int = SECONDS) -> Any:
    """What the Python code `child` makes of `data`: it is given to it as standard input, and
    `reply` sends the answer. `ApartError` if the process dies or takes longer.
    """
    path = os.pathsep.join(filter(None, [*sys.path]))
    try:
        done = subprocess.run(
            [sys.executable, "-c", child], input=data, capture_output=True, check=False,
            timeout=seconds, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ApartError(f"did not end in {seconds} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise ApartError(f"ended with code {done.returncode}: {lines[-1][:200]}")
    return pickle.loads(done.stdout)


def question() -> bytes:
    """In the child: the data."""
    return sys.stdin.buffer.read()


def reply(found: Any) -> None:
    """In the child: the answer."""
    sys.stdout.buffer.write(pickle.dumps(found, pickle.HIGHEST_PROTOCOL))
    sys.stdout.flush()

"""Runs campaigns of the command line in processes of their own, and looks at what they leave."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from test_sim_process import alive

from sw.results.task import Outcome

ROOT = Path(__file__).resolve().parent.parent


def start(*arguments: object, **options: object) -> subprocess.Popen:
    """`systola …` in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "systola", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen, seconds: float = 300) -> tuple[int, str]:
    """(exit code, what it printed)."""
    text, _ = process.communicate(timeout=seconds)
    return process.returncode, text


def systola(*arguments: object, **options: object) -> tuple[int, str]:
    return finish(start(*arguments, **options))


def query(database: Path, statement: str) -> list[tuple]:
    connection = sqlite3.connect(database, timeout=20)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def wait_for(what: Callable[[], object], seconds: float = 60) -> object:
    """The first true value of `what()`."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s")


def statuses(database: Path) -> dict[str, int]:
    if not database.exists():
        return {}
    try:
        rows = query(database, "SELECT status, count(*) FROM runs GROUP BY status")
    except sqlite3.OperationalError:  # the tables are not there yet
        return {}
    return dict(rows)


def family(pid: int) -> dict[int, str]:
    """Every process below `pid`: number to name."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, rest = (entry / "stat").read_text().rpartition(")")
            except (FileNotFoundError, ProcessLookupError):
                continue
            name = head.partition("(")[2]
            parents.setdefault(int(rest.split()[1]), []).append((int(entry.name), name))
    found: dict[int, str] = {}
    todo = [pid]
    while todo:
        for child, name in parents.get(todo.pop(), []):
            found[child] = name
            todo.append(child)
    return found


def all_gone(pids: Iterable[int], seconds: float = 15) -> bool:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if not any(map(alive, pids)):
            return True
        time.sleep(0.05)
    return False


class Told:
    """Hears what a task says of itself while it is under way."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.stages: list[str] = []
        self.partial = self.outcomes.append
        self.stage = self.stages.append

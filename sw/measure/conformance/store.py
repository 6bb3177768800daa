"""Verdicts in an SQLite file: an interrupted run goes on where it was.

Rows are filed under suite, device, configuration and a digest of the sources: a verdict counts only
for the code that it was measured on.
"""

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from sw.measure.conformance.chunk import Status, Verdict
from sw.measure.conformance.suite import ConformanceError

_VERSION = 1
_TABLE = """
CREATE TABLE verdicts (
  key          TEXT NOT NULL,     -- suite, device, configuration, sources
  test         TEXT NOT NULL,
  status       TEXT NOT NULL,     -- passed, failed, unsupported, crashed, missing
  message      TEXT NOT NULL,
  seconds      REAL NOT NULL,
  cycles       INTEGER NOT NULL,
  instructions INTEGER NOT NULL,
  PRIMARY KEY (key, test)
)
"""


class Verdicts:
    """The verdicts of one key in the database at `path`, made if it is not there.

    fresh: forget all of them first; retry: those that are not `passed`.
    """

    def __init__(self, path: Path, key: str, *, fresh: bool = False, retry: bool = False) -> None:
        self._key = key
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=60, check_same_thread=False)
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if not version:
                self._db.execute(_TABLE)
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
            elif version != _VERSION:
                raise ConformanceError(f"{path}: schema {version}, this release has {_VERSION}")
            if fresh:
                self._db.execute("DELETE FROM verdicts WHERE key = ?", (key,))
            if retry:
                self._db.execute(
                    "DELETE FROM verdicts WHERE key = ? AND status != ?", (key, Status.PASSED)
                )
            self._db.commit()
        except (OSError, sqlite3.Error) as error:
            raise ConformanceError(f"{path}: {error}; choose another file with DB=") from None

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """File them, in place of what was there."""
        rows = [
            (self._key, v.test, v.status, v.message, v.seconds, v.cycles, v.instructions)
            for v in verdicts
        ]
        with self._lock, self._db:
            self._db.executemany("INSERT OR REPLACE INTO verdicts VALUES (?,?,?,?,?,?,?)", rows)

    def all(self) -> dict[str, Verdict]:
        """Every verdict of this key by test."""
        query = (
            "SELECT test, status, message, seconds, cycles, instructions FROM verdicts "
            "WHERE key = ? ORDER BY test"
        )
        with self._lock:
            rows = self._db.execute(query, (self._key,)).fetchall()
        return {
            test: Verdict(
                test=test, status=Status(status), message=message, seconds=seconds,
                cycles=cycles, instructions=instructions,
            )
            for test, status, message, seconds, cycles, instructions in rows
        }  # fmt: skip

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""The results database: one SQLite file for all campaigns.

Only the process that runs a campaign writes its rows, one transaction a change, in write-ahead
mode: whatever is killed when, the file stays whole and a row is either there or not. Several
campaigns may run at once in one file; one campaign by one process only.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self

from sw.measure.campaign.schema import TABLES, VERSION
from sw.measure.campaign.task import CampaignError, Kind, Outcome, Status, Task, plan_digest
from sw.measure.revision import commit, source_digest

_UNFINISHED = (Status.WAITING, Status.RUNNING)
_AGAIN = (Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.BLOCKED)
_BUSY_S = 60.0


def now() -> str:
    """UTC, ISO 8601 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A row: its number, its task, where it stands, and what it gave so far."""

    id: int
    task: Task
    status: Status
    started_at: str | None
    finished_at: str | None
    outcome: Outcome | None


class Store:
    """The database at `path`, made if it is not there. `CampaignError` if it is not usable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            self._db.row_factory = sqlite3.Row
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise CampaignError(
                f"database {path}: {error}; choose another file with --db (a local disk)"
            ) from None

    def _prepare(self) -> None:
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        with self._transaction():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == VERSION:
                return
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version or tables:
                raise CampaignError(
                    f"database {self.path}: schema version {version}, this release has {VERSION}; "
                    "move the file away or choose another one with --db"
                )
            for statement in TABLES.split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    def campaign(
        self,
        kind: str,
        name: str,
        tasks: Sequence[Task],
        *,
        options: dict[str, Any],
        fresh: bool = False,
        retry: bool = False,
    ) -> "Campaign":
        """The campaign of these tasks on these sources: the one that is there, or a new one.

        Rows that a dead process left running wait again; `retry`: so do those that did not pass.
        fresh: a new one in any case; the old one's rows stay. `CampaignError` if another process
        runs it, or if there is nothing to run.
        """
        if not tasks:
            raise CampaignError(f"{kind} {name}: no run is left of it; change --only")
        revision = commit()
        mark = (kind, name, revision, source_digest(), plan_digest(list(tasks)))
        key = ":".join(mark)
        with self._transaction():
            row = self._db.execute(
                "SELECT id FROM campaigns WHERE key = ? ORDER BY id DESC", (key,)
            ).fetchone()
            resumed = row is not None and not fresh
            number = row["id"] if resumed else self._insert(key, mark, tasks, options)
            lock = _lock(self.path, number, self._pid(number))
            self._db.execute(
                "UPDATE campaigns SET pid = ?, finished_at = NULL WHERE id = ?",
                (os.getpid(), number),
            )
            if resumed:
                # The same tasks, but their limits of time may have changed.
                for position, task in enumerate(tasks):
                    self._db.execute(
                        "UPDATE runs SET task = ? WHERE campaign = ? AND position = ?",
                        (json.dumps(task.to_json()), number, position),
                    )
            again = (*_UNFINISHED, *(_AGAIN if retry else ()))
            marks = ", ".join("?" * len(again))
            self._db.execute(
                "UPDATE runs SET status = ?, started_at = NULL, finished_at = NULL, message = NULL "
                f"WHERE campaign = ? AND status IN ({marks})",
                (Status.WAITING, number, *again),
            )
        return Campaign(self, number, lock, resumed=resumed)

    def runs(self, campaign: int) -> list[Run]:
        """Every row of a campaign, in the plan's order."""
        rows = self._db.execute(
            "SELECT * FROM runs WHERE campaign = ? ORDER BY position", (campaign,)
        )
        return [_run(row) for row in rows]

    def update(self, statement: str, values: Sequence[Any]) -> None:
        """One change, in a transaction of its own."""
        try:
            self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise CampaignError(f"database {self.path}: cannot write: {error}") from None

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _insert(
        self, key: str, mark: Sequence[str], tasks: Sequence[Task], options: dict[str, Any]
    ) -> int:
        kind, name, revision, sources, _ = mark
        source = (revision.rstrip("+") or "unknown", revision.endswith("+"))
        made = self._db.execute(
            "INSERT INTO campaigns (key, kind, name, git_commit, dirty, source_digest, options, "
            "pid, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (key, kind, name, *source, sources, json.dumps(options), os.getpid(), now()),
        )
        number = made.lastrowid
        assert number is not None
        for position, task in enumerate(tasks):
            self._insert_run(number, position, task, source)
        return number

    def _insert_run(
        self, campaign: int, position: int, task: Task, source: tuple[str, bool]
    ) -> None:
        illegal = task.kind is Kind.POINT
        time = now() if illegal else None
        values = {
            "campaign": campaign,
            "position": position,
            "task": json.dumps(task.to_json()),
            "kind": task.kind,
            "workload": task.workload,
            "config": task.config_name,
            "config_digest": task.digest,
            "device": task.device,
            "seed": task.seed,
            "latency": task.latency,
            "stall": task.stall,
            "git_commit": source[0],
            "dirty": source[1],
            "status": Status.ILLEGAL if illegal else Status.WAITING,
            "started_at": time,
            "finished_at": time,
            "message": task.reason or None,
        }
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        self._db.execute(
            f"INSERT INTO runs ({names}) VALUES ({marks})",
            list(values.values()),
        )

    def _pid(self, campaign: int) -> int:
        row = self._db.execute("SELECT pid FROM campaigns WHERE id = ?", (campaign,)).fetchone()
        return int(row["pid"])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


class Campaign:
    """One campaign, held by this process until `close()`."""

    def __init__(self, store: Store, number: int, lock: IO[bytes], *, resumed: bool) -> None:
        self._store = store
        self._lock = lock
        self.number = number
        self.resumed = resumed

    def runs(self) -> list[Run]:
        return self._store.runs(self.number)

    def start(self, run: int) -> None:
        self._store.update(
            "UPDATE runs SET status = ?, started_at = ?, attempts = attempts + 1 WHERE id = ?",
            (Status.RUNNING, now(), run),
        )

    def release(self, run: int) -> None:
        """It did not come to an end: it waits again."""
        self._store.update(
            "UPDATE runs SET status = ?, started_at = NULL WHERE id = ?", (Status.WAITING, run)
        )

    def finish(self, run: int, outcome: Outcome) -> None:
        values = {
            "status": outcome.status,
            "finished_at": now(),
            "message": outcome.message or None,
            "cycles": outcome.cycles,
            "macs": outcome.macs,
            "compared": outcome.compared,
            "counters": json.dumps(outcome.counters),
            "wall_s": outcome.wall_s,
            "read_bytes": outcome.read_bytes,
            "write_bytes": outcome.write_bytes,
            "image_digest": outcome.image_digest or None,
            "mismatch": json.dumps(outcome.mismatch) if outcome.mismatch else None,
            "figures": json.dumps(outcome.figures),
        }
        columns = ", ".join(f"{name} = ?" for name in values)
        self._store.update(
            f"UPDATE runs SET {columns} WHERE id = ?",
            [*values.values(), run],
        )

    def close(self, *, complete: bool) -> None:
        """Let others run it; `complete`: nothing is left of it."""
        if complete:
            self._store.update(
                "UPDATE campaigns SET finished_at = ? WHERE id = ?", (now(), self.number)
            )
        self._lock.close()


def _lock(path: Path, campaign: int, pid: int) -> IO[bytes]:
    """The lock of a campaign: the kernel's, so that a killed process leaves none behind."""
    file = path.with_name(path.name + ".lock").open("ab")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, campaign)
    except OSError:
        file.close()
        raise CampaignError(
            f"campaign {campaign} in {path} is being run by process {pid}; wait for it, or start "
            "another one with --fresh"
        ) from None
    return file


def _run(row: sqlite3.Row) -> Run:
    status = Status(row["status"])
    outcome = None
    if status not in _UNFINISHED:
        outcome = Outcome(
            status=status,
            message=row["message"] or "",
            cycles=row["cycles"],
            macs=row["macs"],
            compared=row["compared"] or 0,
            counters=json.loads(row["counters"] or "{}"),
            wall_s=row["wall_s"] or 0.0,
            read_bytes=row["read_bytes"],
            write_bytes=row["write_bytes"],
            mismatch=json.loads(row["mismatch"]) if row["mismatch"] else None,
            image_digest=row["image_digest"] or "",
            figures=json.loads(row["figures"] or "{}"),
        )
    return Run(
        id=row["id"],
        task=Task.from_json(json.loads(row["task"])),
        status=status,
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        outcome=outcome,
    )

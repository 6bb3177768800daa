"""The results database: one for all campaigns, an SQLite file or a PostgreSQL database.

Only the process that runs a campaign writes its rows, one transaction a change: whatever is killed
when, a row is either there or not. Several campaigns may run at once in one database; one campaign
by one process only.
"""

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import Connection

from sw.results.database import PATIENCE_S, Database, Say, say_on_stderr
from sw.results.location import locate
from sw.results.locks import locks_of
from sw.results.machine import machine_facts
from sw.results.migrate import prepare
from sw.results.revision import commit, source_digest
from sw.results.rows import UNFINISHED, Run, now, outcome_values, run_of, task_values
from sw.results.schema import CAMPAIGNS, MACHINES, RUNS
from sw.results.task import CampaignError, Outcome, Status, Task, plan_digest

__all__ = ["Campaign", "Run", "Store", "now"]

_AGAIN = (Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.BLOCKED)
_ROWS_AT_ONCE = 500


class Store:
    """The database at `where`, a file or a URL; its tables are made if they are not there.

    `CampaignError` if it is not usable. A connection that is lost later is opened again for
    `patience_s` seconds; `say` hears of that.
    """

    def __init__(
        self, where: str | Path, *, patience_s: float = PATIENCE_S, say: Say = say_on_stderr
    ) -> None:
        self.location = locate(where)
        if self.location.path is not None:
            _make_folder(self.location.path)
        self.database = Database(self.location, patience_s=patience_s, say=say)
        self._locks = locks_of(self.database)
        self._open: dict[int, str] = {}
        try:
            prepare(self.database, say)
        except BaseException:
            self.database.close()
            raise
        self.database.on_return = self._return

    def campaign(
        self,
        kind: str,
        name: str,
        tasks: Sequence[Task],
        *,
        options: dict[str, Any],
        fresh: bool = False,
        retry: bool = False,
        plan: str | None = None,
        source: tuple[str, str] | None = None,
    ) -> "Campaign":
        """The campaign of these tasks on these sources: the one that is there, or a new one.

        Rows that a dead process left running wait again; `retry`: so do those that did not pass.
        fresh: a new one in any case; the old one's rows stay. plan: what the campaign consists of,
        in words, if its tasks are found as it goes (`Campaign.add`) and `tasks` are only the first
        or none. source: commit and digest of the sources, where these are not what carries the
        tasks out. `CampaignError` if another process runs it, or if there is nothing to run.
        """
        if not tasks and plan is None:
            raise CampaignError(f"{kind} {name}: no run is left of it; change --only")
        opening = _Opening(kind, name, tasks, options, plan, source, fresh=fresh, retry=retry)
        taken: list[int] = []

        def change(connection: Connection) -> tuple[int, bool]:
            number, resumed = opening.find_or_insert(connection)
            if number in self._open or not self._locks.take(connection, number):
                raise CampaignError(self._refusal(connection, number))
            taken[:] = [number]
            opening.hold(connection, number, resumed=resumed)
            return number, resumed

        try:
            number, resumed = self.database.write(change)
        except BaseException:
            for number in taken:
                self._locks.release(number)
            raise
        self._open[number] = opening.holder
        return Campaign(self, number, opening, resumed=resumed)

    def runs(self, campaign: int) -> list[Run]:
        """Every row of a campaign, in the plan's order."""
        query = sa.select(RUNS).where(RUNS.c.campaign == campaign).order_by(RUNS.c.position)
        return [run_of(row) for row in self.database.read(lambda c: c.execute(query).all())]

    def release(self, campaign: int) -> None:
        """Let others run it."""
        self._open.pop(campaign, None)
        self._locks.release(campaign)

    def close(self) -> None:
        for campaign in list(self._open):
            self.release(campaign)
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _return(self, connection: Connection) -> None:
        """The connection was lost: our campaigns must still be ours."""
        lost = self._locks.take_again(connection)
        for number, holder in self._open.items():
            column = CAMPAIGNS.c.holder
            found = connection.scalar(sa.select(column).where(CAMPAIGNS.c.id == number))
            if number == lost or found != holder:
                raise CampaignError(
                    f"campaign {number} in {self.location} was taken over by "
                    f"{self._runner(connection, number)} while the connection was lost; its "
                    "results are those of that process now"
                )

    def _refusal(self, connection: Connection, campaign: int) -> str:
        return (
            f"campaign {campaign} in {self.location} is being run by "
            f"{self._runner(connection, campaign)}; wait for it, or start another one with --fresh"
        )

    def _runner(self, connection: Connection, campaign: int) -> str:
        """The process that ran a campaign last, for people."""
        query = sa.select(CAMPAIGNS.c.pid, CAMPAIGNS.c.host).where(CAMPAIGNS.c.id == campaign)
        row = connection.execute(query).one()
        elsewhere = f" of {row.host}" if row.host not in ("", socket.gethostname()) else ""
        return f"process {row.pid}{elsewhere}"


class _Opening:
    """What `Store.campaign` was asked for. Each step can be carried out twice without harm."""

    def __init__(
        self,
        kind: str,
        name: str,
        tasks: Sequence[Task],
        options: dict[str, Any],
        plan: str | None,
        source: tuple[str, str] | None,
        *,
        fresh: bool,
        retry: bool,
    ) -> None:
        revision, sources = source or (commit(), source_digest())
        self.commit = revision.rstrip("+") or "unknown"
        self.dirty = int(revision.endswith("+"))
        self.holder, self._token = uuid4().hex, uuid4().hex
        self._tasks, self._fresh, self._retry = tasks, fresh, retry
        what = plan_digest(list(tasks)) if plan is None else plan
        self._values = {
            "key": ":".join((kind, name, revision, sources, what)),
            "kind": kind,
            "name": name,
            "git_commit": self.commit,
            "dirty": self.dirty,
            "source_digest": sources,
            "options": options,
        }
        self.machine = 0

    def find_or_insert(self, connection: Connection) -> tuple[int, bool]:
        """The campaign's number, and whether it was there before."""
        if connection.dialect.name == "postgresql":
            # SQLite has one writer at a time by itself.
            key = {"key": self._values["key"]}
            connection.execute(
                sa.text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))"), key
            )
        number = _first(connection, CAMPAIGNS.c.token == self._token)
        if number is not None:
            return number, False
        number = _first(connection, CAMPAIGNS.c.key == self._values["key"])
        if number is not None and not self._fresh:
            self._renew(connection, number)
            return number, True
        marks = {"token": self._token, "holder": self.holder, "pid": os.getpid(), "host": ""}
        made = connection.execute(
            sa.insert(CAMPAIGNS).values(**self._values, **marks, created_at=now())
        )
        assert made.inserted_primary_key is not None
        number = int(made.inserted_primary_key[0])
        self.insert(connection, number, list(enumerate(self._tasks)))
        return number, False

    def insert(
        self, connection: Connection, campaign: int, tasks: Sequence[tuple[int, Task]]
    ) -> None:
        """Rows for tasks at their positions; what is there already stays."""
        common = {"campaign": campaign, "git_commit": self.commit, "dirty": self.dirty}
        rows = [{**common, "position": at, **task_values(task)} for at, task in tasks]
        insert = _insert_if_new(connection)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            connection.execute(insert, rows[first : first + _ROWS_AT_ONCE])

    def hold(self, connection: Connection, campaign: int, *, resumed: bool) -> None:
        """This process runs it from here on."""
        self.machine = _machine(connection)
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "holder": self.holder}
        connection.execute(
            sa.update(CAMPAIGNS)
            .where(CAMPAIGNS.c.id == campaign)
            .values(**holder, machine=self.machine, finished_at=None)
        )
        again = (*UNFINISHED, *(_AGAIN if self._retry and resumed else ()))
        connection.execute(
            sa.update(RUNS)
            .where(RUNS.c.campaign == campaign, RUNS.c.status.in_([s.value for s in again]))
            .values(status=Status.WAITING.value, started_at=None, finished_at=None, message=None)
        )

    def _renew(self, connection: Connection, campaign: int) -> None:
        """The same tasks, but their limits of time may have changed."""
        place = (RUNS.c.campaign == campaign) & (RUNS.c.position == sa.bindparam("at"))
        rows = [{"at": at, "task": task.to_json()} for at, task in enumerate(self._tasks)]
        if rows:
            connection.execute(sa.update(RUNS).where(place), rows)


class Campaign:
    """One campaign, held by this process until `close()`."""

    def __init__(self, store: Store, number: int, opening: _Opening, *, resumed: bool) -> None:
        self._store, self._opening = store, opening
        self.number = number
        self.resumed = resumed
        self._began: dict[int, float] = {}
        self._ids: dict[str, int] = {}
        self._positions = 0
        self._know(self.runs())

    def runs(self) -> list[Run]:
        return self._store.runs(self.number)

    def add(self, tasks: Sequence[Task]) -> list[Run]:
        """Append tasks to the plan, in one change; their rows, in the order of `tasks`.

        A task that the campaign has already (its `key`) gives the row that it has, with its outcome
        if there is one: a search that goes on proposes again what it has proposed before.
        """
        fresh = {task.key: task for task in tasks if task.key not in self._ids}
        placed = list(enumerate(fresh.values(), self._positions))
        query = sa.select(RUNS).where(
            RUNS.c.campaign == self.number, RUNS.c.position >= self._positions
        )

        def change(connection: Connection) -> list[Run]:
            self._opening.insert(connection, self.number, placed)
            return [run_of(row) for row in connection.execute(query).all()]

        if placed:
            self._know(self._store.database.write(change))
        return self._rows([self._ids[task.key] for task in tasks])

    def start(self, run: int, worker: str = "") -> None:
        """A worker begins with it. The same call written twice counts as one attempt."""
        time_now = now()
        self._began[run] = time.monotonic()
        self._update(
            run,
            {
                "status": Status.RUNNING.value,
                "started_at": time_now,
                "attempts": RUNS.c.attempts + sa.case((RUNS.c.started_at == time_now, 0), else_=1),
                "worker": worker,
                "machine": self._opening.machine,
            },
        )

    def release(self, run: int) -> None:
        """It did not come to an end: it waits again."""
        self._update(run, {"status": Status.WAITING.value, "started_at": None})

    def finish(self, run: int, outcome: Outcome) -> None:
        """What it gave, as it has come to its end."""
        self._update(run, self._finished(run, outcome))

    def record(self, done: Sequence[tuple[Task, Outcome]]) -> None:
        """Tasks that were carried out elsewhere, with their outcomes, in one change."""
        runs = self.add([task for task, _ in done])
        values = [
            (run.id, {**self._finished(run.id, outcome), "machine": self._opening.machine})
            for run, (_, outcome) in zip(runs, done, strict=True)
        ]

        def change(connection: Connection) -> None:
            for run, row in values:
                connection.execute(sa.update(RUNS).where(RUNS.c.id == run).values(**row))

        self._store.database.write(change)

    def close(self, *, complete: bool) -> None:
        """Let others run it; `complete`: nothing is left of it."""
        try:
            if complete:
                done = sa.update(CAMPAIGNS).where(CAMPAIGNS.c.id == self.number)
                change = done.values(finished_at=now())
                self._store.database.write(lambda c: c.execute(change))
        finally:
            self._store.release(self.number)

    def _finished(self, run: int, outcome: Outcome) -> dict[str, Any]:
        began = self._began.pop(run, None)
        seconds = outcome.wall_s if began is None else time.monotonic() - began
        return {
            **outcome_values(outcome),
            "finished_at": now(),
            "duration_s": round(seconds, 3),
        }

    def _update(self, run: int, values: dict[str, Any]) -> None:
        change = sa.update(RUNS).where(RUNS.c.id == run).values(**values)
        self._store.database.write(lambda connection: connection.execute(change))

    def _rows(self, numbers: Sequence[int]) -> list[Run]:
        query = sa.select(RUNS).where(RUNS.c.campaign == self.number, RUNS.c.id.in_(numbers))
        rows = self._store.database.read(lambda c: c.execute(query).all())
        found = {row.id: run_of(row) for row in rows}
        return [found[number] for number in numbers]

    def _know(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self._ids.setdefault(run.task.key, run.id)
            self._positions = max(self._positions, run.position + 1)


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CampaignError(
            f"database {path}: {error}; choose another file with --db (a local disk)"
        ) from None


def _first(connection: Connection, where: sa.ColumnElement[bool]) -> int | None:
    """The newest campaign of which that is true."""
    return connection.scalar(
        sa.select(CAMPAIGNS.c.id).where(where).order_by(CAMPAIGNS.c.id.desc()).limit(1)
    )


def _machine(connection: Connection) -> int:
    """The number of this machine, as it is now."""
    facts = machine_facts()
    where = MACHINES.c.digest == facts["digest"]
    connection.execute(_insert_if_new(connection, MACHINES), [facts])
    return connection.execute(sa.select(MACHINES.c.id).where(where)).scalar_one()


def _insert_if_new(connection: Connection, table: sa.Table = RUNS) -> sa.Executable:
    """INSERT … ON CONFLICT DO NOTHING, which both databases have and SQL has not."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table).on_conflict_do_nothing()

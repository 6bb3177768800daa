"""The one connection of a process to its database, opened again when it is lost.

A change is a function of a connection, carried out in a transaction. If the connection is lost, the
function runs again on a new one: it has to write the same twice without harm, as the first try may
have been stored although its end was never heard.
"""

import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from sw.results.location import Location
from sw.results.task import CampaignError

PATIENCE_S = 900.0
"""Seconds for which a lost connection is tried again."""
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
_BUSY_S = 60.0
_CONNECT_S = 10
_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""A server that is gone without a word is noticed after a minute."""

_AGAIN = ("40001", "40P01", "55P03")
"""PostgreSQL: no serial order, deadlock, lock not available."""
_SERVER_LEAVES = ("57P01", "57P02", "57P03")
"""PostgreSQL: shutdown by the administrator, crash, still starting."""

T = TypeVar("T")
Say = Callable[[str], None]


def say_on_stderr(text: str) -> None:
    sys.stderr.write(f"systola: {text}\n")
    sys.stderr.flush()


class Database:
    """A connection that is opened by the first `read` or `write`, for all threads of the process.

    patience_s: for how long a lost connection is opened again. A first one that cannot be opened
    is a `CampaignError` at once. on_return: told every new connection but the first.
    """

    def __init__(
        self, location: Location, *, patience_s: float = PATIENCE_S, say: Say = say_on_stderr
    ) -> None:
        self.location = location
        self._patience_s, self._say = patience_s, say
        self._guard = threading.RLock()
        self._connection: Connection | None = None
        self._was_open = False
        self.on_return: Callable[[Connection], None] = lambda _: None
        self._engine = _engine(location)

    @property
    def is_sqlite(self) -> bool:
        return self.location.path is not None

    def write(self, change: Callable[[Connection], T]) -> T:
        """What `change` gives, in a transaction of its own."""
        return self._persist(change, write=True)

    def read(self, query: Callable[[Connection], T]) -> T:
        """What `query` gives, all of it as of one moment."""
        return self._persist(query, write=False)

    def if_connected(self, what: Callable[[Connection], object]) -> None:
        """Do `what` if there is a connection; a failure is no matter."""
        with self._guard:
            if self._connection is None or self._connection.invalidated:
                return
            try:
                with self._connection.begin():
                    what(self._connection)
            except SQLAlchemyError:
                self._drop()

    def close(self) -> None:
        with self._guard:
            self._drop()
            self._engine.dispose()

    def _persist(self, work: Callable[[Connection], T], *, write: bool) -> T:
        lost_at: float | None = None
        tries = 0
        with self._guard:
            while True:
                try:
                    result = self._once(work, write=write)
                except DBAPIError as error:
                    if not (self._was_open and _passes(error)):
                        raise self._failed(error) from None
                    lost_at = lost_at or time.monotonic()
                    self._wait(error, tries, time.monotonic() - lost_at)
                    tries += 1
                    continue
                except SQLAlchemyError as error:
                    raise CampaignError(f"database {self.location}: {error}") from None
                if lost_at is not None:
                    seconds = time.monotonic() - lost_at
                    self._say(f"database {self.location}: goes on after {seconds:.0f} s")
                return result

    def _once(self, work: Callable[[Connection], T], *, write: bool) -> T:
        connection = self._connection
        if connection is None or connection.invalidated or connection.closed:
            connection = self._open()
        connection.execution_options(systola_write=write)
        with connection.begin():
            return work(connection)

    def _open(self) -> Connection:
        self._drop()
        connection = self._engine.connect()
        self._connection = connection
        if self._was_open:
            try:
                with connection.begin():
                    self.on_return(connection)
            except BaseException:
                self._drop()  # nothing may be written by way of it
                raise
        self._was_open = True
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except SQLAlchemyError:
                connection.invalidate()

    def _wait(self, error: DBAPIError, tries: int, seconds: float) -> None:
        """A pause before the next try, longer each time; `CampaignError` if it took too long."""
        if not _is_busy(error):
            self._drop()
        pause = min(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)], self._patience_s - seconds)
        if pause <= 0:
            raise CampaignError(
                f"database {self.location}: not there for {seconds:.0f} s: {_reason(error)}; what "
                "was finished before is in it: start the same command again to go on from there"
            )
        if tries == 0:
            self._say(
                f"database {self.location}: {_reason(error)}; "
                f"tried again for {self._patience_s:.0f} s"
            )
        elif pause >= 10:
            self._say(f"database {self.location}: not there for {seconds:.0f} s")
        time.sleep(pause)

    def _failed(self, error: DBAPIError) -> CampaignError:
        where = f"database {self.location}: "
        if _is_full(error):
            return CampaignError(
                f"{where}no space left: {_reason(error)}; what was finished before is in it: make "
                "space and start the same command again to go on from there"
            )
        if not self._was_open:
            choose = (
                "choose another file with --db (a local disk)"
                if self.is_sqlite
                else "see that the server runs and takes this user, or choose a file with --db"
            )
            return CampaignError(f"{where}{_reason(error)}; {choose}")
        return CampaignError(f"{where}{_reason(error)}")


def _engine(location: Location) -> sa.Engine:
    if location.path is not None:
        engine = sa.create_engine(
            location.url,
            poolclass=NullPool,
            connect_args={"timeout": _BUSY_S, "check_same_thread": False},
        )
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        options = {"connect_timeout": _CONNECT_S, "application_name": "systola", **_KEEPALIVE}
        given = {name: value for name, value in options.items() if name not in location.url.query}
        return sa.create_engine(location.url, poolclass=NullPool, connect_args=given)
    except ImportError as error:
        raise CampaignError(
            f"database {location}: PostgreSQL needs the package psycopg ({error}): "
            "pip install 'systola[postgres]'"
        ) from None


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin as `_begin_sqlite` says
    for pragma in ("foreign_keys = ON", "journal_mode = WAL", "synchronous = NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads before it writes must not find in the middle that another one wrote.
    write = connection.get_execution_options().get("systola_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _passes(error: DBAPIError) -> bool:
    """Whether another try may do: the connection is lost, or others are in the way."""
    if error.connection_invalidated or _is_busy(error):
        return True
    state = getattr(error.orig, "sqlstate", None)
    no_connection = isinstance(error, sa.exc.OperationalError) and state is None
    is_postgres = not isinstance(error.orig, sqlite3.Error)
    return is_postgres and (no_connection or state in (*_AGAIN, *_SERVER_LEAVES))


def _is_busy(error: DBAPIError) -> bool:
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_full(error: DBAPIError) -> bool:
    if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return True
    return getattr(error.orig, "sqlstate", None) == "53100"


def _reason(error: DBAPIError) -> str:
    """The driver's message, without the statement."""
    return " ".join(str(error.orig).split())

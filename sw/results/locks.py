"""Who runs a campaign: a lock that vanishes with its process, however that ends."""

import fcntl
import struct
from pathlib import Path
from typing import IO, Any, Protocol

import sqlalchemy as sa
from sqlalchemy import Connection

from sw.results.database import Database


class Locks(Protocol):
    """The locks of one `Store`; campaigns are numbers."""

    def take(self, connection: Connection, campaign: int) -> bool:
        """Whether this store has it now; True too if it had it before."""

    def release(self, campaign: int) -> None:
        """Give it back; nothing happens if it is not held."""

    def take_again(self, connection: Connection) -> int | None:
        """After the connection was lost: take every lock again; one that others have, or None."""


def locks_of(database: Database) -> Locks:
    path = database.location.path
    return SessionLocks(database) if path is None else FileLocks(path)


class FileLocks:
    """SQLite: a byte per campaign of a file beside the database, locked by the kernel.

    The locks belong to the open file, so that two stores of one process exclude each other as well.
    A process that was forked off and goes on would hold them on.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".lock")
        self._held: dict[int, IO[bytes]] = {}

    def take(self, connection: Connection, campaign: int) -> bool:
        if campaign in self._held:
            return True
        file = self._path.open("ab")
        byte = struct.pack("hhqqi", fcntl.F_WRLCK, 0, campaign, 1, 0)  # struct flock
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, byte)
        except BlockingIOError:
            file.close()
            return False
        except BaseException:
            file.close()
            raise
        self._held[campaign] = file
        return True

    def release(self, campaign: int) -> None:
        file = self._held.pop(campaign, None)
        if file is not None:
            file.close()

    def take_again(self, connection: Connection) -> int | None:
        return None  # files stay open when a connection does not


_SESSION = sa.text(
    "SELECT pid, backend_start AS start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
)
_TAKE = sa.text("SELECT pg_try_advisory_lock('runs'::regclass::oid::int4, :campaign)")
_RELEASE = sa.text("SELECT pg_advisory_unlock('runs'::regclass::oid::int4, :campaign)")
_END = sa.text(
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE pid = :pid AND backend_start = :start"
)


class SessionLocks:
    """PostgreSQL: advisory locks of the session. All writes of a store go through that session.

    A connection that is lost may live on at the server for a while, with its locks: then the store
    that comes back ends it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: set[int] = set()
        self._session: dict[str, Any] | None = None

    def take(self, connection: Connection, campaign: int) -> bool:
        if campaign in self._held:
            return True
        self._session = _session(connection)
        if not connection.scalar(_TAKE, {"campaign": campaign}):
            return False
        self._held.add(campaign)
        return True

    def release(self, campaign: int) -> None:
        if campaign in self._held:
            self._held.remove(campaign)
            self._database.if_connected(lambda c: c.execute(_RELEASE, {"campaign": campaign}))

    def take_again(self, connection: Connection) -> int | None:
        if self._session is not None:
            connection.execute(_END, self._session)
            self._session = _session(connection)
        taken = (n for n in self._held if not connection.scalar(_TAKE, {"campaign": n}))
        return next(taken, None)


def _session(connection: Connection) -> dict[str, Any]:
    """What tells the connection's session from every other one of the server."""
    return dict(connection.execute(_SESSION).mappings().one())

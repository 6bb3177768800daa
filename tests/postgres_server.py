"""A PostgreSQL server of Debian's package, on a Unix socket in a folder of its own."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import sqlalchemy as sa
from campaign_helpers import wait_for

USER = "systola"


def binaries() -> Path | None:
    """The folder with `initdb` and `postgres`, of the newest version that is installed."""
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr/local/pgsql").glob("bin")]
    found = [place for place in places if (place / "initdb").exists()]
    return max(found, key=lambda place: place.parent.name.zfill(4), default=None)


class PostgresServer:
    """Runs from `start()` to `stop()`; ends with the thread that started it as well."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="systola-pg-"))
        self._as_user: list[str] = ["setpriv", "--pdeathsig", "INT"]
        if os.getuid() == 0:  # initdb refuses root
            names = {entry.pw_name for entry in pwd.getpwall()}
            user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            self._as_user += ids
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self._data = self.folder / "data"
        subprocess.run(
            [
                *(*self._as_user, programs / "initdb", "-D", self._data, "-U", USER),
                *("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            cwd=self.folder,
        )
        self._databases = 0
        self.start()

    def start(self) -> None:
        self._log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            [
                *(*self._as_user, self._programs / "postgres", "-D", self._data),
                *("-k", self.folder, "-c", "listen_addresses="),
                # A machine that loses its power is not among what is tested.
                *("-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=30"),
            ],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        wait_for(self._answers, 30)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: sessions end, the server shuts down. SIGQUIT: at once, as after a crash."""
        self._process.send_signal(how)
        self._process.wait(timeout=30)
        self._log.close()

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        self._databases += 1
        name = f"test{self._databases}"
        self.query(self.url("postgres"), f"CREATE DATABASE {name}")
        return self.url(name)

    def query(self, url: str, statement: str) -> list[tuple]:
        return look(url, statement)

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self.folder / "log").read_text()
        try:
            return self.query(self.url("postgres"), "SELECT 1") == [(1,)]
        except sa.exc.OperationalError:
            return False


def look(where: str | Path, statement: str) -> list[tuple]:
    """Rows of a database, by a connection of its own."""
    text = str(where)
    url = (
        text.replace("postgresql:", "postgresql+psycopg:") if "://" in text else f"sqlite:///{text}"
    )
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        found = connection.execute(sa.text(statement))
        return [tuple(row) for row in found] if found.returns_rows else []

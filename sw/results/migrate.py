"""Makes the database's tables, and brings those of an older release up to date.

A new database goes through the same migrations as an old one. All of them are one transaction. An
SQLite file is copied beside itself first.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from sw.results.database import Database, Say, say_on_stderr
from sw.results.schema import META, VERSION, VERSION_TABLE
from sw.results.task import CampaignError

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x5953544F4C41
"""PostgreSQL's advisory lock of who makes the tables."""


def prepare(database: Database, say: Say = say_on_stderr) -> None:
    """See that `database` has the tables of this release.

    `CampaignError` if they are a newer release's, or somebody else's; nothing is changed then.
    """
    if database.read(_version) != VERSION:
        database.write(lambda connection: _upgrade(database, connection, say))


def _upgrade(database: Database, connection: Connection, say: Say) -> None:
    if not database.is_sqlite:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    version = _version(connection)  # another process may have been faster
    if version == VERSION:
        return
    where = f"database {database.location}"
    if version is None:
        raise CampaignError(
            f"{where}: holds other tables than results; choose another one with --db"
        )
    if version > VERSION:
        raise CampaignError(
            f"{where}: schema version {version}, this release has {VERSION}; use the release that "
            "wrote it, or choose another database with --db"
        )
    if version and database.location.path is not None:
        copy = _back_up(database.location.path, version)
        say(f"{where}: schema {version} becomes {VERSION}; the file as it was: {copy}")
    _migrate(connection, version)


def _version(connection: Connection) -> int | None:
    """Number of the schema; 0: nothing is there, None: it is not ours."""
    tables = sa.inspect(connection).get_table_names()
    if VERSION_TABLE in tables:
        text = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}"))
        return int(text) if str(text).isdecimal() else None
    if connection.dialect.name == "sqlite":
        marked = connection.scalar(sa.text("PRAGMA user_version"))
        if marked and {"campaigns", "runs"} <= set(tables):
            return int(marked)
        return None if tables else 0
    return None if set(META.tables) & set(tables) else 0


def _migrate(connection: Connection, version: int) -> None:
    # Alembic takes as long to import as a small campaign to run: a database that is up to date
    # does not need it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    if version:
        command.stamp(config, f"{version:04}")
    command.upgrade(config, "head")
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")


def _back_up(path: Path, version: int) -> Path:
    """A copy of the file beside it; what an interrupted migration has left is not written over."""
    copy = path.with_name(f"{path.name}.schema{version}")
    number = 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}.schema{version}.{number}")
    part = copy.with_name(copy.name + ".part")
    part.unlink(missing_ok=True)
    try:
        with (
            closing(sqlite3.connect(path, timeout=60)) as old,
            closing(sqlite3.connect(part)) as new,
        ):
            old.backup(new)
        part.rename(copy)
    except (sqlite3.Error, OSError) as error:
        part.unlink(missing_ok=True)
        raise CampaignError(
            f"database {path}: cannot be copied to {copy} before its schema changes: {error}; "
            "make space there, or choose another database with --db"
        ) from None
    return copy

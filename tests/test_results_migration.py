"""Files of older and newer releases: rows stay, and nothing is written that is not understood."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgres_server import look
from results_helpers import start_writer, task

from sw.results import migrate
from sw.results.schema import META, VERSION
from sw.results.store import Store
from sw.results.task import CampaignError, Status

OLD = """
CREATE TABLE campaigns (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
  git_commit TEXT NOT NULL, dirty INTEGER NOT NULL, source_digest TEXT NOT NULL,
  options TEXT NOT NULL, pid INTEGER NOT NULL, created_at TEXT NOT NULL, finished_at TEXT
);
CREATE INDEX campaigns_by_key ON campaigns(key);
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, campaign INTEGER NOT NULL REFERENCES campaigns(id),
  position INTEGER NOT NULL, task TEXT NOT NULL, kind TEXT NOT NULL, workload TEXT NOT NULL,
  config TEXT NOT NULL, config_digest TEXT NOT NULL, device TEXT NOT NULL, seed INTEGER NOT NULL,
  latency INTEGER NOT NULL, stall REAL NOT NULL, git_commit TEXT NOT NULL, dirty INTEGER NOT NULL,
  status TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, started_at TEXT, finished_at TEXT,
  cycles INTEGER, macs INTEGER, compared INTEGER, counters TEXT, read_bytes INTEGER,
  write_bytes INTEGER, wall_s REAL, message TEXT, mismatch TEXT, image_digest TEXT, figures TEXT,
  UNIQUE (campaign, position)
);
PRAGMA user_version = 1;
"""
"""The tables as the release before the migrations made them."""


def old_file(path: Path, rows: int = 3) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD)
        connection.execute(
            "INSERT INTO campaigns VALUES (1, 'k', 'regress', 'mine', 'abc', 1, 'd', '{}', 7, "
            "'2026-01-01T00:00:00.000000+00:00', NULL)"
        )
        for at in range(rows):
            one = task(at)
            facts = {k: v for k, v in one.to_json().items() if k != "memory"}
            connection.execute(
                "INSERT INTO runs (campaign, position, task, kind, workload, config, "
                "config_digest, device, seed, latency, stall, git_commit, dirty, status, attempts, "
                "started_at, finished_at, cycles, counters, figures) VALUES (1, ?, ?, 'run', ?, "
                "'tiny', ?, 'golden', ?, 100, 0.0, 'abc', 1, 'passed', 1, "
                "'2026-01-01T00:00:00.000000+00:00', '2026-01-01T00:00:02.500000+00:00', ?, ?, ?)",
                (at, json.dumps(facts), one.workload, one.digest, at, 10 + at, '{"a": {"b": 1}}',
                 '{"x": 1}'),
            )  # fmt: skip
        connection.commit()


def test_a_file_of_version_1_keeps_its_rows_and_a_copy_of_itself(tmp_path: Path) -> None:
    path, said = tmp_path / "r.sqlite", []
    old_file(path)
    with Store(path, say=said.append) as store:
        runs = store.runs(1)
        campaign = store.campaign("regress", "new", [task(9)], options={})
        assert campaign.number == 2
    assert [run.task for run in runs] == [task(at) for at in range(3)]
    assert [run.outcome.cycles for run in runs if run.outcome] == [10, 11, 12]
    assert {run.status for run in runs} == {Status.PASSED}
    assert [run.duration_s for run in runs] == [2.5] * 3
    assert runs[0].outcome is not None and runs[0].outcome.counters == {"a": {"b": 1}}
    copy = tmp_path / "r.sqlite.schema1"
    assert said == [f"database {path}: schema 1 becomes {VERSION}; the file as it was: {copy}"]
    assert look(copy, "PRAGMA user_version") == [(1,)]
    assert look(copy, "SELECT count(*), sum(cycles) FROM runs") == [(3, 33)]
    assert look(path, "PRAGMA user_version") == [(VERSION,)]
    Store(path, say=said.append).close()
    assert len(said) == 1


def test_an_interrupted_migration_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.sqlite"
    old_file(path)
    whole = migrate._migrate

    def interrupted(connection: sa.Connection, version: int) -> None:
        whole(connection, version)
        raise KeyboardInterrupt

    monkeypatch.setattr(migrate, "_migrate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Store(path, say=lambda _: None)
    monkeypatch.undo()
    assert look(path, "PRAGMA user_version") == [(1,)]
    assert look(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") == [
        ("campaigns",),
        ("runs",),
    ]
    with Store(path, say=lambda _: None) as store:
        assert len(store.runs(1)) == 3
    assert (tmp_path / "r.sqlite.schema1.2").exists()  # the first copy was not written over


def test_a_copy_that_cannot_be_written_stops_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.sqlite"
    old_file(path)
    before = path.read_bytes()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(CampaignError, match=r"cannot be copied to .*: .*No space left on device"):
        Store(path)
    assert path.read_bytes()[100:] == before[100:]  # the header may say write-ahead mode now
    assert look(path, "PRAGMA user_version") == [(1,)]
    assert not list(tmp_path.glob("*.part"))


def test_a_newer_schema_is_refused_and_stays(where: str) -> None:
    Store(where).close()
    look(where, "UPDATE results_schema SET version_num = '0009'")
    with pytest.raises(CampaignError) as error:
        Store(where)
    assert f"schema version 9, this release has {VERSION}; use the release that" in str(error.value)
    assert look(where, "SELECT version_num FROM results_schema") == [("0009",)]


def test_migrations_make_the_tables_that_the_store_uses(where: str) -> None:
    Store(where).close()
    url = where.replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url if "://" in where else f"sqlite:///{where}")
    found = sa.inspect(engine)
    assert set(found.get_table_names()) == {*META.tables, "results_schema"}
    for name, table in META.tables.items():
        columns = {column["name"]: column["nullable"] for column in found.get_columns(name)}
        assert columns == {column.name: column.nullable for column in table.columns}
        indexes = {index["name"] for index in found.get_indexes(name)}
        assert {index.name for index in table.indexes} <= indexes
    engine.dispose()


def test_two_processes_may_make_the_tables_at_once(where: str) -> None:
    writers = [start_writer(where, name, 2) for name in ("left", "right")]
    for writer in writers:
        text, _ = writer.communicate(timeout=60)
        assert writer.returncode == 0, text
    assert look(where, "SELECT count(*) FROM runs WHERE status = 'passed'") == [(4,)]


def test_tables_of_others_are_not_touched(where: str) -> None:
    look(where, "CREATE TABLE runs (x INTEGER)")
    with pytest.raises(CampaignError, match="holds other tables than results; choose another one"):
        Store(where)
    assert look(where, "SELECT count(*) FROM runs") == [(0,)]

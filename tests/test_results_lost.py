"""The database goes away in the middle of a campaign, comes back, stays away, or is full."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from campaign_helpers import wait_for
from postgres_server import look
from results_helpers import passed, start_writer, task

from sw.results import database
from sw.results.database import Database
from sw.results.store import Campaign, Store
from sw.results.task import CampaignError, Status

if TYPE_CHECKING:
    from postgres_server import PostgresServer

ROWS = "SELECT position, status, attempts FROM runs ORDER BY position"


@pytest.fixture
def url(postgres: "PostgresServer") -> str:
    return postgres.new_database()


def end_sessions(postgres: "PostgresServer", url: str) -> int:
    """What an administrator does; how many there were."""
    name = url.partition("@/")[2].partition("?")[0]
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    return len(postgres.query(postgres.url("postgres"), end))


def carry_out(campaign: Campaign, disturb: dict[int, object]) -> None:
    """Every run of a campaign; `disturb` has functions to call before some of them end."""
    for run in campaign.runs():
        campaign.start(run.id)
        disturb.get(run.position, int)()
        campaign.finish(run.id, passed(run.position))


def test_a_server_that_restarts_and_sessions_that_are_ended_cost_nothing(
    postgres: "PostgresServer", url: str
) -> None:
    said: list[str] = []

    def restart(how: signal.Signals) -> None:
        postgres.stop(how)
        postgres.start()

    with Store(url, say=said.append) as store:
        campaign = store.campaign("regress", "mine", [task(i) for i in range(6)], options={})
        carry_out(
            campaign,
            {
                1: lambda: end_sessions(postgres, url),
                2: lambda: restart(signal.SIGINT),
                4: lambda: restart(signal.SIGQUIT),
            },
        )
        # The campaign is still ours.
        with Store(url) as other, pytest.raises(CampaignError, match="is being run by process"):
            other.campaign("regress", "mine", [task(i) for i in range(6)], options={})
        campaign.close(complete=True)
    assert look(url, ROWS) == [(i, "passed", 1) for i in range(6)]
    assert look(url, "SELECT count(*), count(finished_at) FROM campaigns") == [(1, 1)]
    assert sum("tried again for 900 s" in line for line in said) == 3
    assert sum("goes on after" in line for line in said) == 3
    assert all("\n" not in line for line in said)


def test_a_change_whose_answer_was_lost_is_not_made_twice(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has stored it, the connection ends before it says so: the worst moment."""
    once = Database._once
    lost: list[str] = []

    def lose(self: Database, work: object, *, write: bool) -> object:
        result = once(self, work, write=write)  # type: ignore[arg-type]
        if write and len(lost) % 2 == 0:
            lost.append("now")
            error = sa.exc.OperationalError("COMMIT", {}, Exception("no answer"))
            error.connection_invalidated = True
            raise error
        lost.append("then")
        return result

    monkeypatch.setattr(Database, "_once", lose)
    monkeypatch.setattr(database, "_PAUSES_S", (0.001,))
    with Store(url, say=lambda _: None) as store:
        campaign = store.campaign("regress", "mine", [task(0)], options={}, fresh=True)
        campaign.add([task(1), task(2)])
        for run in campaign.runs():
            campaign.start(run.id)
            campaign.finish(run.id, passed())
        campaign.record([(task(3), passed(4))])
        campaign.close(complete=True)
    assert lost.count("now") > 5
    monkeypatch.undo()
    assert look(url, ROWS) == [
        (0, "passed", 1),
        (1, "passed", 1),
        (2, "passed", 1),
        (3, "passed", 0),
    ]
    assert look(url, "SELECT count(*) FROM campaigns") == [(1,)]


def test_a_campaign_that_another_process_took_over_is_its_own(
    postgres: "PostgresServer", url: str
) -> None:
    said: list[str] = []
    with Store(url, say=said.append) as store:
        campaign = store.campaign("regress", "mine", [task(0), task(1)], options={})
        first, second = campaign.runs()
        campaign.start(first.id)
        end_sessions(postgres, url)
        with Store(url) as other:
            theirs = other.campaign("regress", "mine", [task(0), task(1)], options={})
            theirs.finish(first.id, passed(7))
            with pytest.raises(CampaignError, match=r"campaign 1 in .* was taken over by process"):
                campaign.finish(first.id, passed(8))
            theirs.close(complete=True)
        # Also after the other one has left it.
        with pytest.raises(CampaignError, match="was taken over"):
            campaign.start(second.id)
    assert look(url, "SELECT cycles, status FROM runs ORDER BY position") == [
        (7, "passed"),
        (None, "waiting"),
    ]


def test_a_session_that_the_server_still_has_is_ended_by_the_one_that_comes_back(url: str) -> None:
    """The network went away: the client has a new connection, the server the old one's locks."""
    with Store(url, say=lambda _: None) as store:
        campaign = store.campaign("regress", "mine", [task(0)], options={})
        (run,) = campaign.runs()
        old = store.database._connection
        assert old is not None
        store.database._connection = None
        campaign.finish(run.id, passed(3))
        assert campaign.runs()[0].status is Status.PASSED
        old.close()


def test_a_server_that_stays_away_ends_the_campaign_with_a_message(
    postgres: "PostgresServer", url: str
) -> None:
    said: list[str] = []
    with Store(url, patience_s=1.0, say=said.append) as store:
        campaign = store.campaign("regress", "mine", [task(0), task(1)], options={})
        first, second = campaign.runs()
        campaign.finish(first.id, passed())
        postgres.stop()
        try:
            with pytest.raises(CampaignError, match=r"not there for 1 s: .*; what was finished be"):
                campaign.finish(second.id, passed())
            campaign.close(complete=False)
        finally:
            postgres.start()
    assert "tried again for 1 s" in said[0]
    assert look(url, "SELECT status FROM runs ORDER BY position") == [("passed",), ("waiting",)]


def test_a_server_that_cannot_be_used_is_one_message(
    postgres: "PostgresServer", url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        refused = f"postgresql://systola:secret@127.0.0.1:{port}/x"
        with pytest.raises(CampaignError) as error:
            Store(refused)
    text = str(error.value)
    assert text.startswith(f"database postgresql://systola:***@127.0.0.1:{port}/x: ")
    assert "Connection refused" in text and "see that the server runs" in text
    assert "secret" not in text
    with pytest.raises(CampaignError, match='database "none" does not exist'):
        Store(postgres.url("none"))
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CampaignError, match=r"needs the package psycopg .* 'systola\[postgres\]'"):
        Store(url)


def test_the_command_line_says_what_is_wrong_with_a_database(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "systola", "regress", "smoke"),
            *("--only", "add tiny golden", "--db", "postgresql://127.0.0.1:1/x"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("systola: database postgresql://127.0.0.1:1/x: ")
    assert "Traceback" not in done.stderr


# No space -------------------------------------------------------------------------------------


def fill(campaign: Campaign, size: int) -> int:
    """Finish runs with long messages until there is no space; how many were finished."""
    done = 0
    for run in campaign.runs():
        if run.status is Status.WAITING:
            campaign.start(run.id)
            campaign.finish(run.id, passed(run.position, message="x" * size))
            done += 1
    return done


def space_ends_and_comes_back(path: Path, limit: object, unlimit: object) -> None:
    tasks = [task(i) for i in range(12)]
    with Store(path) as store:
        campaign = store.campaign("regress", "mine", tasks, options={})
        limit(store)
        with pytest.raises(CampaignError) as error:
            fill(campaign, 100_000)
        text = str(error.value)
        assert text.startswith(f"database {path}: ") and "make space and start the same" in text
        before = campaign.runs()
    done = [run for run in before if run.status is Status.PASSED]
    assert 2 <= len(done) < 12
    unlimit()
    with Store(path) as store:
        campaign = store.campaign("regress", "mine", tasks, options={})
        assert campaign.resumed
        assert fill(campaign, 100_000) == 12 - len(done)
        after = campaign.runs()
        campaign.close(complete=True)
    assert [run for run in after if run.id in {d.id for d in done}] == done
    assert {run.status for run in after} == {Status.PASSED}
    assert look(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_full_database_keeps_what_was_finished(tmp_path: Path) -> None:
    def limit(store: Store) -> None:
        pages = store.database.read(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar())
        store.database.read(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages + 100}"))

    space_ends_and_comes_back(tmp_path / "r.sqlite", limit, lambda: None)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_what_was_finished(small_disk: Path) -> None:
    ballast = small_disk / "ballast"

    def limit(_store: Store) -> None:
        free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize
        ballast.write_bytes(bytes(max(0, free - 600_000)))

    space_ends_and_comes_back(small_disk / "r.sqlite", limit, ballast.unlink)


def test_a_busy_database_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program holds the file for longer than SQLite waits by itself."""
    monkeypatch.setattr(database, "_BUSY_S", 0.05)
    path, said = tmp_path / "r.sqlite", []
    with Store(path, say=said.append) as store:
        campaign = store.campaign("regress", "mine", [task(0)], options={})
        engine = sa.create_engine(f"sqlite:///{path}")
        holder = engine.raw_connection()
        holder.cursor().execute("BEGIN IMMEDIATE")
        threading.Timer(0.5, lambda: said.append("let go")).start()
        thread = threading.Thread(target=lambda: campaign.finish(1, passed(3)))
        thread.start()
        wait_for(lambda: "let go" in said)
        holder.rollback()
        thread.join(timeout=20)
        assert campaign.runs()[0].status is Status.PASSED
    assert "database is locked; tried again for 900 s" in said[0]


def test_a_writer_in_another_process_survives_a_restart(
    postgres: "PostgresServer", url: str
) -> None:
    writer = start_writer(url, "mine", 8, pause=2)

    def in_the_pause() -> bool:
        try:
            return look(url, "SELECT count(*) FROM runs WHERE status = 'running'") == [(1,)]
        except sa.exc.DBAPIError:
            return False

    wait_for(in_the_pause)
    wait_for(lambda: look(url, "SELECT count(*) FROM runs WHERE status = 'passed'") == [(3,)])
    postgres.stop()
    time.sleep(2.5)
    postgres.start()
    text, _ = writer.communicate(timeout=60)
    assert writer.returncode == 0, text
    assert "tried again for 900 s" in text and "goes on after" in text
    assert look(url, ROWS) == [(i, "passed", 1) for i in range(8)]

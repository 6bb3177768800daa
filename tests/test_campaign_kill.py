"""Whatever is killed when: finished runs stay, those in flight repeat, nothing is left running."""

import os
import signal
from pathlib import Path

import pytest
from campaign_helpers import all_gone, family, finish, query, start, statuses, systola, wait_for

from spec import preset
from sw.runtime.rtl import RtlDevice

pytestmark = [pytest.mark.rtl, pytest.mark.timeout(900)]

# Some quick runs, and some that take a second or two.
SUITE = """
entries:
  - {configs: [tiny], devices: [golden], workloads: [matmul:3x5x7, add:c=5], seeds: 2}
  - {configs: [tiny], devices: [rtl], workloads: [matmul:128x96x64], seeds: 4}
"""
RUNS = 9
ROWS = "SELECT position, status, started_at, finished_at, attempts FROM runs ORDER BY position"


@pytest.fixture(scope="module", autouse=True)
def simulator() -> None:
    RtlDevice(preset("tiny")).close()  # the build is not what is tested


@pytest.fixture
def arguments(tmp_path: Path) -> list[object]:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)
    return ["regress", suite, "--jobs", 2, "--db", tmp_path / "results.sqlite"]


def interrupted(arguments: list[object], how: str) -> tuple[list[tuple], set[int]]:
    """Start, kill when some runs are done and a simulator is busy: rows, and who was running."""
    database = Path(str(arguments[-1]))
    process = start(*arguments)

    def in_the_middle() -> dict[int, str] | None:
        now = statuses(database)
        below = family(process.pid)
        busy = "simulator" in below.values() and now.get("running", 0) == 2
        return below if busy and now.get("passed", 0) >= 3 else None

    below = wait_for(in_the_middle)
    if how == "parent":
        process.kill()
    elif how == "group":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.send_signal(signal.SIGINT)
    code, text = finish(process)
    assert code == (130 if how == "Ctrl-C" else -signal.SIGKILL), text
    if how == "Ctrl-C":
        assert "INCOMPLETE  regress suite: " in text and " 0 did not run" not in text
    return query(database, ROWS), set(below)


@pytest.mark.parametrize("how", ["parent", "group", "Ctrl-C"])
def test_a_campaign_goes_on_where_it_was_killed(arguments: list[object], how: str) -> None:
    database = Path(str(arguments[-1]))
    before, below = interrupted(arguments, how)
    assert all_gone(below)
    assert query(database, "PRAGMA integrity_check") == [("ok",)]
    done = {row[0] for row in before if row[1] == "passed"}
    flying = {row[0] for row in before if row[4] and row[1] != "passed"}
    assert len(before) == RUNS and len(done) >= 3 and 1 <= len(flying) <= 2
    assert {row[1] for row in before if row[0] in flying} == (
        {"waiting"} if how == "Ctrl-C" else {"running"}
    )

    code, text = systola(*arguments)
    assert code == 0, text
    assert f"goes on with {RUNS - len(done)} of {RUNS} runs" in text
    assert f"PASS  regress suite: {RUNS} passed, 0 failed, 0 timed out, 0 error" in text
    after = query(database, ROWS)
    for old, new in zip(before, after, strict=True):
        assert new[1] == "passed" and new[3] >= new[2]
        assert new[4] == (2 if new[0] in flying else 1)
        if new[0] in done:
            assert new == old
        elif new[0] in flying:
            assert old[2] is None or new[2] > old[2]
    assert query(database, "PRAGMA integrity_check") == [("ok",)]
    # One campaign, and nothing is left of it.
    assert query(database, "SELECT count(*), count(finished_at) FROM campaigns") == [(1, 1)]

    code, text = systola(*arguments)
    assert code == 0 and f"goes on with 0 of {RUNS} runs" in text
    assert query(database, ROWS) == after


def test_a_campaign_is_run_by_one_process_and_others_share_the_file(
    arguments: list[object],
) -> None:
    database = Path(str(arguments[-1]))
    process = start(*arguments)
    wait_for(lambda: statuses(database).get("running"))
    code, text = systola(*arguments)
    assert code == 2
    assert f"is being run by process {process.pid}; wait for it, or start another" in text
    # Another campaign is no trouble.
    code, text = systola(*arguments, "--only", "add")
    assert code == 0 and "PASS  regress suite: 2 passed" in text
    code, text = finish(process)
    assert code == 0, text
    assert query(database, "SELECT count(*) FROM campaigns") == [(2,)]
    assert statuses(database) == {"passed": RUNS + 2}
    code, text = systola(*arguments, "--only", "add", "--fresh")
    assert code == 0 and "has 2 of 2 runs" in text
    assert query(database, "SELECT count(*) FROM campaigns") == [(3,)]


def test_a_run_beyond_its_limit_is_ended_with_its_simulator(tmp_path: Path) -> None:
    suite = tmp_path / "slow.yaml"
    suite.write_text(
        # Seconds of waiting for memory, nothing for the golden model.
        "entries: [{configs: [tiny], devices: [rtl], workloads: [matmul:32x32x32],\n"
        "           memories: [{latency: 1000000}], limit_s: 5},\n"
        "          {configs: [tiny], devices: [golden], workloads: [matmul:3x5x7]}]\n"
    )
    database = tmp_path / "results.sqlite"
    command = ["regress", suite, "--jobs", 2, "--db", database]
    process = start(*command)
    below = wait_for(lambda: (b := family(process.pid)) and "simulator" in b.values() and b)
    simulators = [pid for pid, name in below.items() if name == "simulator"]
    code, text = finish(process)
    assert code == 1, text
    assert all_gone(simulators, 0.1)
    assert "FAIL  regress slow: 2 passed, 0 failed, 1 timed out, 0 error, 0 did not run" in text
    title = "matmul:32x32x32 tiny rtl seed 0 latency 1000000 stall 0"
    assert f"TIMED OUT  {title}\n    not done after 5 s: ended by force\n    repeat: " in text
    assert query(database, "SELECT message FROM runs WHERE status = 'timeout'") == [
        ("not done after 5 s: ended by force",)
    ]
    # It counts as done until asked to be repeated.
    code, text = systola(*command)
    assert code == 1 and "goes on with 0 of 3 runs" in text


def test_a_child_that_is_killed_costs_its_run_only_which_runs_again(
    arguments: list[object],
) -> None:
    database = Path(str(arguments[-1]))
    process = start(*arguments)
    below = wait_for(
        lambda: (
            statuses(database).get("passed", 0) >= 1
            and "simulator" in (b := family(process.pid)).values()
            and b
        )
    )
    simulator = next(pid for pid, name in below.items() if name == "simulator")
    stat = Path(f"/proc/{simulator}/stat").read_text()
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    code, text = finish(process)
    assert code == 0, text
    assert all_gone([simulator])
    lost = "its process ended unexpectedly (exit code -9); it runs again (attempt 2 of 3)"
    assert text.count(lost) == 1
    assert query(database, "SELECT sum(attempts), min(worker), max(worker) FROM runs") == [
        (RUNS + 1, "local-1", "local-2")
    ]

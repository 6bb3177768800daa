"""Campaigns on the workers of a scheduler: the same rows, whoever is lost, late or different."""

import importlib
import json
import os
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from campaign_helpers import all_gone, family, finish, query, start, statuses, systola, wait_for
from cluster_helpers import ROOT, Cluster, cluster
from engine_stubs import CARRY_OUT, Memo, run_stubs, stub

from spec import preset
from sw.campaign.engine.runner import Engine
from sw.results.store import Run
from sw.results.task import CampaignError, Status
from sw.runtime.rtl import RtlDevice

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as one:
        yield one


def in_background(site: Cluster, *tasks: object, memo: Memo) -> tuple[threading.Thread, list[Run]]:
    """A campaign of stubs on a cluster, in a thread; its rows are there when it has ended."""
    rows: list[Run] = []

    def run() -> None:
        rows.extend(run_stubs(site.folder, *tasks, memo=memo, scheduler=site.address))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, rows


def child_of(worker: int) -> int:
    """The process that carries out tasks below a worker, once it is there."""

    def found() -> int:
        below = psutil.Process(worker).children(recursive=True)
        commands = {process.pid: process.cmdline() for process in below}
        children = [p for p, c in commands.items() if c[1:3] == ["-m", "sw.campaign.engine.child"]]
        return children[0] if children else 0

    return wait_for(found)


def pid_below_guard(program: object) -> int:
    """The process that a guard started."""
    (child,) = psutil.Process(program.process.pid).children()
    return child.pid


# Workers that come and go -----------------------------------------------------------------------


def test_a_worker_that_is_killed_costs_its_task_and_a_late_one_gets_work(site: Cluster) -> None:
    first = site.worker("first")
    memo = Memo()
    tasks = [stub("sleep:2", seed) for seed in range(4)]
    thread, rows = in_background(site, *tasks, memo=memo)
    database = site.folder / "results.sqlite"
    wait_for(lambda: statuses(database).get("running"))
    below = family(first.process.pid)
    os.kill(pid_below_guard(first), signal.SIGKILL)
    assert all_gone(below)
    wait_for(lambda: any("is gone" in text for text in memo.said))
    late = site.worker("late")
    thread.join(60)
    assert [row.status for row in rows] == [Status.PASSED] * 4
    lost = f"{tasks[0].title}: its worker was lost; it runs again (attempt 2 of 3)"
    assert [text for text in memo.said if "runs again" in text] == [lost]
    assert [row.attempts for row in rows] == [2, 1, 1, 1]
    name = f"{socket.gethostname()}-{pid_below_guard(late)}-1"
    assert {row.worker for row in rows} == {name}
    assert memo.teams[-1] == [name]


@pytest.mark.parametrize("who", ["worker", "nanny", "child"])
def test_whatever_of_dasks_own_worker_is_killed_the_task_runs_again(
    site: Cluster, who: str
) -> None:
    nanny = site.dask_worker("plain")
    memo = Memo()
    thread, rows = in_background(site, stub("sleep:3"), memo=memo)
    wait_for(lambda: statuses(site.folder / "results.sqlite").get("running"))
    child = child_of(pid_below_guard(nanny))
    of_dask = psutil.Process(child).parent().parent()
    below = family(of_dask.pid)
    victims = {"worker": of_dask.pid, "nanny": pid_below_guard(nanny), "child": child}
    os.kill(victims[who], signal.SIGKILL)
    if who != "child":
        assert all_gone(below)
    if who == "nanny":
        site.worker("other")
    thread.join(90)
    assert [row.status for row in rows] == [Status.PASSED] and rows[0].attempts == 2
    assert len([text for text in memo.said if "it runs again (attempt 2 of 3)" in text]) == 1


def test_a_worker_of_other_sources_is_refused_and_the_others_go_on(site: Cluster) -> None:
    other = site.folder / "other"
    for name in ("spec", "hw_gen", "rtl", "golden_model", "sw", "systola", "cocotb_tests"):
        shutil.copytree(ROOT / name, other / name, ignore=shutil.ignore_patterns("gen", "__pyc*"))
    shutil.copytree(ROOT / "requirements", other / "requirements")
    changed = other / "sw" / "campaign" / "measure.py"
    changed.write_text(changed.read_text() + "# another one\n")
    site.worker("other", root=other)
    memo = Memo()
    thread, rows = in_background(site, stub("good"), memo=memo)
    wait_for(lambda: any("is not used" in text for text in memo.said))
    site.worker("ours")
    thread.join(60)
    assert [row.status for row in rows] == [Status.PASSED]
    (text,) = [text for text in memo.said if "is not used" in text]
    assert text.endswith(": bring the same sources there") and "its sources are " in text


def test_a_worker_without_systola_is_refused(site: Cluster, monkeypatch) -> None:
    bare = site.folder / "bare"
    # Packages of that name that have nothing in them hide the installed ones.
    (bare / "sw" / "campaign").mkdir(parents=True)
    for folder in (bare / "sw", bare / "sw" / "campaign"):
        (folder / "__init__.py").touch()
    arguments = ("-m", "dask", "worker", site.address, "--nthreads", 1, "--no-nanny")
    site.start("bare", *arguments, "--dashboard-address", "127.0.0.1:0", root=bare)
    wait_for(lambda: "Registered to" in site.log("bare"))
    site.worker("ours")
    memo, heard = Memo(), site.folder / "heard"

    def refused() -> None:
        if any("is not used" in text for text in memo.said):
            heard.touch()

    memo.on_tick = refused
    task = stub(f"wait:{heard}")
    (row,) = run_stubs(site.folder, task, memo=memo, scheduler=site.address)
    assert row.status is Status.PASSED
    (text,) = [text for text in memo.said if "is not used" in text]
    assert "it cannot say what it is (ModuleNotFoundError: " in text


def test_workers_without_the_resource_are_said_to_lack_it(site: Cluster, monkeypatch) -> None:
    monkeypatch.setattr("sw.campaign.engine.runner._PATIENCE_S", 1.0)
    site.dask_worker("plain")
    memo = Memo()
    task = stub("good", device="rtl")
    thread, rows = in_background(site, task, memo=memo)
    wait_for(lambda: any("waiting" in text for text in memo.said))
    said = f"waiting: no worker offers rtl=1 (the most: none at all), which {task.title} needs"
    assert said in memo.said
    site.dask_worker("other", "--resources", "rtl=1")
    thread.join(60)
    assert [row.status for row in rows] == [Status.PASSED] and rows[0].worker == "other"


def test_without_workers_a_campaign_says_how_to_start_one(site: Cluster, monkeypatch) -> None:
    monkeypatch.setattr("sw.campaign.engine.runner._PATIENCE_S", 1.0)
    memo = Memo()
    thread, rows = in_background(site, stub("good"), memo=memo)
    said = f"waiting: no worker is there (start one with: systola worker {site.address})"
    wait_for(lambda: any(text.startswith(said) for text in memo.said))
    site.worker("first")
    thread.join(60)
    assert [row.status for row in rows] == [Status.PASSED]


def test_an_abandoned_task_ends_at_its_worker(site: Cluster) -> None:
    worker = site.worker("first")
    memo = Memo()
    children: list[int] = []

    def leave() -> None:
        if statuses(site.folder / "results.sqlite").get("running"):
            children.append(child_of(pid_below_guard(worker)))
            raise KeyboardInterrupt

    memo.on_tick = leave
    with pytest.raises(KeyboardInterrupt):
        run_stubs(site.folder, stub("sleep:600"), memo=memo, scheduler=site.address)
    assert all_gone(children)
    # The worker is free for the next one.
    memo.on_tick = lambda: None
    (row,) = run_stubs(site.folder, stub("good"), memo=memo, scheduler=site.address)
    assert row.status is Status.PASSED


# The scheduler ----------------------------------------------------------------------------------


def test_a_lost_scheduler_ends_the_campaign_which_goes_on_elsewhere(site: Cluster) -> None:
    worker = site.worker("first")
    memo = Memo()

    def kill() -> None:
        if memo.ended:
            os.kill(pid_below_guard(site.scheduler), signal.SIGKILL)
            memo.on_tick = lambda: None

    memo.on_tick = kill
    tasks = [stub("sleep:1.5", seed) for seed in range(5)]
    with pytest.raises(CampaignError, match=f"scheduler {site.address} was lost: .*goes on$"):
        run_stubs(site.folder, *tasks, memo=memo, scheduler=site.address)
    assert worker.process.wait(30) == 2
    assert f"scheduler {site.address} is gone" in site.log("first")
    done = statuses(site.folder / "results.sqlite")
    assert done["passed"] >= 1 and done["waiting"] >= 1 and set(done) == {"passed", "waiting"}
    rows = run_stubs(site.folder, *tasks, jobs=2)
    assert {row.status for row in rows} == {Status.PASSED}


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("udp://127.0.0.1:1", "must be like tcp://host:8786, or tls://host:8786"),
        ("127.0.0.1:1", "must be like tcp://host:8786"),
        ("tcp://127.0.0.1", "must be like tcp://host:8786"),
        ("tcp://127.0.0.1:port", "must be like tcp://host:8786"),
        ("tcp://no-such-host.invalid:1", "no Dask scheduler answers there within 1 s ("),
        ("tcp://127.0.0.1:1", "no Dask scheduler answers there within 1 s ("),
        ("silent", "no Dask scheduler answers there within 1 s ("),
    ],
)
def test_an_address_without_a_scheduler_is_an_error_in_seconds(
    monkeypatch: pytest.MonkeyPatch, address: str, message: str
) -> None:
    monkeypatch.setattr("sw.campaign.engine.cluster.CONNECT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        if address == "silent":
            address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        start_s = time.monotonic()
        with pytest.raises(CampaignError) as error, Engine(1, address, carry_out=CARRY_OUT):
            pass
    assert str(error.value).startswith(f"--scheduler {address}: ") and message in str(error.value)
    assert time.monotonic() - start_s < 10


def test_a_command_with_a_wrong_address_ends_with_2(tmp_path: Path) -> None:
    database = tmp_path / "results.sqlite"
    arguments = ("regress", "smoke", "--db", database, "--scheduler", "http://127.0.0.1:80")
    code, text = systola(*arguments)
    assert code == 2 and "Traceback" not in text
    assert text == (
        "systola: --scheduler http://127.0.0.1:80: must be like tcp://host:8786, or "
        "tls://host:8786\n"
    )
    assert not database.exists()


# Everything together ------------------------------------------------------------------------------

SUITE = """
entries:
  - {configs: [tiny], devices: [golden], workloads: [matmul:3x5x7, add:c=5], seeds: 2}
  - {configs: [tiny], devices: [rtl], workloads: [matmul:128x96x64], seeds: 6}
"""
OTHER = ("id", "campaign", "worker", "machine", "attempts", "wall_s", "duration_s", "figures")
"""Columns that may differ between two campaigns of the same tasks; figures: seconds of a build."""


def facts(database: Path) -> list[dict[str, object]]:
    names = [row[1] for row in query(database, "PRAGMA table_info(runs)")]
    kept = [name for name in names if name not in OTHER and not name.endswith("_at")]
    rows = query(database, f"SELECT {', '.join(kept)}, figures FROM runs ORDER BY position")
    found = [dict(zip([*kept, "figures"], row)) for row in rows]
    for row in found:
        figures = json.loads(row.pop("figures") or "{}")
        row["figures"] = {k: v for k, v in figures.items() if not k.endswith("_s")}
    return found


@pytest.mark.rtl
def test_three_workers_of_which_one_dies_and_one_is_late_give_the_rows_of_this_machine(
    site: Cluster,
) -> None:
    RtlDevice(preset("tiny")).close()  # the build is not what is tested
    suite = site.folder / "suite.yaml"
    suite.write_text(SUITE)
    local, remote = site.folder / "local.sqlite", site.folder / "remote.sqlite"
    code, text = systola("regress", suite, "--jobs", 2, "--db", local)
    assert code == 0, text

    first = site.worker("first")
    site.dask_worker("second", "--no-nanny", "--resources", "rtl=1 synth=1 memory=4e9")
    process = start("regress", suite, "--db", remote, "--scheduler", site.address)
    wait_for(lambda: statuses(remote).get("passed", 0) >= 3)
    below = family(first.process.pid)
    os.kill(pid_below_guard(first), signal.SIGKILL)
    assert all_gone(below)
    site.worker("third")
    code, text = finish(process)
    assert code == 0, text
    assert "1 worker: second\n" in text or "2 workers: second, " in text
    assert facts(remote) == facts(local)
    counts = query(remote, "SELECT count(*), count(DISTINCT position), max(attempts) FROM runs")
    assert counts[0][:2] == (11, 11) and counts[0][2] <= 2


def snippets(page: str) -> list[str]:
    """The Python of a page of docs/."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)


@pytest.mark.parametrize("kind", ["SLURMCluster", "LSFCluster"])
def test_job_scripts_of_the_page_start_workers_with_resources(kind: str, monkeypatch) -> None:
    (code,) = [text for text in snippets("cluster.md") if kind in text]
    made: dict[str, object] = {}

    class Recorded:
        """Instead of a cluster, which wants a batch system: what the page says of one."""

        scheduler_address = ""

        def __init__(self, **options: object) -> None:
            options.pop("scheduler_options")
            made.update(options)

        def adapt(self, **_: int) -> None: ...

        def scale(self, _: int) -> None: ...

    job = importlib.import_module(f"dask_jobqueue.{kind[:-7].lower()}")
    monkeypatch.setattr(f"dask_jobqueue.{kind}", Recorded)
    monkeypatch.setattr("time.sleep", lambda _: None)
    exec(code, {"print": lambda _: None})
    script = getattr(job, kind.replace("Cluster", "Job"))(
        scheduler="tcp://10.0.0.1:8786", name="w", **made
    ).job_script()
    assert "#SBATCH -t 08:00:00" in script or "#BSUB -W 08:00" in script
    assert "\ncd /nfs/systola\n. .venv/bin/activate\nexport SYSTOLA_CACHE=/nfs/cache\n" in script
    (start_line,) = [line for line in script.splitlines() if "dask_worker" in line]
    assert start_line.split(" -m ")[1].startswith(
        "distributed.cli.dask_worker tcp://10.0.0.1:8786 --name w --nthreads 1 "
    )
    assert start_line.endswith(" --resources 'rtl=1 synth=1 memory=8e9'")

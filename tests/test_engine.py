"""The engine on this machine: order, limits, lost children, and what it costs."""

import time
from pathlib import Path

import psutil
import pytest
from engine_stubs import TINY, Memo, run_stubs, stub

from spec import preset
from sw.campaign.engine.agenda import Agenda
from sw.campaign.engine.cluster import local_cluster
from sw.campaign.engine.estimate import Estimate
from sw.campaign.engine.load import measure
from sw.campaign.engine.resources import needs_of, share_of_machine
from sw.campaign.engine.team import reason_against
from sw.campaign.plan import build_task, with_build
from sw.campaign.sweep.space import load_space
from sw.campaign.sweep.tasks import grid_plan
from sw.results.store import Run
from sw.results.task import Kind, Status, Task

SMALL = preset("small")


def rows(*tasks: Task) -> list[Run]:
    facts = {"status": Status.WAITING, "started_at": None, "finished_at": None, "outcome": None}
    return [Run(id=number, task=task, **facts) for number, task in enumerate(tasks, 1)]


# Which task is next ---------------------------------------------------------------------------


def drained(agenda: Agenda, last: Task | None = None) -> list[str]:
    """Titles in the order in which one worker gets them, if each passes."""
    titles = []
    while run := agenda.next(last, lambda needs: True):
        titles.append(run.task.title)
        agenda.finish(run.task, Status.PASSED)
        last = run.task
    return titles


def test_builds_come_first_and_runs_of_one_simulator_stay_together() -> None:
    runs = [stub(f"w{i}", device="rtl", config=c) for i in range(2) for c in (TINY, SMALL)]
    golden = stub("w", config=SMALL)
    plan = [golden, build_task(TINY), build_task(SMALL), *map(with_build, runs)]
    assert drained(Agenda(rows(*plan))) == [
        *("build tiny", "build small"),
        "w small golden seed 0",
        *("w0 tiny rtl seed 0", "w1 tiny rtl seed 0"),
        *("w0 small rtl seed 0", "w1 small rtl seed 0"),
    ]


def test_what_needs_a_task_that_does_not_pass_never_runs() -> None:
    build, lint = build_task(TINY), Task(kind=Kind.LINT, config=TINY)
    chain = [lint, build_task(TINY, needs=lint.key), with_build(stub("w", device="rtl"))]
    agenda = Agenda(rows(*chain))
    first = agenda.next(None, lambda needs: True)
    assert first.task is lint and agenda.next(None, lambda needs: True) is None
    agenda.finish(lint, Status.FAILED)
    reasons = []
    for run, reason in agenda.take_blocked():
        agenda.finish(run.task, Status.BLOCKED)
        reasons.append((run.task.title, reason))
    assert reasons == [
        ("build tiny", "did not run: lint tiny failed"),
        ("w tiny rtl seed 0", "did not run: build tiny blocked"),
    ]
    assert len(agenda) == 0
    # A plan that lacks what a task needs.
    alone = Agenda(rows(with_build(stub("w", device="rtl"))))
    assert [reason for _, reason in alone.take_blocked()] == [
        f"did not run: needs {build.key}, not planned"
    ]


def test_a_task_that_comes_back_is_next_again() -> None:
    agenda = Agenda(rows(stub("a"), stub("b")))
    run = agenda.next(None, lambda needs: True)
    agenda.put_back(run)
    assert drained(agenda) == ["a tiny golden seed 0", "b tiny golden seed 0"]


def test_twenty_thousand_tasks_are_handed_out_in_seconds() -> None:
    plan = [build_task(TINY), *(with_build(stub("w", i, device="rtl")) for i in range(20_000))]
    start = time.process_time()
    assert len(drained(Agenda(rows(*plan)))) == 20_001
    assert time.process_time() - start < 10


def test_needs_follow_from_kind_device_and_limit() -> None:
    assert needs_of(stub("w")) == {}
    assert needs_of(stub("w", device="rtl")) == {"rtl": 1}
    assert needs_of(build_task(TINY)) == {"rtl": 1}
    assert needs_of(stub("w", memory_limit_mib=3)) == {"memory": 3 << 20}
    share = share_of_machine(2)
    assert share["rtl"] == share["synth"] == 1
    assert share["memory"] == psutil.virtual_memory().total // 2


def test_the_time_left_comes_from_tasks_of_the_same_kind() -> None:
    waiting = [stub("a", 9), stub("b", 9)]
    estimate = Estimate(waiting)
    assert estimate.left_s([], 1) is None
    for seed in range(2):
        estimate.add(stub("a", seed), 10.0)
    estimate.add(stub("b", 0), 2.0)
    assert estimate.left_s([], 1) == 12.0 and estimate.left_s([], 2) == 6.0
    estimate.start(waiting[0])
    assert estimate.left_s([(waiting[0], 4.0)], 1) == 8.0
    assert estimate.left_s([(waiting[0], 4.0)], 4) == 6.0


# What happens to tasks ------------------------------------------------------------------------


def test_a_child_that_dies_costs_its_task_only_which_runs_again(tmp_path: Path) -> None:
    memo = Memo()
    mark = tmp_path / "mark"
    once, good = run_stubs(tmp_path, stub(f"die-once:{mark}"), stub("good"), memo=memo)
    assert once.status is good.status is Status.PASSED
    text = "its process ended unexpectedly (exit code 3); it runs again (attempt 2 of 3)"
    assert memo.said[1:] == [f"{once.task.title}: {text}"]


def test_a_task_whose_worker_is_lost_three_times_is_an_error(tmp_path: Path) -> None:
    bad, good = run_stubs(tmp_path, stub("die"), stub("good"))
    assert (bad.status, good.status) == (Status.ERROR, Status.PASSED)
    assert bad.outcome.message.splitlines() == [
        "its worker was lost 3 times; the last time: its process ended unexpectedly (exit code 3)",
        "these are its last words",
    ]


def test_what_is_certain_is_kept_when_the_search_for_its_cause_dies(tmp_path: Path) -> None:
    (run,) = run_stubs(tmp_path, stub("partial"))
    assert run.status is Status.FAILED
    assert run.outcome.message.startswith("wrong\nlooking for its cause: its process ended unexp")


def test_time_beyond_the_limit_ends_the_task_alone(tmp_path: Path) -> None:
    slow, good = run_stubs(tmp_path, stub("sleep:60", limit_s=1.0), stub("good"))
    assert (slow.status, good.status) == (Status.TIMEOUT, Status.PASSED)
    assert slow.outcome.message == "not done after 1 s: ended by force"


def test_a_build_that_a_worker_lacks_has_the_time_of_a_build(tmp_path: Path) -> None:
    # Seconds of building do not count against the run's limit; those of builds do.
    (run,) = run_stubs(tmp_path, stub("build:6", limit_s=5.0))
    assert run.status is Status.PASSED
    build = build_task(TINY, limit_s=5.0)
    tasks = [build, with_build(stub("build:60", 1, device="rtl"))]
    _, run = run_stubs(tmp_path, *tasks)
    assert run.status is Status.TIMEOUT
    assert run.outcome.message == "its simulator was not built after 5 s: ended by force"


def test_memory_beyond_the_limit_ends_the_task_alone(tmp_path: Path) -> None:
    big, good = run_stubs(tmp_path, stub("hold:400", memory_limit_mib=200), stub("good"))
    assert (big.status, good.status) == (Status.ERROR, Status.PASSED)
    words = big.outcome.message.split()
    assert big.outcome.message.startswith("took ") and 200 < float(words[1]) < 700
    assert big.outcome.message.endswith(" MiB of memory, its limit is 200 MiB: ended by force")


def test_a_child_serves_task_after_task(tmp_path: Path) -> None:
    runs = run_stubs(tmp_path, *(stub("good", seed) for seed in range(20)))
    assert len({run.outcome.figures["pid"] for run in runs}) == 1
    assert [run.outcome.figures["seed"] for run in runs] == list(range(20))


def test_a_resource_that_nobody_offers_is_said_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sw.campaign.engine.runner._PATIENCE_S", 1.0)
    memo = Memo()
    huge = stub("good", memory_limit_mib=1 << 40)

    def end_when_said() -> None:
        if memo.ended and any("waiting: " in text for text in memo.said):
            raise KeyboardInterrupt

    memo.on_tick = end_when_said
    with pytest.raises(KeyboardInterrupt):
        run_stubs(tmp_path, huge, stub("good", 1), memo=memo)
    (text,) = [text for text in memo.said if "waiting: " in text]
    assert text.startswith("waiting: no worker offers memory=1,099,511,627,776 MiB (the most: mem")
    assert text.endswith(f"), which {huge.title} needs")
    assert memo.ended == ["good tiny golden seed 1"]


def test_an_interruption_ends_children_and_puts_tasks_back(tmp_path: Path) -> None:
    memo = Memo()
    before = set(psutil.Process().children(recursive=True))
    memo.on_tick = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        run_stubs(tmp_path, stub("sleep:60"), stub("sleep:60", 1), jobs=2, memo=memo)
    started = set(psutil.Process().children(recursive=True)) - before
    _, left = psutil.wait_procs(started, timeout=5)
    assert not left
    done = run_stubs(tmp_path, stub("sleep:0"), stub("sleep:0", 1))
    assert {run.status for run in done} == {Status.PASSED}


def test_workers_of_this_machine_open_no_port_and_start_at_once() -> None:
    process = psutil.Process()
    before = {c.laddr for c in process.net_connections() if c.status == psutil.CONN_LISTEN}
    start = time.monotonic()
    with local_cluster(2) as client:
        assert time.monotonic() - start < 3
        facts = client.scheduler_info()["workers"]
        assert sorted(worker["name"] for worker in facts.values()) == ["local-1", "local-2"]
        assert all(address.startswith("inproc://") for address in facts)
        after = {c.laddr for c in process.net_connections() if c.status == psutil.CONN_LISTEN}
    assert after == before


def test_workers_that_differ_are_refused_by_what_they_say() -> None:
    from sw.campaign.engine.perform import introduce

    facts = introduce()
    assert reason_against(facts, facts["sources"]) == ""
    assert reason_against({**facts, "python": "3.9"}, facts["sources"]) == (
        f"it runs Python 3.9, the campaign {facts['python']}"
    )
    assert reason_against(facts, "0" * 16) == (
        f"its sources are {facts['sources']}, the campaign's {'0' * 16}: "
        "bring the same sources there"
    )


def test_hundreds_of_tasks_pass_through_engine_and_database(tmp_path: Path) -> None:
    load = measure(300, 2, tmp_path / "load.sqlite")
    assert load.tasks == 300 and load.memory > load.memory_before > 0
    assert "300 tasks in " in str(load)


def test_spaces_and_suites_may_limit_memory(tmp_path: Path) -> None:
    from sw.campaign.regress.suite import load_suite

    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "memory_limit_mib: 100\nentries:\n"
        "  - {configs: [tiny], workloads: [add], devices: [golden]}\n"
        "  - {configs: [tiny], workloads: [rescale], devices: [golden], memory_limit_mib: 7}\n"
    )
    assert [task.memory_limit_mib for task in load_suite(str(suite)).tasks] == [100, 7]
    space = tmp_path / "space.yaml"
    space.write_text("base: tiny\npoints: [{}]\nworkloads: [add]\nmemory_limit_mib: 50\n")
    tasks = grid_plan(load_space(space)).tasks
    runs = [task for task in tasks if task.kind is Kind.RUN]
    assert {task.memory_limit_mib for task in runs} == {50}

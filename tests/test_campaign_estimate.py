"""How long a suite will take, and what the database knows of earlier runs."""

from dataclasses import replace
from pathlib import Path

import pytest
from campaign_helpers import systola

from spec.config import preset
from sw.campaign.plan import build_task
from sw.campaign.regress.estimate import estimate, guess, known_by, spoken
from sw.campaign.regress.suite import load_suite
from sw.results.history import durations, results_of
from sw.results.store import Store
from sw.results.task import Kind, Outcome, Status, Task

TASK = Task(kind=Kind.RUN, workload="add", config=preset("tiny"), device="rtl")


def test_earlier_runs_go_before_benchmarks_and_jobs_share_the_work() -> None:
    tasks = [replace(TASK, seed=i) for i in range(10)]
    of = {known_by(TASK): 30.0}
    found = estimate(tasks, 2, of)
    assert (found.seconds, found.known, found.total) == (150.0, 10, 10)
    # One long run is not shared.
    assert estimate([*tasks, replace(TASK, workload="rescale")], 20, of).seconds == 30.0
    assert str(found) == (
        "estimate: 2 min with 2 processes (10 of 10 runs from earlier ones in this database, the "
        "others from benchmarks)"
    )
    assert str(estimate(tasks[:1], 1, {})).startswith("estimate: 1 s with 1 process (0 of 1 runs")


def test_benchmarks_say_which_runs_are_long() -> None:
    network = replace(TASK, workload="resnet18", limit_s=7200)
    small = replace(network, config=preset("small"))
    default = replace(network, config=preset("default"))
    # docs/data: 101.7 s of simulation on small, 26.9 s on default.
    assert 90 < guess(small) < 180 and 25 < guess(default) < 60
    assert guess(replace(small, limit_s=20)) == 20
    assert guess(build_task(preset("large"))) > guess(build_task(preset("tiny"))) > 10
    official = Task(
        kind=Kind.CONFORMANCE, workload="conformance:add:4", config=preset("tiny"), device="rtl"
    )
    # The generator's time counts once, for golden.
    assert guess(replace(official, device="golden")) > 10 > guess(official) > 5
    assert guess(replace(official, kind=Kind.PROGRAMS, workload="programs:4")) == 100


@pytest.mark.parametrize(("name", "least", "most"), [("evening", 0.25, 1.5), ("nightly", 1, 9)])
def test_suites_end_in_their_time_on_two_cores(name: str, least: float, most: float) -> None:
    assert least < estimate(load_suite(name).tasks, 2, {}).seconds / 3600 < most


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.4, "12 s"), (89, "89 s"), (720, "12 min"), (12_000, "3 h 20 min")]
)
def test_times_are_said_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert spoken(seconds) == text


def test_the_database_knows_durations_and_results_by_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(TASK, seed=1)
    with Store(tmp_path / "r.sqlite") as store:
        for mark, status, cycles in (
            ("a" * 12, Status.PASSED, 100),
            ("b" * 12, Status.FAILED, 120),
            ("c" * 12 + "+", Status.PASSED, 1),
        ):
            monkeypatch.setattr("sw.results.store.commit", lambda mark=mark: mark)
            campaign = store.campaign("regress", "mine", [TASK, other], options={})
            for run in campaign.runs():
                campaign.start(run.id)
                campaign.finish(run.id, Outcome(status=status, cycles=cycles, message="why"))
            campaign.close(complete=True)
        found = results_of(store, TASK)
        assert [(r.commit[0], r.status, r.cycles) for r in found] == [
            ("a", Status.PASSED, 100),
            ("b", Status.FAILED, 120),
        ]
        assert results_of(store, replace(TASK, memory="ddr4")) == []
        assert results_of(store, replace(TASK, latency=9)) == []
        assert set(durations(store)) == {known_by(TASK)}


def test_a_suite_says_its_estimate_before_it_starts(tmp_path: Path) -> None:
    suite = tmp_path / "mine.yaml"
    suite.write_text("entries: [{configs: [tiny], workloads: [add:c=3], devices: [golden]}]")
    arguments = ("regress", suite, "--db", tmp_path / "r.sqlite", "--jobs", 1)
    _, text = systola(*arguments)
    lines = text.splitlines()
    assert lines[1] == (
        "estimate: 1 s with 1 process (0 of 1 runs from earlier ones in this database, the others "
        "from benchmarks)"
    )
    _, text = systola(*arguments, "--fresh")
    assert "(1 of 1 runs from earlier ones in this database" in text

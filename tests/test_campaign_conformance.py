"""Official TOSA tests as tasks of a regression."""

from dataclasses import replace
from pathlib import Path

import pytest
from campaign_helpers import Told

from spec.config import preset
from sw.campaign.measure import Bench, carry_out
from sw.campaign.measures import conformance
from sw.campaign.measures.conformance import named_workloads, sample_workloads
from sw.campaign.regress.suite import load_suite
from sw.campaign.summary import repeat_command
from sw.measure.conformance.chunk import Setting, Status, Verdict
from sw.measure.conformance.suite import Suite, Tests
from sw.results.task import Kind, Outcome, Task
from sw.results.task import Status as Ended

TASK = Task(
    kind=Kind.CONFORMANCE, workload="conformance:clamp:2", config=preset("tiny"), device="golden"
)
NAMES = [f"clamp_{i}" for i in range(8)]


def outcome(task: Task) -> Outcome:
    return carry_out(task, Bench(Told()))


def test_a_suite_asks_for_counts_or_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        """
entries:
  - {configs: [tiny], conformance: 3, operators: [clamp, tile], seeds: [5]}
  - {configs: [tiny], conformance: [add_10_i32, clamp_1_i8, add_11_i32], devices: [golden]}
"""
    )
    tasks = [t for t in load_suite(str(path)).tasks if t.kind is Kind.CONFORMANCE]
    assert [t.title for t in tasks] == [
        "conformance:clamp:3 tiny golden seed 5",
        "conformance:tile:3 tiny golden seed 5",
        "conformance:clamp:3 tiny rtl seed 5",
        "conformance:tile:3 tiny rtl seed 5",
        "conformance:add:add_10_i32,add_11_i32 tiny golden seed 0",
        "conformance:clamp:clamp_1_i8 tiny golden seed 0",
    ]
    assert all(bool(t.needs) is (t.device == "rtl") for t in tasks)
    assert len(sample_workloads(1, [])) > 50
    assert named_workloads([]) == []
    assert repeat_command(tasks[2]) == "systola conformance clamp --config tiny --device rtl"


def test_a_sample_passes_and_says_how_many_ran() -> None:
    found = outcome(TASK)
    assert found.status is Ended.PASSED, found.message
    assert found.figures == {"tests": 2, "tests_passed": 2, "tests_available": 10}


def test_what_does_not_pass_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[list[str]] = []
    made: list[str] = []
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path))

    def run(tests: Tests, setting: Setting, _: Path) -> list[Verdict]:
        ran.append(list(tests))
        assert all((path / "desc.json").is_file() for path in tests.values())
        assert (setting.device, setting.config) == ("rtl", "tiny")
        good, *bad = tests
        return [
            Verdict(test=good, status=Status.PASSED, cycles=70),
            *(Verdict(test=t, status=Status.FAILED, message="y[0]", cycles=5) for t in bad),
        ]

    def generated(_suite: Suite, operator: str, folder: Path) -> Tests:
        made.append(operator)
        for name in NAMES:
            (folder / name).mkdir()
            (folder / name / "desc.json").write_text("{}")
        return {name: folder / name for name in NAMES}

    monkeypatch.setattr(conformance, "run_chunk", run)
    monkeypatch.setattr(conformance, "generate", generated)
    found = outcome(replace(TASK, device="rtl"))
    assert found.status is Ended.FAILED and found.cycles == 75
    (tests,) = ran
    assert found.message == f"1 of 2 tests did not pass\n{tests[1]}: failed: y[0]"
    assert found.mismatch == {"test": tests[1], "element": "y[0]"}
    # The seed draws the sample, and the same one draws the same.
    for seed in (0, 1, 2):
        outcome(replace(TASK, device="rtl", seed=seed))
    assert ran[1] == ran[0] and len({tuple(names) for names in ran}) > 1
    # The generator runs once for each sample: 0 came twice.
    assert made == ["clamp"] * 3
    outcome(replace(TASK, device="rtl", workload="conformance:clamp:clamp_7,clamp_3"))
    assert ran[-1] == ["clamp_3", "clamp_7"]
    lost = outcome(replace(TASK, device="rtl", workload="conformance:clamp:clamp_9"))
    assert lost.status is Ended.ERROR
    assert lost.message == "conformance test 'clamp_9': clamp has no such test among its 8"
    many = outcome(replace(TASK, device="rtl", workload="conformance:clamp:8"))
    assert many.message.splitlines()[-1] == "and 2 more"


def test_a_configuration_without_a_name_cannot_run_them() -> None:
    found = outcome(replace(TASK, config=preset("tiny").with_settings({"taps": "5"})))
    assert found.status is Ended.ERROR and "only presets can run these tests" in found.message

"""Known failures: which runs they are of, what they change, and when they should go."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from campaign_helpers import Told

from spec.config import preset
from sw.campaign.measure import Bench, carry_out
from sw.campaign.plan import Plan, build_task
from sw.campaign.regress.quarantine import load_quarantine, notes, quarantined
from sw.campaign.summary import complaints, exit_code, status_table, verdict
from sw.results.store import Run, Store
from sw.results.task import CampaignError, Kind, Outcome, Status, Task

TINY, RECT = preset("tiny"), preset("rect")
TODAY = date(2026, 11, 20)
TERM = "reason: the third row is late, since: 2026-11-02, until: 2026-12-01"


def task(workload: str = "matmul:3x5x7", **values: object) -> Task:
    facts = {"kind": Kind.RUN, "workload": workload, "config": TINY, "device": "rtl"}
    return Task(**{**facts, **values})


def listed(tmp_path: Path, *entries: str) -> Path:
    path = tmp_path / "known.yaml"
    path.write_text("entries:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries))
    return path


def rows(tmp_path: Path, tasks: list[Task], *statuses: Status) -> list[Run]:
    with Store(tmp_path / "results.sqlite") as store:
        campaign = store.campaign("regress", "mine", tasks, options={}, fresh=True)
        for run, status in zip(campaign.runs(), statuses, strict=True):
            campaign.finish(run.id, Outcome(status=status, message="wrong"))
        found = campaign.runs()
        campaign.close(complete=True)
        return found


@pytest.mark.parametrize(
    ("patterns", "matched"),
    [
        ("workload: 'matmul:*'", [0, 1, 2, 3]),
        ("workload: matmul", []),
        ("config: rect", [1]),
        ("device: golden", [2]),
        ("memory: '*ddr4'", [3]),
        ("seed: 7", [3]),
        ("seed: '[1-9]'", [3, 4]),
        ("workload: '*', device: rtl, memory: ideal", [0, 1, 4]),
    ],
)
def test_patterns_say_which_runs_are_meant(
    tmp_path: Path, patterns: str, matched: list[int]
) -> None:
    tasks = (
        task(),
        task(config=RECT),
        task(device="golden"),
        task(memory="lpddr4", seed=7),
        task("programs:1", kind=Kind.PROGRAMS, seed=3),
        build_task(TINY),
    )
    entries = load_quarantine(listed(tmp_path, f"{patterns}, {TERM}, owner: ada"))
    marked = quarantined(Plan(name="mine", tasks=tasks), entries, TODAY).tasks
    assert [i for i, t in enumerate(marked) if t.quarantine] == matched
    said = "the third row is late (until 2026-12-01, ada)"
    assert {marked[i].quarantine for i in matched} <= {said}
    # They are the same runs of the same campaign as without the list.
    assert [t.key for t in marked] == [t.key for t in tasks]


def test_a_quarantined_failure_is_reported_and_does_not_count(tmp_path: Path) -> None:
    bad, good = task("add"), task()
    (entry,) = load_quarantine(listed(tmp_path, f"workload: add, {TERM}"))
    known, other = quarantined(Plan(name="mine", tasks=(bad, good)), [entry], TODAY).tasks
    runs = rows(tmp_path, [known, other], Status.FAILED, Status.PASSED)
    assert exit_code(runs) == 0
    assert verdict("x", runs, 0, "db") == (
        "PASS  x: 1 passed, 0 failed, 0 timed out, 0 error, 0 did not run, 1 quarantined of 2, "
        "0 s; db"
    )
    text = complaints(runs)
    assert text[0] == "QUARANTINED  add tiny rtl seed 0"
    assert "    failed, quarantined: the third row is late (until 2026-12-01)" in text
    assert "quarantined" in [c.name for c in status_table(runs).columns]
    # The same failure counts where the list does not name it.
    runs = rows(tmp_path, [known, other], Status.PASSED, Status.FAILED)
    assert exit_code(runs) == 1
    # What could not run because of something else is no known failure.
    runs = rows(tmp_path, [known, other], Status.BLOCKED, Status.PASSED)
    assert exit_code(runs) == 1


def test_the_row_has_the_reason() -> None:
    unknown = task("no such kernel", device="golden", quarantine="known (until 2026-12-01)")
    outcome = carry_out(unknown, Bench(Told()))
    assert outcome.status is Status.ERROR
    assert outcome.figures["quarantine"] == "known (until 2026-12-01)"


def test_entries_that_should_go_are_told(tmp_path: Path) -> None:
    (entry,) = load_quarantine(listed(tmp_path, f"workload: add, {TERM}"))
    runs = rows(tmp_path, [task("add"), task()], Status.FAILED, Status.PASSED)
    name = "known.yaml: entries[0] (workload add)"
    assert notes([entry], runs, TODAY) == []
    passing = [replace(run, status=Status.PASSED) for run in runs]
    assert notes([entry], passing, TODAY) == [f"quarantine: {name} passes again: remove it"]
    late = date(2026, 12, 2)
    assert notes([entry], runs, late) == [
        f"quarantine: {name} expired on 2026-12-01: 1 of its 1 runs did not pass, and they count"
    ]
    plan = Plan(name="mine", tasks=(task("add"),))
    assert not quarantined(plan, [entry], late).tasks[0].quarantine
    assert quarantined(plan, [entry], date(2026, 12, 1)).tasks[0].quarantine
    assert notes([entry], runs[1:], TODAY) == [f"quarantine: {name} matches no run of this suite"]
    assert notes([entry], runs[1:], TODAY, whole=False) == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (TERM, "entries[0]: matches every run: give one of workload, config, device, memory"),
        (f"workloads: add, {TERM}", "'workloads': no such key"),
        ("workload: add, since: 2026-11-02, until: 2026-12-01", "entries[0]: reason is missing"),
        ("workload: add, reason: ' ', since: 2026-11-02, until: 2026-12-01", "reason is empty"),
        ("workload: add, reason: x, since: 2026-11-02", "entries[0]: until is missing"),
        ("workload: add, reason: x, since: 2026-11-02, until: soon", "until 'soon': must be a dat"),
        (
            "workload: add, reason: x, since: 2026-11-02, until: 2026-11-01",
            "until 2026-11-01: lies before since 2026-11-02",
        ),
        (f"workload: 3, {TERM}", "workload 3: must be a text"),
        (f"seed: -3, {TERM}", "seed -3: must be a whole number from 0"),
        (f"workload: add, owner: [1], {TERM}", "owner [1]: must be a text"),
    ],
)
def test_a_bad_entry_says_where_and_what(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(CampaignError) as error:
        load_quarantine(listed(tmp_path, entry))
    assert message in str(error.value)


def test_the_list_of_the_release_is_one_and_no_entry_has_expired() -> None:
    today = date.today()
    assert [e.title for e in load_quarantine() if e.until < today] == []

"""JUnit XML of a regression: its shape, its counts, and that any message survives it."""

import xml.etree.ElementTree as ElementTree
from datetime import datetime
from pathlib import Path

from campaign_helpers import systola

from spec.config import preset
from sw.campaign.regress.junit import junit, write_junit
from sw.results.store import Run
from sw.results.task import Kind, Outcome, Status, Task

FACTS = {"commit": "0123456789ab", "source_digest": "ab" * 8}
COUNTS = ("tests", "failures", "errors", "skipped")
CASE = ("skipped", "error", "failure", "system-out", "system-err")
"""What a `testcase` may hold, in this order, as Jenkins and GitLab read it."""


def run(number: int, status: Status, message: str = "", **values: object) -> Run:
    mismatch = values.pop("mismatch", None)
    facts = {"kind": Kind.RUN, "workload": "add", "config": preset("tiny"), "device": "rtl"}
    done = status not in (Status.WAITING, Status.RUNNING)
    outcome = Outcome(status=status, message=message, cycles=9, compared=4, mismatch=mismatch)
    return Run(
        id=number,
        task=Task(**{**facts, "seed": number, **values}),
        status=status,
        started_at="2026-11-24T03:00:00.000000+00:00" if done else None,
        finished_at="2026-11-24T03:00:01.500000+00:00" if done else None,
        outcome=outcome if done else None,
    )


def check_shape(root: ElementTree.Element) -> None:
    """The elements, their attributes and their counts are what readers of JUnit expect."""
    assert root.tag == "testsuites" and root.get("name")
    for suite in root:
        assert suite.tag == "testsuite" and suite.get("name") and suite.get("hostname")
        datetime.strptime(suite.get("timestamp", ""), "%Y-%m-%dT%H:%M:%S")
        assert next(child.tag for child in suite) == "properties"
        assert all(p.get("name") and p.get("value") is not None for p in suite[0])
        cases = list(suite)[1:]
        assert cases and {case.tag for case in cases} == {"testcase"}
        for case in cases:
            assert case.get("name") and case.get("classname") and float(case.get("time", "")) >= 0
            tags = [child.tag for child in case]
            assert tags == sorted(tags, key=CASE.index) and len(set(tags)) == len(tags)
            for bad in [child for child in case if child.tag in ("failure", "error")]:
                assert bad.get("message") and bad.get("type") and bad.text
        found = [child.tag for case in cases for child in case]
        given = (len(cases), *(found.count(tag) for tag in ("failure", "error", "skipped")))
        assert tuple(int(suite.get(key, "-1")) for key in COUNTS) == given
    for key in COUNTS:
        assert int(root.get(key, "-1")) == sum(int(suite.get(key, "-1")) for suite in root)


def test_every_status_has_its_element(tmp_path: Path) -> None:
    where = {"layer": "conv1", "instruction": 41, "element": "y[0, 3]", "expected": 12, "got": 13}
    runs = [
        run(0, Status.PASSED),
        run(1, Status.FAILED, "184 of 6,272 elements differ\nit arises in …", mismatch=where),
        run(2, Status.TIMEOUT, "not done after 60 s"),
        run(3, Status.ERROR, "\x1b[31mno \x00compiler\x1b[0m <&>\ud800"),
        run(4, Status.BLOCKED, "did not run: build tiny error"),
        run(5, Status.WAITING),
        run(6, Status.FAILED, "wrong", quarantine="the row is late (until 2026-12-01)"),
        run(7, Status.PASSED, device="golden"),
    ]
    path = tmp_path / "deep" / "junit.xml"
    write_junit(path, "regress mine", runs, FACTS)
    root = ElementTree.parse(path).getroot()
    check_shape(root)
    assert [root.get(key) for key in COUNTS] == ["8", "2", "2", "2"]
    rtl, golden = root
    assert (rtl.get("name"), golden.get("name")) == (
        "regress mine tiny rtl",
        "regress mine tiny golden",
    )
    properties = {p.get("name"): p.get("value") for p in rtl[0]}
    assert properties == {
        **FACTS,
        "configuration": "tiny",
        "configuration_digest": preset("tiny").digest_hex,
        "device": "rtl",
    }
    cases = {case.get("name"): case for case in rtl.iter("testcase")}
    failure = cases["add tiny rtl seed 1"].find("failure")
    assert failure is not None and failure.get("message") == "184 of 6,272 elements differ"
    for line in (
        *("layer: conv1", "instruction: 41", "expected: 12", "got: 13"),
        "repeat: systola sim add --seed 1 --config tiny --device rtl",
    ):
        assert line in (failure.text or "").splitlines()
    assert cases["add tiny rtl seed 1"].get("time") == "1.500"
    assert cases["add tiny rtl seed 2"].find("failure").get("type") == "timeout"
    error = cases["add tiny rtl seed 3"].find("error")
    assert error is not None and "compiler" in error.get("message", "")
    skipped = cases["add tiny rtl seed 6"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "quarantined: the row is late (until 2026-12-01)"
    interrupted = cases["add tiny rtl seed 5"].find("skipped")
    assert interrupted is not None and "interrupted" in interrupted.get("message", "")
    assert cases["add tiny rtl seed 0"].find("system-out").text == "cycles: 9\ncompared: 4"


def test_a_regression_without_failures_has_none() -> None:
    root = junit("regress mine", [run(0, Status.PASSED)], FACTS)
    check_shape(root)
    assert [root.get(key) for key in COUNTS] == ["1", "0", "0", "0"]


def test_regress_writes_it_and_a_known_failure_is_skipped(tmp_path: Path) -> None:
    suite = tmp_path / "mine.yaml"
    suite.write_text("entries: [{configs: [tiny], workloads: [add:c=3, 'matmul:3x5x7']}]")
    known = tmp_path / "known.yaml"
    known.write_text(
        "entries: [{workload: 'add:*', reason: no time, since: 2026-01-01, until: 2999-01-01}]"
    )
    report = tmp_path / "junit.xml"
    arguments = ["regress", suite, "--only", "golden", "--db", tmp_path / "r.sqlite", "--jobs", 1]
    code, text = systola(*arguments, "--junit", report, "--quarantine", known)
    assert code == 0, text
    assert "quarantine: known.yaml: entries[0] (workload add:*) passes again: remove it" in text
    root = ElementTree.parse(report).getroot()
    check_shape(root)
    assert root.get("tests") == "2" and root.get("failures") == "0"
    # The limit of time is no other plan: the run of `add` is run again, and has no time.
    code, text = systola(
        *arguments, "--junit", report, "--quarantine", known, "--fresh", "--time-limit", 0.001
    )
    assert code == 1 and "QUARANTINED  add:c=3 tiny golden seed 0" in text
    root = ElementTree.parse(report).getroot()
    check_shape(root)
    assert [root.get(key) for key in COUNTS] == ["2", "1", "0", "1"]
    bad = tmp_path / "no" / "folder" / "x.xml"
    code, text = systola(*arguments, "--quarantine", bad)
    assert code == 2 and "x.xml: cannot read: it is no file" in text

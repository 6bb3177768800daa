"""The conformance harness: a sample of the official suite, and everything that can go wrong."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from campaign_helpers import ROOT, all_gone, family, wait_for

from spec.config import preset
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph
from sw.measure.conformance.chunk import Setting, Status, Verdict, run_chunk
from sw.measure.conformance.conduct import conduct
from sw.measure.conformance.execute import execute
from sw.measure.conformance.expose import expose_constants
from sw.measure.conformance.store import Verdicts
from sw.measure.conformance.suite import ConformanceError, Suite, Tests, generate, operator_of
from sw.measure.conformance.summary import record
from sw.measure.pages.conformance import render
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import ReportError

GOLDEN = Setting(device="golden", config="tiny")
FAULTY = dataclasses.replace(GOLDEN, sut="conformance_suts")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Tests:
    """All official tests of CLAMP."""
    return generate(Suite(operators=("clamp",)), "clamp", tmp_path_factory.mktemp("clamp"))


@pytest.fixture
def tests(generated: Tests, tmp_path: Path) -> Tests:
    """Five of them, to be run once: results are written beside them."""
    small = sorted(generated, key=lambda name: (len(name), name))[:5]
    return {n: Path(shutil.copytree(generated[n], tmp_path / "tests" / n)) for n in small}


def test_a_sample_of_the_official_suite_passes_on_golden(tests: Tests, tmp_path: Path) -> None:
    verdicts = run_chunk(tests, GOLDEN, tmp_path)
    assert [(v.test, v.status) for v in verdicts] == [(name, Status.PASSED) for name in tests]
    assert all(v.instructions > 0 for v in verdicts)


def test_a_sample_passes_on_the_rtl_in_one_simulation(tests: Tests, tmp_path: Path) -> None:
    processes: list[object] = []
    setting = dataclasses.replace(GOLDEN, device="rtl")
    verdicts = run_chunk(tests, setting, tmp_path, processes.append)
    assert [v.status for v in verdicts] == [Status.PASSED] * len(tests)
    assert all(v.cycles > 0 for v in verdicts)
    assert len(processes) == 1


def test_what_goes_wrong_is_no_pass(
    tests: Tests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong element fails; a test that kills the runner or never ends takes no other along."""
    faults = ("wrong", "dies", "stands", "unsupported")
    wrong, dies, stands, unsupported, good = tests
    for name, fault in zip((wrong, dies, stands, unsupported), faults, strict=True):
        monkeypatch.setenv(f"FAULT_{name}", fault)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    setting = dataclasses.replace(FAULTY, limit_s=4)
    verdicts = {v.test: v for v in run_chunk(tests, setting, tmp_path)}
    assert {name: verdicts[name].status for name in tests} == {
        wrong: Status.FAILED,
        dies: Status.CRASHED,
        stands: Status.CRASHED,
        unsupported: Status.UNSUPPORTED,
        good: Status.PASSED,
    }
    assert verdicts[unsupported].message == "too large"
    assert verdicts[dies].message == "the process ended with 3"
    assert verdicts[stands].message == "did not end within 4 s"


KILLED = """
import sys
from pathlib import Path
from sw.measure.conformance.chunk import Setting, run_chunk
setting = Setting(device="golden", config="tiny", sut="conformance_suts")
run_chunk({sys.argv[1]: Path(sys.argv[2])}, setting, Path(sys.argv[3]))
"""


def test_the_runner_does_not_outlive_who_started_it(tests: Tests, tmp_path: Path) -> None:
    name, path = next(iter(tests.items()))
    places = (str(ROOT), str(Path(__file__).parent))
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, name, str(path), str(tmp_path)],
        env={**os.environ, f"FAULT_{name}": "stands", "PYTHONPATH": os.pathsep.join(places)},
    )
    wait_for(lambda: (tmp_path / "journal").exists())  # the test is under way
    below = family(process.pid)
    assert len(below) >= 2  # the guard and the runner
    process.kill()
    process.wait()
    assert all_gone(below)


def test_what_the_importer_refuses_fails_with_its_reason(tests: Tests, tmp_path: Path) -> None:
    name = next(iter(tests))
    graph = tests[name] / "test.json"
    text = graph.read_text()
    graph.write_text(text.replace('"_minor": 0', '"_minor": 7'))
    (verdict,) = run_chunk({name: tests[name]}, GOLDEN, tmp_path)
    assert verdict.status is Status.FAILED
    assert "rejected: " in verdict.message
    assert "made for TOSA 1.7.2" in verdict.message


def test_negative_tests_pass_because_the_importer_refuses_them(tmp_path: Path) -> None:
    suite = Suite(operators=("tile",), test_type="negative")
    tests = generate(suite, "tile", tmp_path)
    assert len(tests) >= 5
    setting = dataclasses.replace(GOLDEN, test_type="negative")
    verdicts = run_chunk(tests, setting, tmp_path)
    assert {v.status for v in verdicts} == {Status.PASSED}


def test_a_run_goes_on_where_it_was(
    generated: Tests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Only what has no verdict runs; what was not generated is missing; data is deleted."""
    some = dict(list(generated.items())[:3])
    folders = []

    def copied(_suite: Suite, _operator: str, folder: Path) -> Tests:
        folders.append(folder)
        return {n: Path(shutil.copytree(p, folder / n)) for n, p in some.items()}

    ran = []

    def run(tests: Tests, *_: object) -> list[Verdict]:
        ran.extend(tests)
        return [Verdict(test=name, status=Status.PASSED) for name in tests]

    expected = {*some, "clamp_lost"}
    monkeypatch.setattr("sw.measure.conformance.conduct.generate", copied)
    monkeypatch.setattr("sw.measure.conformance.conduct.listed", lambda *_: set(expected))
    monkeypatch.setattr("sw.measure.conformance.conduct.run_chunk", run)
    first, *others = some
    with Verdicts(where, "some", "golden", preset("tiny")) as store:
        store.add([Verdict(test=first, status=Status.FAILED, message="before")])
        verdicts = conduct(Suite(operators=("clamp",)), GOLDEN, store)
    assert ran == others
    assert {n: v.status for n, v in verdicts.items()} == {
        first: Status.FAILED,
        **dict.fromkeys(others, Status.PASSED),
        "clamp_lost": Status.MISSING,
    }
    assert not any(folder.exists() for folder in folders)
    with Verdicts(where, "some", "golden", preset("tiny"), retry=True) as store:
        assert sorted(store.all()) == sorted(others)
    with Verdicts(where, "other", "golden", preset("tiny")) as store:
        assert store.all() == {}


def test_constants_become_inputs_and_nothing_is_folded() -> None:
    """The device computes an operator of constants; zero points stay."""
    graph = Graph(name="sum")
    values = [graph.add_constant(f"c{i}", np.arange(12).reshape(3, 4) * i, "int32") for i in (1, 2)]
    graph.outputs = [graph.add_op("ADD", values)]
    exposed, constants = expose_constants(graph)
    assert exposed.inputs == ["c1_data", "c2_data"]
    assert graph.inputs == []
    done = execute(graph, [], [], GoldenDevice(preset("tiny")))
    assert done.instructions >= 3  # two loads at least, and the sum
    np.testing.assert_array_equal(done.outputs[0], run_graph(graph, {})[graph.outputs[0]])
    np.testing.assert_array_equal(constants["c2_data"], graph.constant("c2"))


def test_names_belong_to_the_longest_operator() -> None:
    assert operator_of("greater_equal_1_i32") == "greater_equal"
    assert operator_of("conv2d_3x1_1x2_i8xi8") == "conv2d"
    assert operator_of("nothing_1") == "other"


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(ConformanceError, match=r"OPS=fft2d: no operator of the integer profile"):
        Suite(operators=("fft2d",))


def test_the_page_counts_and_explains(tmp_path: Path) -> None:
    verdicts = {
        v.test: v
        for v in (
            Verdict(test="add_1_i32", status=Status.PASSED, seconds=1.5),
            Verdict(test="add_2_i32", status=Status.UNSUPPORTED, message="rank 7 of | 9"),
            Verdict(test="tile_3_b", status=Status.MISSING, message="not generated"),
        )
    }
    entry = record("positive 1.0.2", "golden", "tiny", 3.0, verdicts, "abc")
    assert (entry["passed"], entry["tests"]) == (1, 3)
    (tmp_path / "r.json").write_text(json.dumps(entry))
    text = render([tmp_path / "r.json"])
    assert "1 of 3 pass" in text
    assert "| add | 1 | 0 | 1 | 0 | 0 | 1.5 |" in text
    assert "- add: 1 unsupported: rank # of | #" in text
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ReportError, match="no record of systola conformance"):
        render([tmp_path / "bad.json"])

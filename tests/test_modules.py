"""The modules in examples/modules/: found, run by the front door, measured, and on their page."""

import json

import numpy as np
import pytest

from spec import preset
from sw.cli.main import main
from sw.measure import bench
from sw.measure.bench import problems, run_suite
from sw.measure.bench_store import Store, read_rows
from sw.measure.bench_suites import Entry, entries
from sw.measure.modules import agreement, find_modules
from sw.measure.pages.modules import page
from sw.measure.pages.registry import DOCS
from sw.results.revision import ROOT
from sw.runtime.report import ReportError
from sw.runtime.session import DeviceOptions, OptionError

ROWS = read_rows(DOCS / "data" / "modules.json")
FOUND = {found.name: found for found in find_modules()}
TINY = preset("tiny")

WHOLE = ("unet", "sequence_to_sequence", "keywords", "dynamic_shapes", "t5_encoder")
"""One of each family: an image, a recurrent network, keywords, an exported program, a network of
`transformers`. The suite `modules` of `systola bench` runs all of them on the RTL."""


@pytest.mark.parametrize("name", WHOLE)
def test_a_module_runs_by_the_front_door(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    report = tmp_path / "report.json"
    command = ["run", FOUND[name].target, "--config", "tiny", "--json", str(report)]
    with pytest.raises(SystemExit) as end:
        main(command)
    assert not end.value.code, capsys.readouterr().out
    assert json.loads(report.read_text())["pcc_fp32"] > 0.99


def test_a_module_with_an_operator_for_the_cpu_is_measured_and_says_which_and_why():
    golden = DeviceOptions(device="golden")
    row = bench.measured(entries("modules", ["running_maximum"])[0], TINY, golden)
    assert problems(row) == []
    assert row["cpu"][0] == {
        "operator": "aten.cummax.default",
        "reason": "operator aten.cummax.default has no rule",
    }
    assert row["refused"] == "cummax: operator aten.cummax.default is not supported here"
    assert row["operators"] == 2 and row["elements"] == 6


def test_whatever_a_module_raises_is_a_row(tmp_path, monkeypatch):
    path = tmp_path / "broken.py"
    path.write_text('def broken():\n    """raises"""\n    raise KeyError("weights")\n')
    (found,) = find_modules(tmp_path)
    assert (found.name, found.special) == ("broken", "raises")
    chosen = [Entry(name=found.name, target=f"{path}:broken")]
    store = Store(tmp_path / "rows.json", TINY, {})
    (row,) = run_suite(chosen, TINY, DeviceOptions(device="golden"), store, lambda _: None)
    assert row["error"].endswith(f"broken: KeyError: 'weights' at {path}:3")
    assert problems(row) == [row["error"]]


def test_a_module_is_measured_again_when_its_file_has_changed(tmp_path, monkeypatch):
    ran = []
    good = {"config_digest": TINY.digest_hex, "cycles": 1, "bit_exact": True, "macs": 0}

    def measured(entry, config, options):
        ran.append(entry.marks["file_digest"])
        return {"name": entry.name, **good, **entry.marks}

    monkeypatch.setattr(bench, "measured", measured)
    for digest in ("old", "old", "new"):
        chosen = [Entry(name="a", target="a.py:a", marks={"file_digest": digest})]
        store = Store(tmp_path / "rows.json", TINY, {})
        run_suite(chosen, TINY, DeviceOptions(), store, lambda _: None)
    assert ran == ["old", "new"]


def test_outside_the_source_tree_there_is_no_such_suite(tmp_path):
    with pytest.raises(OptionError, match=r"--suite modules: its modules are in .*/no, which does"):
        find_modules(tmp_path / "no")


def test_agreement_is_that_of_the_worst_result():
    good, bad = np.arange(4.0), np.array([0.0, 1.0, 3.0, 2.0])
    found = agreement(
        [good, bad, np.array([1, 2])], [good, good, np.array([1, 3])], [good, -good, np.ones(2)]
    )
    assert found == {"pcc": pytest.approx(0.8), "pcc_other": 1.0, "same_integers": 0.5}


GOOD = next(row for row in ROWS if not row["cpu"])
PARTLY = next(row for row in ROWS if row["cpu"])


@pytest.mark.parametrize(
    ("row", "changes", "problem"),
    [
        (GOOD, {"bit_exact": None}, "bit_exact is None"),
        (GOOD, {"reference_exact": False}, "reference_exact is False"),
        (GOOD, {"pcc": 0.98}, "the result has a PCC of 0.9800 to PyTorch's float result"),
        (GOOD, {"profiled_cycles": 1}, "the profile has 1 cycles, the run "),
        (GOOD, {"refused": "x"}, "refused, though every operator can run on the NPU: x"),
        (PARTLY, {"interpreter_exact": False}, "interpreter_exact is False"),
        (
            PARTLY,
            {"cpu": [{"operator": "cummax", "reason": ""}]},
            "an operator on the CPU without a reason",
        ),
    ],
)
def test_the_page_takes_no_row_with_a_problem(row, changes, problem):
    assert problems(row) == []
    with pytest.raises(ReportError) as caught:
        page([{**row, **changes}])
    assert problem in str(caught.value)


def test_the_page_has_a_row_for_every_module_as_it_is_today():
    assert {row["name"]: (row["target"], row["special"], row["file_digest"]) for row in ROWS} == {
        name: (found.target, found.special, found.digest) for name, found in FOUND.items()
    }
    text = page(ROWS)
    shown = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert [cells[0] for cells in shown] != [] and len(shown) == len(ROWS) >= 30
    for cells in shown:
        assert cells[4] == "none" or ": " in cells[4]
        assert cells[-1].startswith("yes, ")
    assert {row["device"] for row in ROWS} == {"rtl"}
    assert sum(row["target"].startswith("examples/modules/transformers") for row in ROWS) >= 12


def test_every_module_says_what_is_special_and_has_a_name_of_its_own():
    assert all(found.special for found in find_modules())
    assert len(FOUND) == len(find_modules())


def test_the_page_says_which_rows_are_of_which_commit():
    rows = [{**row, "commit": "new", "sources": "s"} for row in ROWS[:3]]
    assert "All modules were measured at commit `new` (sources `s`).\n" in page(rows)
    rows[1]["commit"] = "old"
    text = " ".join(page(rows).split())
    assert "All modules but those that follow were measured at commit `new` (sources `s`)." in text
    assert f"At commit `old` (sources `s`): `{rows[1]['name']}`." in text
    assert "Each went through three commands on configuration `small`:" in text

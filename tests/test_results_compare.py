"""Looking back: campaigns listed, shown, compared and exported, on the command line."""

import csv
import json
import sys
from pathlib import Path

import pytest
from campaign_helpers import query, systola
from pyarrow import parquet
from results_helpers import passed, task

from sw.results import store as store_module
from sw.results.archive import Archive, open_archive
from sw.results.compare import differences
from sw.results.export import export_runs
from sw.results.store import Store
from sw.results.task import CampaignError, Outcome, Status, Task

Done = list[tuple[Task, Outcome]]

FAILED = Outcome(
    status=Status.FAILED,
    message="3 elements differ\nit arises in layer conv",
    mismatch={"layer": "conv", "instruction": 41, "text": "matrix wait()", "element": "y[0]"},
)


def rtl(workload: str, **values: object) -> Task:
    return task(workload=workload, device="rtl", **values)


BEFORE: Done = [
    (rtl("add"), passed(1000)),
    (rtl("digits"), passed(2000, pcc=0.99)),
    (rtl("conv2d"), passed(500)),
    (rtl("matmul", latency=7), passed(300)),
    (rtl("matmul", memory="ddr4"), passed(400)),
    (rtl("vww"), FAILED),
]
AFTER: Done = [
    (rtl("add"), passed(1005)),  # exactly half a percent: no change
    (rtl("digits"), passed(2011, pcc=0.9885)),
    (rtl("conv2d"), FAILED),
    (rtl("matmul", latency=8), passed(300)),
    (rtl("matmul", memory="ddr4"), passed(390)),
    (rtl("vww"), passed(10)),
]


def record(where: str, name: str, done: Done, commit: str = "", kind: str = "regress") -> int:
    """A finished campaign; its number."""
    with Store(where) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "commit", lambda: commit or "0123456789ab")
        campaign = store.campaign(kind, name, [], options={}, fresh=True, plan="test")
        campaign.record(done)
        campaign.close(complete=True)
        return campaign.number


def compared(where: str, before: str, after: str, **limits: float) -> list[tuple]:
    with open_archive(where) as history:
        found = differences(history.select(before), history.select(after), **limits)
    return [(c.title, c.what, c.before, c.after, c.direction.value) for c in found.changes]


def test_every_change_is_named_and_nothing_else(where: str) -> None:
    record(where, "mine", BEFORE)
    record(where, "mine", AFTER)
    worse, better = "worse", "better"
    found = [
        ("digits tiny rtl seed 0", "cycles", 2000, 2011, worse),
        ("digits tiny rtl seed 0", "pcc", 0.99, 0.9885, worse),
        ("conv2d tiny rtl seed 0", "verdict", "passed", "failed", worse),
        ("matmul tiny rtl seed 0 latency 7 stall 0", "gone", "passed", None, worse),
        ("matmul tiny rtl seed 0 ddr4", "cycles", 400, 390, better),
        ("vww tiny rtl seed 0", "verdict", "failed", "passed", better),
        ("matmul tiny rtl seed 0 latency 8 stall 0", "new", None, "passed", "other"),
    ]
    assert compared(where, "1", "2") == found
    assert compared(where, "latest~1", "latest") == found
    assert compared(where, "1", "1") == []
    loose = compared(where, "1", "2", cycles=0.05, pcc=0.01)
    assert [row[1] for row in loose] == ["verdict", "gone", "verdict", "new"]


def test_a_figure_that_a_good_run_has_lost_is_one_to_the_worse(where: str) -> None:
    record(where, "mine", [(rtl("digits"), passed(9, pcc=0.9))])
    record(where, "mine", [(rtl("digits"), Outcome(status=Status.PASSED))])
    assert [row[1:] for row in compared(where, "1", "2")] == [
        ("cycles", 9, None, "worse"),
        ("pcc", 0.9, None, "worse"),
    ]


def test_runs_are_chosen_by_number_latest_and_commit(where: str) -> None:
    record(where, "mine", BEFORE[:2], commit="aaaa11112222")
    record(where, "other", AFTER[2:3], commit="aaaa11112222")
    record(where, "mine", AFTER[:1], commit="aaaa11112222")
    record(where, "mine", AFTER, commit="bbbb11112222")
    record(where, "micro", AFTER[:3], commit="bbbb11112222+", kind="bench")
    with open_archive(where) as history:

        def cycles(text: str, **filters: str) -> list[int | None]:
            return [row["cycles"] for row in history.select(text, **filters).runs]

        assert cycles("2") == [None] and cycles("1") == [1000, 2000]
        # Of equal runs of a commit the newest counts.
        assert sorted(map(str, cycles("aaaa"))) == ["1005", "2000", "None"]
        assert cycles("bbbb", kind="regress") == [1005, 2011, None, 300, 390, 10]
        assert cycles("bbbb+") == [1005, 2011, None]
        assert cycles("latest") == [1005, 2011, None]
        assert cycles("latest", kind="regress", name="other") == [None]
        assert cycles("latest~1", kind="regress", name="mine") == [1005]
        for text, message in (
            ("99", "'99': must be the number of a campaign, latest, latest~1, or a commit of 4"),
            ("cccc", "cccc: no campaign of that commit in "),
            ("aaaa+", "aaaa+: no campaign of that commit in "),
            ("latest~1", "latest~1: "),
            ("latest~x", "'latest~x': must be latest, or latest~1 for the one before it"),
        ):
            with pytest.raises(CampaignError) as error:
                history.select(text)
            assert str(error.value).startswith(message)
        with pytest.raises(CampaignError, match=r"campaign 99: .* has none"):
            history.campaign(99)
    record(where, "mine", AFTER, commit="bbbb99992222")
    with open_archive(where) as history, pytest.raises(CampaignError, match=r"several commits"):
        history.select("bbbb")


def test_rows_of_other_releases_can_be_looked_at(where: str) -> None:
    """Configurations of theirs had fields that ours do not have."""
    record(where, "mine", BEFORE)
    with Store(where) as store:
        from sqlalchemy import update

        from sw.results.schema import RUNS

        old = {**BEFORE[5][0].to_json(), "config": {"name": "tiny", "lanes_of_old": 4}}
        store.database.write(lambda c: c.execute(update(RUNS).values(task=old)))
    assert compared(where, "1", "1") == []
    code, text = systola("results", "show", 1, "--db", where, "--runs")
    assert code == 0, text
    assert "FAILED  vww tiny rtl seed 0" in text


# The command line -----------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> str:
    where = str(tmp_path / "r.sqlite")
    record(where, "mine", BEFORE, commit="aaaa11112222")
    record(where, "mine", AFTER, commit="bbbb11112222+")
    return where


def test_compare_ends_with_1_and_names_what_was_slowed(two: str, tmp_path: Path) -> None:
    report = tmp_path / "changes.json"
    code, text = systola("results", "compare", "aaaa", "latest", "--db", two, "--json", report)
    assert code == 1, text
    line = next(line for line in text.splitlines() if "digits" in line and "cycles" in line)
    assert "2,000" in line and "2,011" in line and "+0.55%" in line and "worse" in line
    assert "5 runs compared, 7 changes, 4 to the worse" in text
    assert json.loads(report.read_text())["worse"] == 4
    code, text = systola("results", "compare", "1", "1", "--db", two)
    assert code == 0 and "6 runs compared, 0 changes, 0 to the worse" in text
    options = ("--threshold", 50, "--pcc-threshold", 1, "--db", two)
    code, text = systola("results", "compare", "2", "1", *options)
    assert code == 1 and "6 changes" not in text  # what passed and does not is always a change


def test_list_and_show(two: str) -> None:
    code, text = systola("results", "list", "--db", two, "--kind", "regress", "--limit", 5)
    assert code == 0 and "bbbb11112222+" in text and "2 campaigns" in text
    code, text = systola("results", "show", 2, "--db", two)
    assert code == 0, text
    assert "FAILED  conv2d tiny rtl seed 0" in text
    assert "first differs: instruction 41 `matrix wait()` of layer conv" in text
    assert "repeat: systola sim conv2d --seed 0 --config tiny --device rtl" in text
    assert "campaign 2: 1 failed, 5 passed" in text and "cores" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "--db", "none.sqlite"), "database none.sqlite: no such file; say which one"),
        (("show", 7), "campaign 7: "),
        (("compare", "1", "nonsense"), "'nonsense': must be the number of a campaign"),
        (("export", "--to", "x.xlsx"), "--to x.xlsx: must end in .csv, .parquet or .json"),
        (("export", "--to", "/dev/null/x.csv"), "--to /dev/null/x.csv: cannot write: "),
    ],
)
def test_bad_input_is_one_message(two: str, arguments: tuple, message: str) -> None:
    place = () if "--db" in arguments else ("--db", two)
    code, text = systola("results", *arguments, *place)
    assert code == 2 and text.startswith(f"systola: {message}") and "Traceback" not in text


def test_exports_have_every_row_and_column(
    two: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ending in ("csv", "json", "parquet"):
        code, text = systola("results", "export", "--to", tmp_path / f"x.{ending}", "--db", two)
        assert code == 0 and "12 runs of 2 campaigns" in text
    want = query(Path(two), "SELECT workload, cycles, pcc, mismatch FROM runs ORDER BY id")
    rows = json.loads((tmp_path / "x.json").read_text())
    table = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    with (tmp_path / "x.csv").open(newline="") as file:
        texts = list(csv.DictReader(file))
    assert rows[0].keys() == table[0].keys() == texts[0].keys()
    assert {"workload", "cycles", "pcc", "campaign_name", "source_digest"} <= rows[0].keys()
    assert [(r["workload"], r["cycles"], r["pcc"], r["mismatch"]) for r in table] == want
    assert [(r["workload"], r["cycles"], r["pcc"]) for r in rows] == [w[:3] for w in want]
    assert [r["cycles"] for r in texts] == ["" if w[1] is None else str(w[1]) for w in want]
    assert json.loads(texts[5]["mismatch"]) == rows[5]["mismatch"] == FAILED.mismatch
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CampaignError, match=r"pip install 'systola\[parquet\]'"):
        export_runs([], tmp_path / "y.parquet")


def test_an_empty_export_has_its_columns(tmp_path: Path) -> None:
    export_runs([], tmp_path / "x.csv")
    export_runs([], tmp_path / "x.parquet")
    assert (tmp_path / "x.csv").read_text().startswith("id,campaign,position,task,kind,workload")
    assert "cycles" in parquet.read_table(tmp_path / "x.parquet").column_names


def test_history_closes_its_database(two: str) -> None:
    history = open_archive(two)
    with history:
        assert isinstance(history, Archive) and len(history.campaigns(limit=1)) == 1

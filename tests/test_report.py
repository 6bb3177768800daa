"""The page of campaigns: its data from a database, its advice, its HTML."""

import json
import random
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from campaign_helpers import ROOT
from report_data import EVIL, synthetic

from spec import preset
from sw.cli.campaigns.report import write_beside
from sw.cli.main import main
from sw.report.advice import advise, default_thresholds
from sw.report.data import MEAN, Measurement, Point, ReportData
from sw.report.errors import ReportError
from sw.report.numbers import show
from sw.report.objectives import OBJECTIVES, values
from sw.report.page import SCRIPTS, render, write_page
from sw.report.payload import payload
from sw.report.source import load
from sw.report.write import write_report
from sw.results.store import Store
from sw.results.task import Kind, Outcome, Status, Task

TINY = preset("tiny")
WIDE = TINY.with_settings({"cols": "8"})
COUNTERS = {"matrix": {"busy": 60, "idle": 40}, "load": {"busy": 10, "idle": 90}}


# A database ---------------------------------------------------------------------------------


def runs_of(config, *, cycles: int, bad: Outcome | None = None) -> list[tuple[Task, Outcome]]:
    """One workload on golden and RTL, and a smoke that the space did not ask for."""
    task = Task(kind=Kind.RUN, config=config, workload="matmul:8x8x8", device="golden")
    good = Outcome(
        status=Status.PASSED,
        cycles=cycles,
        macs=512,
        counters=COUNTERS,
        read_bytes=128,
        write_bytes=64,
        figures={"predicted_cycles": cycles + 5},
    )
    return [
        (replace(task, workload="add", device="rtl"), Outcome(status=Status.PASSED, cycles=7)),
        (task, Outcome(status=Status.PASSED)),
        (replace(task, device="rtl"), bad or good),
    ]


def store_campaign(path: Path, kind: str, name: str, done, *, fresh: bool = True) -> int:
    with Store(path) as store:
        tasks = [task for task, _ in done]
        campaign = store.campaign(kind, name, tasks, options={}, fresh=fresh)
        for run, (_, outcome) in zip(campaign.runs(), done, strict=True):
            if outcome is not None and run.status is Status.WAITING:
                campaign.start(run.id, "worker-1")
                campaign.finish(run.id, outcome)
        campaign.close(complete=all(outcome for _, outcome in done))
        return campaign.number


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    illegal = Task(kind=Kind.POINT, config=None, label="tiny+cols=12", reason="acc_kib=4: small")
    wrong = Outcome(
        status=Status.FAILED,
        message="1 of 64 elements differ",
        mismatch={"layer": "conv2d_1", "instruction": 17, "text": "MATRIX", "element": "[0, 3]"},
    )
    lint = Task(kind=Kind.LINT, config=WIDE)
    done = [
        *runs_of(TINY, cycles=100),
        (lint, Outcome(status=Status.ERROR, message="verilator is not there")),
        *runs_of(WIDE, cycles=80, bad=wrong),
        (illegal, None),
    ]
    store_campaign(path, "sweep", "quick", done)
    for cycles in (200, 190):
        store_campaign(path, "regress", "smoke", runs_of(TINY, cycles=cycles))
    return path


def test_points_have_their_measurements_changes_and_reasons(database: Path) -> None:
    data = load(database, ["quick"])
    assert data.workloads == ["matmul:8x8x8"]  # the smoke is none
    tiny, wide, illegal = data.points
    assert (tiny.label, tiny.base, tiny.changes) == ("tiny", "tiny", {})
    assert (wide.label, wide.base, wide.changes) == ("tiny+cols=8", "tiny", {"cols": 8})
    assert data.bases["tiny"]["cols"] == TINY.cols and "name" not in data.bases["tiny"]
    assert (illegal.label, illegal.reason) == ("tiny+cols=12", "acc_kib=4: small")
    (found,) = tiny.measurements
    assert (found.cycles, found.predicted, found.predicted_cycles) == (100, False, 105)
    assert (found.dram_bytes, found.macs, found.counters) == (192, 512, COUNTERS)
    assert found.command == "systola sim matmul --shape 8x8x8 --seed 0 --config tiny --device rtl"
    assert tiny.pes == TINY.rows * TINY.cols and tiny.area_ge is None


def test_cycles_of_a_run_that_differs_do_not_count(database: Path) -> None:
    _, wide, _ = load(database, ["quick"]).points
    (found,) = wide.measurements
    assert (found.status, found.cycles, found.message) == (
        "failed",
        None,
        "1 of 64 elements differ",
    )
    assert found.mismatch is not None and found.mismatch.instruction == 17
    assert wide.notes == ("lint tiny+cols=8: error: verilator is not there",)


def test_failures_name_layer_and_instruction_and_how_to_repeat(database: Path) -> None:
    lint, run = load(database, ["quick"]).failures
    assert (lint.title, lint.status) == ("lint tiny+cols=8", "error")
    assert run.mismatch is not None
    assert (run.mismatch.layer, run.mismatch.instruction) == ("conv2d_1", 17)
    assert run.command.startswith("systola sim matmul --shape 8x8x8")
    assert (run.config, run.device, run.quarantine) == ("tiny+cols=8", "rtl", "")


def test_a_quarantined_failure_says_why(tmp_path: Path) -> None:
    wrong = Outcome(status=Status.FAILED, message="differs")
    path = tmp_path / "r.sqlite"
    done = [
        (replace(task, quarantine="bug 7, until June"), outcome)
        for task, outcome in runs_of(TINY, cycles=5, bad=wrong)
    ]
    store_campaign(path, "regress", "smoke", done)
    (failure,) = load(path).failures
    assert (failure.status, failure.quarantine) == ("failed", "bug 7, until June")


def test_synthesis_energy_and_prediction_reach_the_point(tmp_path: Path) -> None:
    plain = Task(kind=Kind.RUN, config=TINY, workload="digits", device="model")
    synth = {"area_ge": 51_000.0, "fmax_mhz": 500.0, "critical_ns": 2.0, "sram_bits": 99,
             "blocks": {"array": 30_000.0, "array.element": 29_000.0}, "luts": 12,
             "effort": "quick"}  # fmt: skip
    energy = {"energy_uj": 4.0, "standard_error": 0.1}
    model = {"predicted_cycles": 1000, "error_pct": 3.5, "read_bytes": 10, "write_bytes": 6}
    done = [
        (
            replace(plain, kind=Kind.PREDICT),
            Outcome(status=Status.PASSED, macs=5, figures=model),
        ),
        (
            replace(plain, kind=Kind.SYNTH, workload="", device="generic"),
            Outcome(status=Status.PASSED, figures=synth),
        ),
        (
            replace(plain, kind=Kind.ENERGY, device="generic"),
            Outcome(status=Status.PASSED, figures=energy),
        ),
    ]
    path = tmp_path / "r.sqlite"
    store_campaign(path, "sweep", "mine", done)
    data = load(path)
    (point,) = data.points
    (found,) = point.measurements
    assert (found.cycles, found.predicted, found.error_pct) == (1000, True, 3.5)
    assert (found.macs, found.dram_bytes, found.energy_uj) == (5, 16, 4.0)
    assert found.command == "systola run digits --limit 1 --config tiny --device golden --verify"
    assert (point.area_ge, point.fmax_mhz, point.sram_bits) == (51_000.0, 500.0, 99)
    assert dict(point.synth) == {"luts": 12, "effort": "quick"}
    row = values(point, ["digits"])
    assert row["rate"] == [500_000, 500_000] and row["efficiency"] == [250_000, 250_000]
    assert (row["area"], row["luts"]) == (51, 12)
    text = [answer.text for answer in advise(data)]
    assert text[0] == (
        "Fastest with at most 51 kGE: tiny, ≈500,000 inferences/s, 51 kGE (1 of 1 points qualify)."
    )


def test_history_follows_the_commits(database: Path) -> None:
    data = load(database)
    assert [(c.kind, c.name, c.shown) for c in data.campaigns] == [
        ("sweep", "quick", True),
        ("regress", "smoke", False),
        ("regress", "smoke", True),
    ]
    (history,) = [
        h for h in data.history
        if (h.workload, h.config, h.device) == ("matmul:8x8x8", "tiny", "rtl")
    ]  # fmt: skip
    assert [entry.cycles for entry in history.entries] == [100, 200, 190]
    assert [entry.campaign for entry in history.entries] == [1, 2, 3]
    assert history.memory == "latency 100"


def test_a_campaign_under_way_says_what_runs_and_how_long(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    done = runs_of(TINY, cycles=100)
    with Store(path) as store:
        campaign = store.campaign("sweep", "mine", [t for t, _ in done], options={})
        rows = campaign.runs()
        campaign.start(rows[0].id, "w1")
        campaign.finish(rows[0].id, done[0][1])
        campaign.start(rows[1].id, "w2")
        (facts,) = load(path).campaigns
        campaign.close(complete=False)
    assert facts.counts == {"passed": 1, "running": 1, "waiting": 1}
    assert [(a.title, a.worker) for a in facts.active] == [
        ("matmul:8x8x8 tiny golden seed 0", "w2")
    ]
    assert facts.left_s is not None and 0 <= facts.left_s < 10


def test_files_beside_the_page_are_linked(database: Path, tmp_path: Path) -> None:
    folder = tmp_path / "quick"
    (folder / "points" / TINY.digest_hex).mkdir(parents=True)
    (folder / "points" / TINY.digest_hex / "npu #1.v").write_text("")
    (folder / "points.csv").write_text("")
    data = write_report(database, folder / "report.html", kind="sweep", name="quick")
    assert [link.href for link in data.points[0].files] == [
        f"points/{TINY.digest_hex}/npu%20%231.v"
    ]
    assert data.points[1].files == ()
    assert [link.label for link in data.campaigns[0].files] == ["points.csv"]
    # The page itself is none of them when it is written again.
    again = write_report(database, folder / "report.html", kind="sweep", name="quick")
    assert again.campaigns[0].files == data.campaigns[0].files
    assert sorted(p.name for p in folder.iterdir()) == ["points", "points.csv", "report.html"]


def test_what_is_not_there_is_said(database: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportError) as error:
        load(database, ["nigthly"])
    assert str(error.value) == (
        f"campaign 'nigthly': not in database {database}; the latest are 1 (sweep quick), "
        "2 (regress smoke), 3 (regress smoke)"
    )
    with pytest.raises(ReportError) as error:
        load(tmp_path / "none.sqlite")
    assert str(error.value) == (
        f"database {tmp_path / 'none.sqlite'}: not there; --db names the one that systola sweep or "
        "systola regress wrote"
    )
    assert not (tmp_path / "none.sqlite").exists()
    with pytest.raises(ReportError, match=r"--out .*: cannot write: Is a directory"):
        write_page(load(database), tmp_path)


def test_the_command_writes_the_page_and_prints_the_advice(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a" / "page.html"
    with pytest.raises(SystemExit) as end:
        main(["report", "quick", "--db", str(database), "-o", str(out), "--at-least", "150"])
    assert end.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Fastest with at most 24 KiB: tiny, 100 cycles, 23.5 ")
    assert lines[1].startswith("Smallest with at most 150 cycles: tiny, ")
    assert lines[2] == "Best per joule: no point has a figure of inferences/J."
    assert lines[3] == f"{out}: 3 points, 2 runs that are not good"
    assert out.stat().st_size > 4e6
    for wrong, message in (
        (
            ["--workload", "digit"],
            "--workload digit: not in these campaigns; there is matmul:8x8x8",
        ),
        (["--db", "postgres://x"], "must be a file, sqlite:///FILE or postgresql://USER@HOST"),
    ):
        with pytest.raises(SystemExit) as end:
            main(["report", "--db", str(database), "-o", str(out), *wrong])
        assert end.value.code == 2
        assert message in capsys.readouterr().err


def test_sweeps_and_regressions_write_the_page_beside_their_results(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_beside(str(database), "regress", "smoke")
    page = tmp_path / "smoke" / "report.html"
    text = "fronts, tables, history and failures as a page"
    assert capsys.readouterr().out == f"{page}: {text}\n"
    assert "regress smoke" in page.read_text()
    (tmp_path / "a file").write_text("")
    write_beside(str(database), "sweep", "quick", tmp_path / "a file")
    assert capsys.readouterr().err.startswith(f"no page: --out {tmp_path / 'a file'}/report.html: ")


# The advice -----------------------------------------------------------------------------------


def point(label: str, **facts: Any) -> Point:
    measured = Measurement(workload="w", status="passed", **facts.pop("measured", {}))
    return Point(id=label, campaign=1, label=label, measurements=(measured,), **facts)


def report(*points: Point) -> ReportData:
    return ReportData(title="t", made_at="2026-01-01T00:00:00+00:00", release="r", points=points)


def test_equals_are_told_apart_by_the_second_figure() -> None:
    data = report(
        point("a", area_ge=3000.0, fmax_mhz=1.0, measured={"cycles": 10}),
        point("b", area_ge=2000.0, fmax_mhz=1.0, measured={"cycles": 10}),
        point("c", area_ge=2000.0, fmax_mhz=1.0, measured={"cycles": 20}),
    )
    fastest, smallest, joule = advise(data, at_most=5, at_least=10)
    assert (fastest.point, smallest.point, joule.point) == ("b", "b", "")
    assert advise(data, at_most=1)[0].text == (
        "Fastest: no point with at most 1 kGE; the nearest is b, 2 kGE."
    )


def test_without_synthesis_cycles_and_memory_stand_for_speed_and_size() -> None:
    data = report(point("a", memory_kib=36.5, measured={"cycles": 1234}))
    assert advise(data)[0].text == (
        "Fastest with at most 37 KiB: a, 1,234 cycles, 36.5 KiB (1 of 1 points qualify)."
    )
    assert default_thresholds(data)["speed"] == "cycles"


def test_the_mean_of_a_point_needs_every_workload() -> None:
    both = point("a", fmax_mhz=1.0, measured={"cycles": 100})
    other = Measurement(workload="v", status="passed", cycles=400)
    both = replace(both, measurements=(*both.measurements, other))
    assert values(both, ["w", "v"])["cycles"] == [100, 400, 200]
    assert values(both, ["w", "v", "u"])["cycles"] == [100, 400, None, None]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0, "0"), (12, "12"), (12.5, "12.5"), (12.25, "12.3"), (1234.5, "1,235"),
        (-2.5, "-2.50"), (1e6, "1,000,000"), (1.005, "1.00"), (0.125, "0.125"),
        (0.0123456, "0.0123"), (99.95, "100.0"), (1e-12, "0.000000000"),
    ],
)  # fmt: skip
def test_figures_have_three_digits(value: float | None, text: str) -> None:
    assert show(value) == text


NODE = shutil.which("node")
DRIVER = """
const fs = require("fs");
const vm = require("vm");
const [data, cases] = JSON.parse(fs.readFileSync(0, "utf8"));
const context = vm.createContext({});
const read = (name) => fs.readFileSync(`sw/report/assets/${name}.js`, "utf8");
const source = ["core", "pareto", "advice"].map(read).join("\\n");
vm.runInContext(`${source}\nthis.R = Report;`, context);
context.R.load(data);
const results = cases.map((c) => {
  if (c.show !== undefined) return context.R.show(c.show);
  if (c.rows) return context.R.front(c.rows, c.up[0], c.up[1]);
  return context.R.advise(c.workload, c).map((a) => [a.point, a.text]);
});
console.log(JSON.stringify(results));
"""


def in_node(data: ReportData, cases: list[dict[str, Any]]) -> list[Any]:
    """What the scripts of the page make of each case."""
    if NODE is None:
        pytest.skip("node is not installed: the page's scripts cannot run outside a browser")
    done = subprocess.run(
        [NODE, "-e", DRIVER],
        input=json.dumps([payload(data), cases]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def test_page_and_terminal_give_the_same_advice() -> None:
    data = synthetic(80)
    draw = random.Random(1)
    cases, expected = [], []
    for _ in range(40):
        workload = draw.randrange(len(data.workloads) + 1)
        limits = {
            "at_most": draw.choice([0.0, 5.0, round(draw.uniform(10, 900), 2)]),
            "at_least": draw.choice([0.0, 1e9, round(draw.uniform(10, 50_000), 1)]),
            "joule": draw.choice([None, 1e9, 1234.5]),
        }
        cases.append({"workload": workload, **limits})
        answers = advise(
            data,
            [*data.workloads, MEAN][workload],
            at_most=limits["at_most"],
            at_least=limits["at_least"],
            joule_at_least=limits["joule"],
        )
        expected.append([[a.point, a.text] for a in answers])
    assert in_node(data, cases) == expected
    assert len({text for answers in expected for _, text in answers}) > 40


def test_page_and_terminal_write_the_same_figures() -> None:
    draw = random.Random(2)
    numbers = [draw.uniform(-1, 1) * 10 ** draw.randrange(-8, 9) for _ in range(2000)]
    numbers += [n / 8 for n in range(-40, 900)] + [0, 1e15, 99.95, 9.995]
    assert in_node(synthetic(1), [{"show": n} for n in numbers]) == list(map(show, numbers))


def test_the_front_is_what_no_other_point_beats() -> None:
    draw = random.Random(3)
    cases = []
    for _ in range(40):
        rows = [{"x": draw.randrange(9), "y": draw.randrange(9)} for _ in range(draw.randrange(30))]
        cases.append({"rows": rows, "up": [draw.random() < 0.5, draw.random() < 0.5]})

    def best(rows: list[dict[str, int]], up: list[bool]) -> set[int]:
        sx, sy = (-1 if u else 1 for u in up)
        cost = [(sx * r["x"], sy * r["y"]) for r in rows]
        return {
            n for n, a in enumerate(cost)
            if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in cost)
        }  # fmt: skip

    for case, found in zip(cases, in_node(synthetic(1), cases), strict=True):
        assert len(found) == len(set(found)) and set(found) == best(case["rows"], case["up"])


# The HTML -------------------------------------------------------------------------------------


class Elements(HTMLParser):
    """Every element with its attributes, and whether each end has its beginning."""

    VOID = ("meta", "link", "img", "input", "br")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def close(self) -> None:
        super().close()
        assert self._open == []


def parsed(text: str) -> Elements:
    elements = Elements()
    elements.feed(text)
    elements.close()
    return elements


def test_the_page_is_one_file_that_asks_for_nothing() -> None:
    elements = parsed(render(synthetic(3)))
    for tag, attributes in elements.found:
        for name, value in attributes.items():
            if name in ("src", "href", "action", "data", "poster"):
                assert tag == "a" and (value or "").startswith("#"), (tag, name, value)
            assert not name.startswith("on"), (tag, name)
    (policy,) = [a["content"] for _, a in elements.found if "http-equiv" in a]
    assert policy is not None and "default-src 'none'" in policy and "connect-src" not in policy
    ids = [a["id"] for _, a in elements.found if "id" in a]
    assert len(ids) == len(set(ids))
    own = "".join((ROOT / f"sw/report/assets/{name}.js").read_text() for name in SCRIPTS)
    assert "http:" not in own and "https:" not in own
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", own)
    assert "connect-src 'self'" in render(synthetic(3), live=True)


def test_texts_cannot_leave_the_data() -> None:
    data = replace(synthetic(3), title=EVIL)
    bad = replace(data.points[0], label=EVIL, notes=(EVIL,), changes={EVIL: EVIL})
    plain, evil = render(synthetic(3)), render(replace(data, points=(bad, *data.points[1:])))
    tags = [[tag for tag, _ in parsed(text).found] for text in (plain, evil)]
    assert tags[0] == tags[1]
    assert "<img" not in evil.replace("<img/>", "").split("<script>", 1)[0]


def test_scripts_are_parts_of_the_package_and_all_used() -> None:
    assets = ROOT / "sw" / "report" / "assets"
    assert {path.stem for path in assets.glob("*.js")} == set(SCRIPTS)
    assert len({o.key for o in OBJECTIVES}) == len(OBJECTIVES)

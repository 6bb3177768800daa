"""Spaces, and what a sweep makes of them: rows, table, CSV and picture."""

import csv
import re
import struct
from pathlib import Path

import pytest
from campaign_helpers import ROOT, query, systola

from spec import preset
from spec.config import ConfigError
from sw.campaign.summary import repeat_command
from sw.campaign.sweep.picture import _ticks, write_picture
from sw.campaign.sweep.points import point_results
from sw.campaign.sweep.space import load_space
from sw.campaign.sweep.tasks import SMOKE, grid_plan
from sw.campaign.workloads import check_workload, check_workloads, file_name, prepare
from sw.models.catalog import get_model
from sw.results.store import Store
from sw.results.task import CampaignError, Kind, Outcome, Status, Task
from sw.runtime.rtl import RtlDevice

REASON = "acc_kib=4: must hold a power of two (4 or more) of 48-byte vectors (cols=12); acc_kib="
# The first two are the preset itself, whose simulator other tests use too.
SPACE = """
base: tiny
axes: {rows: [4], cols: [4, 12]}
points: [{bus_bytes: 8}, {base: default, banks: 3}]
workloads: [matmul:8x8x8, add]
memory: {latency: 20}
"""


def space(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def test_the_quick_space_has_eight_legal_points_an_illegal_one_and_two_workloads() -> None:
    tasks = grid_plan(load_space(ROOT / "spaces" / "quick.yaml")).tasks
    builds = [t for t in tasks if t.kind is Kind.BUILD]
    illegal = [t for t in tasks if t.kind is Kind.POINT]
    runs = [t for t in tasks if t.kind is Kind.RUN]
    assert len({t.digest for t in builds}) == len(builds) >= 8
    assert len(illegal) == 1 and illegal[0].reason.startswith(REASON)
    assert len({t.workload for t in runs} - set(SMOKE)) == 2
    assert len(runs) == len(builds) * 6
    # Small arrays: a sweep for minutes, not hours.
    assert max(t.config.pes for t in builds if t.config) <= 64


def test_energies_wait_for_one_netlist_and_two_workers_do_not_for_each_other(
    tmp_path: Path,
) -> None:
    text = SPACE + "synth: {target: generic, effort: quick}\nenergy: true\n"
    tasks = grid_plan(load_space(space(tmp_path, text))).tasks
    netlists = {t.digest: t for t in tasks if t.kind is Kind.NETLIST}
    energies = [t for t in tasks if t.kind is Kind.ENERGY]
    assert len(netlists) == len({t.digest for t in tasks if t.config})
    assert len(energies) == 2 * len(netlists)
    assert all(netlists[t.digest].key in t.needs for t in energies)
    proven = {t.key for t in tasks if t.workload in SMOKE}
    assert all(proven & set(t.needs) for t in netlists.values())


def test_each_point_is_linted_built_and_run_in_that_order(tmp_path: Path) -> None:
    tasks = grid_plan(load_space(space(tmp_path, SPACE))).tasks
    assert [t.title for t in tasks] == [
        "lint tiny+rows=4+cols=4",
        "build tiny+rows=4+cols=4",
        "matmul:9x17x11 tiny+rows=4+cols=4 rtl seed 0 latency 20 stall 0",
        "conv2d:h=7,w=5,c=9,oc=10,k=3,p=1 tiny+rows=4+cols=4 rtl seed 0 latency 20 stall 0",
        "matmul:8x8x8 tiny+rows=4+cols=4 golden seed 0",
        "matmul:8x8x8 tiny+rows=4+cols=4 rtl seed 0 latency 20 stall 0",
        "add tiny+rows=4+cols=4 golden seed 0",
        "add tiny+rows=4+cols=4 rtl seed 0 latency 20 stall 0",
        "point tiny+rows=4+cols=12",
        "point default+banks=3",
    ]
    lint, build, matmul, conv, golden, rtl = tasks[:6]
    assert (lint.needs, build.needs) == ((), (lint.key,))
    assert matmul.needs == conv.needs == (build.key,)
    assert (golden.needs, rtl.needs) == ((), (build.key, matmul.key, conv.key))
    other = grid_plan(load_space(tmp_path / "mine.yaml", ["digits"])).tasks
    assert {t.workload for t in other if t.kind is Kind.RUN} == {"digits", *SMOKE}
    only = grid_plan(load_space(tmp_path / "mine.yaml"), only="banks").tasks
    assert [t.title for t in only] == ["point default+banks=3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workloads: [add]", "mine.yaml: has neither axes nor points"),
        ("axes: {rows: [4]}", "mine.yaml: workloads is missing"),
        ("axes: {rows: [4]}\nworkloads: [sub]", "workload 'sub': no such kernel, network or file"),
        (
            "axes: {rosw: [4]}",
            "mine.yaml: axes: 'rosw': no such configuration field (did you mean 'rows'?)",
        ),
        ("axes: {rows: 4}", "mine.yaml: axes: rows 4: must be a list that is not empty"),
        ("axes: {rows: [4.5]}", "mine.yaml: axes: rows[0]: 4.5: rows must be a whole number"),
        ("axes: {depthwise: [1]}", "axes: depthwise[0]: 1: depthwise must be true or false"),
        ("axes: [rows]", "mine.yaml: axes: ['rows']: must map fields to lists of values"),
        ("base: vast\naxes: {rows: [4]}", "mine.yaml: config 'vast': no such preset"),
        ("points: [{base: 3}]", "mine.yaml: points[0]: base 3: must be a text"),
        ("points: [{name: x}]", "mine.yaml: points[0]: 'name': no such key; keys are base, rows"),
        ("axes: {rows: [4]}\nmemory: {latency: 0}", "mine.yaml: memory: {'latency': 0}: latency"),
        (f"axes: {{rows: {list(range(70))}, cols: {list(range(70))}}}", "4,900 points: at most"),
        ("axes: {rows: [4, 4]}", "mine.yaml: axes: rows: 4 is given twice"),
        ("axes: {rows: {from: 8, to: 4, step: 1}}", "rows: an empty range: from 8 is above to 4"),
        ("axes: {rows: {from: 4, to: 8}}", "axes: rows: {'from': 4, 'to': 8}: needs either step"),
        ("axes: {rows: {from: 4, to: 8, step: 0}}", "axes: rows: step 0: must be 1 or more"),
        ("axes: {size: [4], rows: [4]}", "axes: size stands for rows and cols; leave rows out"),
        ("axes: {acc_vectors: [64], acc_kib: [4]}", "acc_vectors stands for acc_kib; leave one"),
        ("axes: {rows: [4]}\ncycles: guess", "mine.yaml: cycles 'guess': must be rtl or model"),
        ("axes: {rows: [4]}\nsmoke: 1", "mine.yaml: smoke 1: must be true or false"),
        ("axes: {rows: [4]}\nsynth: {effort: some}", "effort 'some': must be one of quick, full"),
        ("axes: {rows: [4]}\nsynth: {target: liberty}", "target liberty needs a file of cells"),
        ("axes: {rows: [4]}\nsynth: {target: liberty, liberty: no.lib}", "no.lib: cannot read"),
        ("axes: {rows: [4]}\nenergy: true", "mine.yaml: energy: is sampled on a netlist of cells"),
        (
            "axes: {rows: [4]}\ncycles: model\nmemory: {latency: 9}",
            "memory with latency 9, stall 0: the timing model knows latency 100",
        ),
        ("axes: {rows: [4]}\nobjectives: [aera]", "'aera': no such objective (did you mean 'area'"),
        ("axes: {rows: [4]}\nobjectives: [rate]", "objective rate: the space must ask for a clock"),
        ("axes: {rows: [4]}\nobjectives: [pes, pes]", "objective pes: is given twice"),
        ("axes: {rows: [4]}\nobjectives: ['pes:add']", "'pes:add': is of the hardware alone"),
        (
            "axes: {rows: [4]}\nobjectives: ['cycles:sub']",
            "objective 'cycles:sub': no such workload; workloads of the space are add",
        ),
        (
            "axes: {banks: [3, 5], rows: [300]}",
            "mine.yaml: none of 2 points is legal:\n  2 × rows=300: must lie in 2…128",
        ),
    ],
)
def test_a_space_that_is_wrong_says_where(tmp_path: Path, text: str, message: str) -> None:
    if "workloads" not in text and text != "axes: {rows: [4]}":
        text += "\nworkloads: [add]"
    with pytest.raises(CampaignError) as error:
        grid_plan(load_space(space(tmp_path, text)))
    assert message in str(error.value)


def test_reasons_are_the_configurations_own() -> None:
    with pytest.raises(ConfigError) as error:
        preset("tiny").with_settings({"rows": "4", "cols": "12"})
    assert str(error.value).startswith(REASON)


def test_a_quantized_file_is_a_workload_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_model("digits").stored.save(tmp_path / "mine.safetensors")
    monkeypatch.chdir(tmp_path)
    work = check_workload("mine.safetensors")
    assert re.fullmatch(r"mine\.safetensors@[0-9a-f]{8}", work)
    assert file_name(work) == "mine.safetensors" and file_name("digits") == ""
    assert check_workloads(["mine.safetensors", "mine.safetensors"]) == [work]
    tiny = preset("tiny")
    assert prepare(work, tiny, 0).digest == prepare("digits", tiny, 0).digest
    command = repeat_command(Task(kind=Kind.RUN, config=tiny, workload=work, device="rtl"))
    assert command == "systola run mine.safetensors --limit 1 --config tiny --device rtl"

    Path("mine.safetensors").write_bytes(b"another")
    with pytest.raises(CampaignError) as error:
        prepare(work, tiny, 0)
    assert str(error.value) == f"workload {work}: the file has changed since; start again"
    with pytest.raises(CampaignError) as error:
        check_workload("none.safetensors")
    assert str(error.value) == "workload none.safetensors: cannot read: No such file or directory"


def test_ticks_of_the_picture_do_not_lie_over_each_other() -> None:
    assert _ticks([128, 144, 16, 256, 16]) == [16, 128, 256]
    assert _ticks([64]) == [64]


@pytest.mark.rtl
@pytest.mark.timeout(900)
def test_a_sweep_gives_rows_a_table_a_csv_and_a_picture_and_goes_on(tmp_path: Path) -> None:
    RtlDevice(preset("tiny")).close()
    path, database, out = space(tmp_path, SPACE), tmp_path / "r.sqlite", tmp_path / "out"
    arguments = ["sweep", path, "--db", database, "--out", out, "-w", "matmul:8x8x8,digits"]
    code, text = systola(*arguments)
    assert code == 0, text
    assert "PASS  sweep mine: 8 passed, 0 failed, 0 timed out, 0 error, 0 did not run, 2 il" in text
    assert f"ILLEGAL  point tiny+rows=4+cols=12\n    {REASON}" in text
    rows = query(database, "SELECT kind, status, count(*) FROM runs GROUP BY 1, 2 ORDER BY 1")
    assert rows == [
        ("build", "passed", 1),
        ("lint", "passed", 1),
        ("point", "illegal", 2),
        ("run", "passed", 6),
    ]
    with (out / "points.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [r["status"] for r in found] == ["passed", "passed", "illegal", "illegal"]
    assert {r["workload"] for r in found[:2]} == {"matmul:8x8x8", "digits"}
    for row in found[:2]:
        assert (row["bit_exact"], row["reference_exact"]) == ("True", "True")
        assert int(row["cycles"]) > 100 and int(row["pes"]) == 16
        assert 0 < float(row["utilization"]) < 1
    assert f"{int(found[0]['cycles']):,}" in text
    assert int(found[0]["verilog_lines"]) > 10_000
    assert found[2]["reason"].startswith(REASON) and found[2]["cycles"] == ""
    picture = (out / "points.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    assert width > 800 and height > 600
    assert f"{out / 'points.png'}: 2 measurements" in text

    before = query(database, "SELECT started_at, finished_at FROM runs")
    code, text = systola(*arguments)
    assert code == 0 and "goes on with 0 of 10 runs" in text
    assert query(database, "SELECT started_at, finished_at FROM runs") == before


def test_points_that_did_not_pass_have_no_figures(tmp_path: Path) -> None:
    tasks = grid_plan(load_space(space(tmp_path, SPACE))).tasks
    with Store(tmp_path / "r.sqlite") as store:
        campaign = store.campaign("sweep", "mine", tasks, options={})
        for run in campaign.runs():
            if run.status is Status.WAITING:
                wrong = run.task.workload == "add" and run.task.device == "golden"
                status = Status.FAILED if wrong else Status.PASSED
                outcome = Outcome(status=status, cycles=1000, macs=512)
                campaign.finish(run.id, outcome)
        runs = campaign.runs()
    first, second, third = point_results(runs)
    assert [m.cycles for m in first.results] == [1000, None]
    assert first.results[0].utilization == 512 / 16000
    assert first.results[1].status == "failed on golden"
    assert (first.results[1].bit_exact, first.results[1].reference_exact) == (True, False)
    assert second.config is None and second.reason.startswith(REASON)
    assert third.reason == "banks=3: must lie in 4…16"
    path = tmp_path / "points.png"
    assert write_picture([first, second], "mine", path) == 1 and path.exists()
    # Nothing to draw: no picture, not an old one either.
    assert write_picture([second], "mine", path) == 0 and not path.exists()


def test_a_space_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    code, text = systola("sweep", tmp_path / "none.yaml", "--db", tmp_path / "r.sqlite")
    assert code == 2 and "none.yaml: cannot read: " in text and "Traceback" not in text

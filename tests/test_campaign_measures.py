"""What tasks of a sweep measure: predictions with their error, synthesis, energy."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from campaign_helpers import Told

from spec import preset
from sw.campaign.measure import MEASURES, Bench, carry_out
from sw.campaign.measures import synthesis
from sw.campaign.measures.synthesis import Synthesis, check_tools
from sw.measure.bench_store import read_rows
from sw.measure.calibration.error import FILE, KERNEL, NETWORK, ROWS, errors_of, model_error
from sw.results.task import CampaignError, Kind, Outcome, Status, Task
from sw.synth import tools
from sw.synth.errors import SynthError

TINY = preset("tiny")


def bench() -> Bench:
    return Bench(Told())


def test_every_kind_that_a_campaign_carries_out_has_a_measure() -> None:
    # Illegal points are not tried; bench and conformance carry theirs out themselves.
    assert set(MEASURES) == set(Kind) - {Kind.POINT, Kind.BENCH, Kind.TEST}


def test_a_prediction_has_cycles_bytes_and_the_error_that_was_measured() -> None:
    task = Task(kind=Kind.PREDICT, config=TINY, workload="matmul:64x64x64", device="model")
    outcome = carry_out(task, bench())
    assert outcome.status is Status.PASSED, outcome.message
    assert outcome.cycles is None and outcome.macs == 64**3
    error = model_error("matmul")
    figures = outcome.figures
    # The RTL of tiny takes 17,923 cycles, and moves these bytes.
    assert abs(figures["predicted_cycles"] / 17_923 - 1) < 0.03
    assert (figures["read_bytes"], figures["write_bytes"]) == (28_016, 4_096)
    assert (figures["error_pct"], figures["worst_pct"]) == (error.mean_pct, error.worst_pct)


def test_a_memory_that_the_model_does_not_know_is_no_prediction() -> None:
    task = Task(kind=Kind.PREDICT, config=TINY, workload="add", device="model", latency=20)
    outcome = carry_out(task, bench())
    assert outcome.status is Status.ERROR and outcome.message == (
        "memory with latency 20, stall 0: the timing model knows latency 100 without stalls only; "
        "leave memory out, or take cycles: rtl"
    )


def test_the_stored_error_is_that_of_the_calibration() -> None:
    import yaml

    found = errors_of(read_rows(ROWS))
    again = "python -m sw.measure.calibration.error"
    assert yaml.safe_load(FILE.read_text()) == found, again
    sizes = [abs(r["predicted_cycles"] / r["cycles"] - 1) for r in read_rows(ROWS)
             if r.get("cycles") and r["workload"] == "add" and r["memory"] == "ideal"]  # fmt: skip
    assert math.isclose(found["ideal"]["add"]["worst_pct"], 100 * max(sizes), abs_tol=0.06)
    assert model_error("digits").mean_pct == found["ideal"][NETWORK]["mean_pct"]
    assert model_error("rescale").worst_pct == found["ideal"][KERNEL]["worst_pct"]


def test_a_synthesis_has_one_text(tmp_path: Path) -> None:
    (tmp_path / "a.lib").write_text("library (a) {}")
    how = Synthesis.checked("liberty", "full", str(tmp_path / "a.lib"))
    assert how.device.startswith(f"liberty-full:{tmp_path}/a.lib@")
    assert Synthesis.of(how.device) == how
    assert Synthesis.of("ecp5-quick") == Synthesis(target="ecp5", effort="quick")
    (tmp_path / "a.lib").write_text("library (b) {}")
    with pytest.raises(CampaignError, match=r"a\.lib: the file has changed since; start again"):
        synthesis.cells_of(how)


@pytest.mark.parametrize("target", ["generic", "ecp5"])
def test_a_synthesis_gives_the_figures_that_reports_read(
    monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    size = "area_ge" if target == "generic" else "luts"
    report = dict.fromkeys(synthesis._FIGURES, 1) | {"target": target, "effort": "quick"}
    report |= {"blocks": {"matrix": {size: 7}, "vector": {size: 9}}, "paths": ["left out"]}
    made = SimpleNamespace(to_json=lambda: report)
    called = []
    where = {"generic": "sw.synth.flow.synthesize", "ecp5": "sw.synth.fpga.ecp5.synthesize_ecp5"}
    monkeypatch.setattr(where[target], lambda *a: called.append(a) or made)
    outcome = carry_out(Task(kind=Kind.SYNTH, config=TINY, device=f"{target}-quick"), bench())
    assert outcome.status is Status.PASSED, outcome.message
    assert outcome.figures["blocks"] == {"matrix": 7, "vector": 9}
    assert set(outcome.figures) == {*synthesis._FIGURES, "blocks"}
    assert TINY in called[0]
    assert Outcome.from_json(outcome.to_json()) == outcome


def test_a_tool_that_is_missing_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(tools.shutil, "which", lambda name: None)
    check_tools(Synthesis())
    with pytest.raises(SynthError, match="Yosys is missing: pip install pyosys"):
        check_tools(Synthesis(effort="quick"))


def test_a_netlist_is_made_with_the_simulator_that_is_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    monkeypatch.setattr("sw.energy.flow.netlist_of", lambda *a: made.append((a[0], a[3])))
    entry = SimpleNamespace(release=lambda: made.append("released"))
    monkeypatch.setattr(
        "sw.energy.flow.build_simulator", lambda *a, **k: made.append(a[1].value) or entry
    )
    task = Task(kind=Kind.NETLIST, config=TINY, device="generic-quick")
    outcome = carry_out(task, bench())
    assert outcome.status is Status.PASSED, outcome.message
    assert made == [(TINY, True), "activity", "released"]
    assert outcome.figures["netlist_s"] >= 0

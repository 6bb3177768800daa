"""Random configurations, rows that are resumed, and the page of predictions against the RTL."""

import json
from pathlib import Path

import pytest

from spec import preset
from spec.dram import MEMORIES
from sw.measure.calibration.run import calibrate
from sw.measure.calibration.samples import WORKLOADS, Workload, chosen, configurations
from sw.measure.pages.calibration import page
from sw.runtime.report import ReportError
from sw.runtime.session import OptionError


def test_configurations_are_different_and_the_same_for_a_seed() -> None:
    found = configurations(40, 7)
    assert len({config.digest() for config in found}) == 40
    assert configurations(5, 7) == found[:5] != configurations(5, 8)
    fields = ("rows", "bus_bytes", "outstanding", "vector_lanes", "indexed_dma")
    assert all(len({getattr(config, name) for config in found}) > 1 for name in fields)


def test_workloads_by_name() -> None:
    assert chosen([]) == list(WORKLOADS) and len(WORKLOADS) >= 12
    assert [work.name for work in chosen(["add", "ad"])] == ["add", "ad"]
    with pytest.raises(OptionError, match=r"--only resnet: must be one of matmul, .*did you mean"):
        chosen(["resnet"])


@pytest.mark.rtl
def test_rows_are_measured_once_and_the_page_has_their_errors(tmp_path: Path) -> None:
    path, said = tmp_path / "rows.json", []
    works = [
        Workload(name="add", target="add", shape="h=4,w=4,c=9"),
        Workload(name="resize", target="resize", shape="h=4,w=4,c=4,factor=2"),
    ]
    configs = [preset("micro")]
    rows = calibrate(configs, works, path, said.append)
    assert [(row["workload"], row["memory"]) for row in rows] == [
        (work.name, memory) for work in works for memory in MEMORIES
    ]
    assert all(row["cycles"] > 100 and row["predicted_cycles"] > 100 for row in rows[:3])
    assert all("indexed_dma" in row["refused"] for row in rows[3:])
    assert said and calibrate(configs, works, path, pytest.fail) == rows == json.loads(
        path.read_text()
    )

    shown = page([{**rows[0], "cycles": 100, "predicted_cycles": 92}, *rows[1:]])
    assert "| `micro` | add | ideal |" not in shown and "| add | 8.0% | -8.0% |" in shown
    far = page([{**rows[0], "workload": "ad", "cycles": 100, "predicted_cycles": 120}, *rows[1:]])
    assert "Networks: mean error 20.0%, worst 20.0%." in far
    assert "| `micro` | ad | ideal | 100 | 120 | +20.0% |" in far
    with pytest.raises(ReportError, match="micro, add ideal: y differs"):
        page([{**rows[0], "error": "y differs"}])

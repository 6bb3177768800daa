"""`systola validate`: what it measures, what it calls a problem, and the page made of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import ROOT

from spec import preset
from sw.cli.main import main
from sw.measure.pages.validation import page, read_rows, render
from sw.measure.validate import MIN_PCC, disagreements, problems, validate
from sw.models.catalog import model_names
from sw.runtime.report import ReportError


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    """The smallest network with convolutions, pools and sums of its own: three samples."""
    return validate("ds_cnn", preset("small"), limit=3)


def test_a_network_is_compared_as_a_whole_and_operator_by_operator(row: dict[str, Any]) -> None:
    assert row["samples"] == 3
    assert row["pcc_pt2e"] >= MIN_PCC > row["pcc_between"]
    assert row["pcc_fp32"] > 0.99
    assert row["reference_exact"] is True and row["reference_elements"] == 12
    kinds = row["kinds"]
    assert {"CONV2D", "DEPTHWISE_CONV2D", "AVG_POOL2D"} == set(kinds)
    assert kinds["DEPTHWISE_CONV2D"]["layers"] == 4
    assert kinds["DEPTHWISE_CONV2D"]["elements"] == 4 * 125 * 64
    assert sum(k["layers"] for k in kinds.values()) == row["operators"] == 11
    assert row["operator_max_lsb"] <= 1
    assert row["operator_differing"] <= 0.001 * row["operator_elements"]
    assert problems(row) == []
    json.dumps(row)


BAD = {
    "pcc": ({"pcc_pt2e": 0.9989}, "PCC with PyTorch's int8 graph is 0.99890, below 0.999"),
    "alike": ({"pcc_between": 0.995}, "different samples have a PCC of 0.995"),
    "operator": (
        {
            "operators_beyond": [
                {"layer": "conv", "ops": [], "elements": 9, "differing": 4, "max_lsb": 2}
            ]
        },
        "conv: 4 of 9 elements differ by up to 2 LSB",
    ),
    "reference": ({"reference_exact": False}, "golden model and TOSA reference model differ"),
}


@pytest.mark.parametrize("name", BAD)
def test_problems_are_named(row: dict[str, Any], name: str) -> None:
    change, message = BAD[name]
    (found,) = problems({**row, **change})
    assert found.startswith(message)


def test_disagreements_have_the_margin_in_steps_of_the_output() -> None:
    pt2e = np.array([[1.0, 2.0, 0.0], [3.0, 1.0, 2.5], [0.0, 0.0, 1.0]], np.float32)
    npu = np.array([[1.0, 2.0, 0.0], [2.5, 1.0, 3.0], [0.0, 0.5, 1.0]], np.float32)
    assert disagreements(npu, pt2e, 0.25) == [{"sample": 1, "pt2e": 0, "npu": 2, "margin_steps": 2}]


def test_the_page_has_every_figure(row: dict[str, Any]) -> None:
    changed = {**row, "disagreements": [{"sample": 2, "pt2e": 7, "npu": 8, "margin_steps": 1}]}
    text = page([changed])
    assert f"| `ds_cnn` | 3 | {row['pcc_pt2e']:.5f} | {row['pcc_fp32']:.5f} |" in text
    assert "| 2/3 |" in text
    assert "| `ds_cnn` | 2 | 7 | 8 | 1 |" in text
    assert "| `ds_cnn` | DEPTHWISE_CONV2D | 4 | 32,000 |" in text
    assert "| `ds_cnn` | True | 12 |" in text
    assert row["config_digest"] in text


def test_the_published_page_is_made_of_the_published_records() -> None:
    rows = read_rows(ROOT / "docs" / "data" / "validation.json")
    assert [r["name"] for r in rows] == model_names()
    assert [problems(r) for r in rows] == [[]] * len(rows)
    assert all(r["samples"] >= 32 for r in rows)


def test_the_command_renders_records(row: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text(json.dumps([row]))
    with pytest.raises(SystemExit) as end:
        main(
            [
                "pages",
                "validation",
                "--data",
                str(tmp_path / "v.json"),
                "-o",
                str(tmp_path / "v.md"),
            ]
        )
    assert not end.value.code
    assert (tmp_path / "v.md").read_text() == page([row])


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "no JSON"), ("{}", "must be a list of records"), ('[{"name": "x"}]', "has no 'samples'")],
)
def test_files_that_hold_no_records_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "v.json").write_text(content)
    with pytest.raises(ReportError, match=message):
        render([tmp_path / "v.json"])

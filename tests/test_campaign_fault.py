"""A broken RTL turns a regression red, and every report says where."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from campaign_helpers import ROOT, query

from sw.campaign.mutants.mutations import apply, copy_sources, load_mutations

WORKLOAD = "matmul:3x17x9"


def regress(tree: Path, folder: Path) -> tuple[int, str]:
    """(exit code, output) of a suite of one run on golden and RTL, by the sources in `tree`."""
    suite = folder / "one.yaml"
    suite.write_text(f"entries: [{{configs: [tiny], workloads: ['{WORKLOAD}']}}]")
    path = [str(tree), *(p for p in sys.path if p and Path(p).resolve() != ROOT)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "systola", "regress", str(suite), "--jobs", "1"),
            *("--db", str(folder / "r.sqlite"), "--json", str(folder / "rows.json")),
            *("--junit", str(folder / "junit.xml")),
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sums_that_are_not_added_are_found_in_their_layer_and_instruction(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    copy_sources(tree)
    mutation = next(m for m in load_mutations() if m.name == "lost_accumulate")
    apply(mutation, tree)
    code, text = regress(tree, tmp_path)
    assert code == 1, text
    title = f"{WORKLOAD} tiny rtl seed 0"
    # On the terminal. Golden is not the RTL: it passes.
    assert f"FAILED  {title}" in text and "it arises in layer matmul, instruction " in text
    assert "repeat: systola sim matmul --shape 3x17x9 --seed 0 --config tiny --device rtl" in text
    assert "2 passed, 1 failed, 0 timed out, 0 error, 0 did not run of 3" in text
    # In the database and in the rows for other programs.
    ((status, mismatch),) = query(
        tmp_path / "r.sqlite",
        f"SELECT status, mismatch FROM runs WHERE workload = '{WORKLOAD}' AND device = 'rtl'",
    )
    found = json.loads(mismatch)
    assert status == "failed" and found["layer"] == "matmul"
    assert found["text"].startswith("matrix ") and found["instruction"] > 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["mismatch"] for row in rows if row["status"] == "failed"] == [found]
    # On the page beside the database.
    page = (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    assert title in page and json.dumps(found["text"])[1:-1] in page
    # In JUnit XML.
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("3", "1")
    (case,) = [c for c in root.iter("testcase") if c.find("failure") is not None]
    failure = case.find("failure")
    assert case.get("name") == title and failure is not None
    lines = (failure.text or "").splitlines()
    assert "layer: matmul" in lines and f"instruction: {found['instruction']}" in lines
    assert f"text: {found['text']}" in lines
